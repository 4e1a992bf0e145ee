"""What is fuzzed: for each target, what runs an input, what mutates one, and where its corpus is kept.

A corpus file whose name begins with `seed-` was made by `seeds.py`, with `new-` it was kept by `make fuzz` for what it
covers, and any other once made the code fail: its name tells how.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from tests.fuzz import broker_world, document_targets, file_targets, participant_worlds
from tests.fuzz.conversation import parse
from tests.fuzz.mutation import Mutator
from tests.fuzz.records_mutation import RecordsMutator
from tests.fuzz.seeds import CORPUS
from tests.fuzz.text_mutation import TextMutator

CLIENT_VERBS: Final = ("say", "say", "full", "submit", "cancel", "break", "jump", "close")
WORKER_VERBS: Final = (
    "say", "say", "full", "answer", "part", "return", "offer", "withdraw", "capacity", "backlog", "leave", "break",
    "jump", "close",
)  # fmt: skip
BROKER_VERBS: Final = ("say", "say", "say", "full", "gone", "jump", "break", "hear", "drain")
PARTICIPANT_WORLDS: Final = ("usual", "alone", "patient", "new")


class AnyMutator(Protocol):
    def mutate(self, data: bytes, chance: random.Random) -> bytes: ...


class Target:
    """One thing that is fuzzed. `run` raises, or fails an assertion, for an input that must not exist."""

    def __init__(
        self, name: str, run: Callable[[bytes], None], mutator: Callable[[list[bytes]], AnyMutator], weight: int = 1
    ) -> None:
        self.name = name
        self.run = run
        self.weight = weight  # its share of the time
        self._make_mutator = mutator

    @property
    def corpus(self) -> Path:
        return CORPUS / self.name

    def inputs(self) -> dict[str, bytes]:
        """The kept inputs by name."""
        return {path.name: path.read_bytes() for path in sorted(self.corpus.glob("*")) if path.is_file()}

    @cached_property
    def mutator(self) -> AnyMutator:
        return self._make_mutator(list(self.inputs().values()))


def _conversations(verbs: tuple[str, ...], worlds: tuple[str, ...]) -> Callable[[list[bytes]], AnyMutator]:
    return lambda inputs: Mutator(list(map(parse, inputs)), verbs, worlds)


TARGETS: Final = {
    target.name: target
    for target in (
        Target("broker", broker_world.run, _conversations(BROKER_VERBS, tuple(broker_world.WORLDS)), weight=8),
        Target("client", participant_worlds.run_client, _conversations(CLIENT_VERBS, PARTICIPANT_WORLDS), weight=3),
        Target("worker", participant_worlds.run_worker, _conversations(WORKER_VERBS, PARTICIPANT_WORLDS), weight=3),
        *[Target(kind.lower(), document_targets.runner_of(kind), TextMutator) for kind in document_targets.FORMATS],
        Target("state", file_targets.run_state, TextMutator),
        Target("records", file_targets.run_records, RecordsMutator),
        Target("saved", file_targets.run_saved, TextMutator),
    )
}
