"""A conversation as text: what the fuzzers feed to a state machine, a step a line, so that people can read a corpus.

    world network
    say ann 0.5 SC0C01%06%00%00…
    full mdp1 0 - MDPC01 echo body

The first line names the world that the conversation meets. Each further one has a verb, who acts, how many seconds
after the step before, and the frames of one message: percent-encoded, `-` for an empty one. Whatever the bytes, `parse`
finds some conversation in them, for a fuzzer's inputs come from anywhere; what is no step is left out.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

STEPS_MAX: Final = 48
FRAMES_MAX: Final = 36  # a few more than one message may have
FRAME_BYTES_MAX: Final = 16 * 1024
PAUSE_S_MAX: Final = 1e6

_EMPTY: Final = "-"
_PLAIN: Final = "!\"#$&'()*+,/:;<=>?@[\\]^`{|}"  # readable as they are; blank and percent are not


class Step(NamedTuple):
    verb: str
    who: str
    pause_s: float = 0.0
    frames: tuple[bytes, ...] = ()


class Conversation(NamedTuple):
    world: str
    steps: list[Step]


def parse(data: bytes) -> Conversation:
    """The conversation in `data`."""
    world = ""
    steps: list[Step] = []
    for line in data.decode("ascii", errors="ignore").split("\n"):
        words = line.split()
        if len(words) == 2 and words[0] == "world":
            world = words[1]
        elif len(words) >= 2 and len(steps) < STEPS_MAX:
            pause_s = _pause_s(words[2]) if len(words) > 2 else 0.0
            steps.append(Step(words[0], words[1], pause_s, tuple(map(_frame, words[3 : 3 + FRAMES_MAX]))))
    return Conversation(world, steps)


def write(conversation: Conversation) -> bytes:
    """Text that `parse` reads as this conversation."""
    lines = [f"world {conversation.world}"] if conversation.world else []
    for step in conversation.steps:
        frames = [quote_from_bytes(frame, safe=_PLAIN).replace("-", "%2D") or _EMPTY for frame in step.frames]
        lines.append(" ".join([step.verb, step.who, f"{step.pause_s!r}".removesuffix(".0"), *frames]))
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _frame(word: str) -> bytes:
    return b"" if word == _EMPTY else unquote_to_bytes(word)[:FRAME_BYTES_MAX]


def _pause_s(word: str) -> float:
    try:
        pause_s = float(word)
    except ValueError:
        return 0.0
    return pause_s if -PAUSE_S_MAX <= pause_s <= PAUSE_S_MAX else 0.0  # not a number is neither
