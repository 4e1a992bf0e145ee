"""Mutations of conversations that know their structure: most of what they make is nearly right, where bugs are.

A message is decoded, one of its fields gets another value, drawn from those that other messages have in fields of that
type or from the borders of what fits, and it is encoded again. Beside that stand coarser changes: steps are dropped,
doubled, swapped and borrowed from other conversations, frames are cut and joined, bytes are flipped. Chance comes from
outside, so that a seed gives the same mutations again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scale0.errors import ProtocolError
from scale0.protocol import codec, native
from scale0.protocol.dialects import (
    CLIENT,
    MDP1_CLIENT,
    MDP1_WORKER,
    MDP2_CLIENT,
    MDP2_WORKER,
    PEER,
    REQ_CLIENT,
    REQ_WORKER,
    WORKER,
)
from tests.fuzz.conversation import STEPS_MAX, Conversation, Step, parse, write
from tests.fuzz.records_mutation import change_document, change_snapshot

ROUNDS_MAX: Final = 4  # changes to one conversation at once
BYTES_MAX: Final = 12  # that one flip touches
DEEP: Final = 600  # levels of a nested value

DIALECTS: Final = (
    CLIENT,
    WORKER,
    PEER,
    REQ_CLIENT,
    REQ_WORKER,
    MDP1_CLIENT,
    MDP1_WORKER,
    MDP2_CLIENT,
    MDP2_WORKER,
)
PAUSES_S: Final = (0.0, 0.0, 0.0, 0.01, 0.1, 1.0, 2.6, 7.6, 20.0, 400.0)
INTEGERS: Final = (0, 1, 2, 3, 5, 127, 128, 255, 256, 4096, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**64 - 1, -1)
TEXTS: Final = ("", "a", "all", "é", "\x00", "\n", "%", "scale0.", "mmi.service", "tcp://10.0.0.2:5555", "x" * 129)

Value = Any  # of any parameter: what msgpack can say


class Mutator:
    """Changes conversations; `others` is where it borrows from."""

    def __init__(self, others: list[Conversation], verbs: tuple[str, ...], worlds: tuple[str, ...]) -> None:
        self._verbs = verbs
        self._worlds = worlds
        self._steps = [step for conversation in others for step in conversation.steps] or [Step("say", "ann")]
        self._names = sorted({step.who for step in self._steps})
        self._values = _values_of(self._steps)

    def mutate(self, data: bytes, chance: random.Random) -> bytes:
        """Another conversation, made from the one in `data`."""
        conversation = parse(data)
        world, steps = conversation.world, list(conversation.steps)
        for _ in range(chance.randint(1, ROUNDS_MAX)):
            if chance.random() < 0.02:
                world = chance.choice(self._worlds)
            elif not steps or chance.random() < 0.35:
                self._change_steps(steps, chance)
            else:
                place = chance.randrange(len(steps))
                steps[place] = self._change_step(steps[place], chance)
        return write(Conversation(world, steps[:STEPS_MAX]))

    # --- steps ----------------------------------------------------------------------------------------------------

    def _change_steps(self, steps: list[Step], chance: random.Random) -> None:
        place = chance.randrange(len(steps) + 1)
        choice = chance.random()
        if not steps or choice < 0.5:
            steps[place:place] = [self._borrowed(chance) for _ in range(chance.randint(1, 3))]
        elif choice < 0.65:
            del steps[place : place + chance.randint(1, 3)]
        elif choice < 0.85:
            steps[place:place] = [chance.choice(steps)] * chance.choice((1, 1, 2, 8))
        else:
            chance.shuffle(steps)

    def _borrowed(self, chance: random.Random) -> Step:
        step = chance.choice(self._steps)
        return self._change_step(step, chance) if chance.random() < 0.3 else step

    def _change_step(self, step: Step, chance: random.Random) -> Step:
        choice = chance.random()
        if choice < 0.1:
            return step._replace(pause_s=chance.choice(PAUSES_S))
        if choice < 0.2:
            return step._replace(who=chance.choice(self._names))
        if choice < 0.27:
            return step._replace(verb=chance.choice(self._verbs))
        if choice < 0.85:
            return step._replace(frames=self._change_message(step.frames, chance))
        return step._replace(frames=tuple(change_frames(list(step.frames), chance)))

    # --- messages -------------------------------------------------------------------------------------------------

    def _change_message(self, frames: tuple[bytes, ...], chance: random.Random) -> tuple[bytes, ...]:
        """Another value in one field, or another dialect. What cannot be encoded is changed as bytes instead."""
        try:
            dialect, message = codec.decode(frames)
        except ProtocolError:
            return tuple(change_frames(list(frames), chance))
        names = message.__struct_fields__
        if not names or chance.random() < 0.1:
            dialect = chance.choice([other for other in DIALECTS if other.is_native == dialect.is_native])
        elif chance.random() < 0.15 and dialect.is_native:
            return self._change_map(frames, chance)
        else:
            name = chance.choice(names)
            changed = msgspec.structs.replace(message, **{name: self._another(name, getattr(message, name), chance)})
            if hasattr(changed, "received") and name != "received":
                changed.received = b""
            message = changed
        try:
            encoded = tuple(codec.encode(dialect, message))
        except Exception:  # values that no field can hold: encoding is not what is fuzzed here
            encoded = ()
        is_sound = encoded and all(type(frame) is bytes for frame in encoded)
        return encoded if is_sound else tuple(change_frames(list(frames), chance))

    def _change_map(self, frames: tuple[bytes, ...], chance: random.Random) -> tuple[bytes, ...]:
        """A parameter that is missing, unknown or of another type."""
        *envelope, header = frames if len(frames) <= 2 else frames[:1]
        prefix, packed = header[: native.PREFIX_BYTES], header[native.PREFIX_BYTES :]
        try:
            parameters = msgspec.msgpack.decode(packed, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return tuple(change_frames(list(frames), chance))
        name = chance.choice([*parameters, "unknown", "time", "id"])
        if name in parameters and chance.random() < 0.3:
            del parameters[name]
        else:
            parameters[name] = self._anything(chance)
        return (*envelope, prefix + msgspec.msgpack.encode(parameters))

    def _another(self, name: str, value: Value, chance: random.Random) -> Value:
        """A value of the same type, and often one that another message has in this field."""
        if name == "changes" and chance.random() < 0.9:
            return self._changed_stream(value, chance)
        if isinstance(value, bytes) and name in _BY_NAME and chance.random() < 0.8:
            return _BY_NAME[name](value, chance)
        seen = self._values.get(name)
        if seen and chance.random() < 0.4:
            return chance.choice(seen)
        return self._changed(value, chance)

    def _changed(self, value: Value, chance: random.Random) -> Value:
        for kind, change in _CHANGES:
            if isinstance(value, kind):
                return change(self, value, chance)
        return self._anything(chance)

    def _anything(self, chance: random.Random) -> Value:
        choice = chance.randrange(8)
        if choice == 0:
            return _nested(chance.choice((2, 17, 40, DEEP)))
        if choice == 1:
            return {chance.choice(TEXTS): self._anything(chance)}
        if choice == 2:
            return [self._anything(chance) for _ in range(chance.randint(0, 3))]
        if choice == 3:
            return chance.choice((None, True, 1.5, float("nan"), float("inf"), -1e308))
        if choice == 4:
            return chance.choice(INTEGERS)
        if choice == 5:
            return chance.choice(TEXTS)
        if choice == 6:
            return chance.randbytes(chance.choice((0, 1, 8, 16, 17, 200)))
        return chance.choice(chance.choice(list(self._values.values()) or [[None]]))

    def _changed_text(self, value: str, chance: random.Random) -> str:
        texts = [text for values in self._values.values() for text in values[:4] if isinstance(text, str)]
        return chance.choice([*TEXTS, *texts, value + "x", value[:-1], value * 2])

    def _changed_bytes(self, value: bytes, chance: random.Random) -> bytes:
        choices = (b"", value[:-1], value + b"\xff", flip(value, chance), b"\xff" * len(value), bytes(len(value)))
        return chance.choice(choices)

    def _changed_list(self, value: Any, chance: random.Random) -> Any:
        items = list(value)
        choice = chance.random()
        if items and choice < 0.3:
            items[chance.randrange(len(items))] = self._changed(chance.choice(items), chance)
        elif items and choice < 0.5:
            del items[chance.randrange(len(items))]
        elif items and choice < 0.8:
            items += [chance.choice(items)] * chance.choice((1, 1, 3, 40))
        else:  # a tuple is a body: frames
            items.append(chance.randbytes(3) if isinstance(value, tuple) else self._anything(chance))
        return type(value)(items)

    def _changed_map(self, value: dict[str, Any], chance: random.Random) -> dict[str, Any]:
        changed = dict(value)
        name = chance.choice([*changed, "identity", "endpoints", "what", "document", chance.choice(TEXTS)])
        if name == "document":
            return changed | {name: change_document(str(changed.get(name, "{}")).encode(), chance).decode("latin-1")}
        if name in changed and chance.random() < 0.2:
            del changed[name]
        else:
            changed[name] = self._changed(changed.get(name), chance)
        return changed

    def _changed_stream(self, frames: tuple[bytes, ...], chance: random.Random) -> tuple[bytes, ...]:
        """One of the changes that a STREAM tells, or one of its fields, is another."""
        try:
            changes = msgspec.msgpack.decode(b"".join(frames), type=list[list[Any]])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            changes = []
        place = chance.randrange(len(changes)) if changes else 0
        if changes and changes[place] and chance.random() < 0.7:
            fields = list(changes[place])
            field = chance.randrange(len(fields))
            fields[field] = chance.randrange(14) if field == 0 else self._changed(fields[field], chance)
            changes[place] = fields
        else:
            changes = self._changed_list(changes, chance)
        return (msgspec.msgpack.encode(changes),)

    def _changed_struct(self, value: Any, chance: random.Random) -> Any:
        name = chance.choice(value.__struct_fields__)
        return msgspec.structs.replace(value, **{name: self._another(name, getattr(value, name), chance)})


_BY_NAME: Final[dict[str, Callable[[bytes, random.Random], bytes]]] = {
    "state": change_snapshot,
    "document": change_document,
    "config": change_document,
}
"""Parameters that have an inner structure."""

_CHANGES: Final[list[tuple[type[Any], Callable[[Mutator, Any, random.Random], Any]]]] = [
    (bool, lambda _self, value, _chance: not value),
    (int, lambda _self, value, chance: chance.choice((*INTEGERS, value + 1, value - 1, value * 2))),
    (str, Mutator._changed_text),
    (bytes, Mutator._changed_bytes),
    (list, Mutator._changed_list),
    (tuple, Mutator._changed_list),
    (dict, Mutator._changed_map),
    (msgspec.Struct, Mutator._changed_struct),
]


def change_frames(frames: list[bytes], chance: random.Random) -> list[bytes]:
    """Frames that no codec made: cut, joined, doubled, or with other bytes."""
    place = chance.randrange(len(frames)) if frames else 0
    choice = chance.random()
    if not frames or choice < 0.15:
        frames.insert(place, chance.choice((b"", b"\0", b"x", chance.randbytes(8))))
    elif choice < 0.3:
        del frames[place]
    elif choice < 0.4:
        frames[place:place] = [frames[place]] * chance.choice((1, 2, 40))
    elif choice < 0.5:
        cut = chance.randrange(len(frames[place]) + 1)
        frames[place] = frames[place][:cut]
    else:
        frames[place] = flip(frames[place], chance)
    return frames


def flip(data: bytes, chance: random.Random) -> bytes:
    """A few bytes in a row are others."""
    changed = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 2, BYTES_MAX))):
        place = chance.randrange(len(changed))
        changed[place] = chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256), changed[place] ^ 1))
    return bytes(changed)


def _nested(levels: int) -> Value:
    value: Value = []
    for _ in range(levels):
        value = [value]
    return value


def _values_of(steps: list[Step]) -> dict[str, list[Value]]:
    """What the messages of these steps have in each of their fields, each value once."""
    found: dict[str, list[Value]] = {}
    for step in steps:
        try:
            _, message = codec.decode(step.frames)
        except ProtocolError:
            continue
        for name in message.__struct_fields__:
            values = found.setdefault(name, [])
            value = getattr(message, name)
            if value not in values:
                values.append(value)
    return found
