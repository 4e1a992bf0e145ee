"""The fuzzers themselves: they notice what goes wrong, mutations are reproducible, and failing inputs become small."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.core.broker import Broker
from scale0.core.client_session import ClientSession
from scale0.core.participant import ParticipantEffect, Settled
from scale0.core.worker_session import WorkerSession
from scale0.errors import ProtocolError
from scale0.protocol import codec
from scale0.protocol.dialects import CLIENT, PEER
from scale0.protocol.messages import Message, Ping, Task, TaskReply
from tests.fuzz import coverage, failures
from tests.fuzz.broker_world import LIMITS, BrokerWorld, task_id
from tests.fuzz.conversation import Conversation, Step, parse, write
from tests.fuzz.participant_worlds import ClientWorld, WorkerWorld
from tests.fuzz.seeds import conversation, files
from tests.fuzz.stories import BROKER, to_client, to_worker
from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.text_mutation import damage

STORIES = parse(conversation("network", BROKER["peers"][1]()))


# --- conversations --------------------------------------------------------------------------------------------------

words = st.text(st.sampled_from("abcdefghijklmnop@019"), min_size=1, max_size=8)
steps = st.builds(
    Step,
    words.filter(lambda word: word != "world"),
    words,
    st.sampled_from([0.0, 0.5, 20.0, -1.0]),
    st.lists(st.binary(max_size=40), max_size=5).map(tuple),
)


@settings(deadline=None)
@given(world=words, steps=st.lists(steps, max_size=8))
def test_conversation_that_is_written_is_read_again(world: str, steps: list[Step]) -> None:
    assert parse(write(Conversation(world, steps))) == Conversation(world, steps)


@settings(deadline=None)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_some_conversation(data: bytes) -> None:
    found = parse(data)
    assert parse(write(found)) == found


# --- bugs that were planted are noticed -----------------------------------------------------------------------------


class Raising(Broker):
    def receive(self, *arguments: Any) -> Any:
        if isinstance(arguments[2], Ping):
            raise UnicodeError("planted")
        return super().receive(*arguments)


class Forgetful(Broker):
    """Takes a task out of the ledger and settles nothing."""

    def tick(self, now: float, wall_s: float) -> Any:
        effects = super().tick(now, wall_s)
        if self.state.ledger.entries and now > 1010:
            self.state.ledger.entries.popitem()
        return effects


class Sleepless(Broker):
    def next_deadline(self) -> float:
        return 0.0


class Hoarder(Broker):
    """Keeps a counter for each name that it hears."""

    def receive(self, *arguments: Any) -> Any:
        for number in range(300):
            self.state.counters[f"heard_{number}"] += 1
        return super().receive(*arguments)


class Mumbling(Broker):
    """Sends what no peer can read."""

    def receive(self, *arguments: Any) -> Any:
        effects = super().receive(*arguments)
        for effect in effects:
            message = getattr(effect, "message", None)
            if isinstance(message, Task):
                message.priority = 9
        return effects


@pytest.mark.parametrize("broker", [Raising, Forgetful, Sleepless, Hoarder, Mumbling])
def test_planted_bug_of_a_broker_is_noticed(broker: type[Broker]) -> None:
    said = [Step("say", "ann", 3.0, tuple(codec.encode(CLIENT, Ping(1))))]
    freed = codec.encode(PEER, TaskReply(task_id("ann", 11), (b"done",)))  # what waits for b2 is sent there
    story = Conversation("network", [*said, Step("say", "b2", 0.0, tuple(freed))])
    BrokerWorld("network").play(story)
    with pytest.raises((UnicodeError, ProtocolError, AssertionError)):
        BrokerWorld("network", broker).play(story)


class Doubling(ClientSession):
    def receive(self, message: Message, now: float) -> list[ParticipantEffect]:
        effects = super().receive(message, now)
        return [*effects, *[effect for effect in effects if isinstance(effect, Settled)]]


class Losing(ClientSession):
    def close(self, now: float) -> list[ParticipantEffect]:
        self._open.clear()
        return []

    def tick(self, now: float, wall_s: float) -> list[ParticipantEffect]:
        return [effect for effect in super().tick(now, wall_s) if not isinstance(effect, Settled)]


@pytest.mark.parametrize("session", [Doubling, Losing])
def test_planted_bug_of_a_client_is_noticed(session: type[ClientSession]) -> None:
    story = parse(conversation("", to_client()))
    ClientWorld().play(story)
    with pytest.raises(AssertionError):
        ClientWorld("", session).play(story)


class Eager(WorkerSession):
    """Takes whatever it is given."""

    def receive_tasks(self, tasks: Any, now: float, out: Any) -> list[Task]:
        super().receive_tasks(tasks, now, out)
        return list(tasks)


def test_planted_bug_of_a_worker_is_noticed() -> None:
    story = parse(conversation("", to_worker()))
    WorkerWorld().play(story)
    with pytest.raises(AssertionError):
        WorkerWorld("", Eager).play(story)


def test_worlds_reach_the_limits_of_the_broker() -> None:
    """A flood of strangers and of bad messages fills the tables to their caps, and no further."""
    world = BrokerWorld("lone")
    for number in range(4 * LIMITS.strangers):
        world.act(Step("say", f"s{number}", 0.0, tuple(codec.encode(CLIENT, Ping(1)))))
        world.act(Step("say", f"s{number}", 0.0, (b"SC0C01",)))
    assert len(world.state.strangers) == LIMITS.strangers
    assert len(world.state.error_clients.records) == LIMITS.error_clients


# --- mutations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_seed_gives_the_same_mutations_again(target: Target) -> None:
    (first, *_) = target.inputs().values()
    mutations = [target.mutator.mutate(first, random.Random(seed)) for seed in range(20)]
    assert mutations == [target.mutator.mutate(first, random.Random(seed)) for seed in range(20)]
    assert len(set(mutations)) > 10


def test_most_mutated_messages_can_be_decoded() -> None:
    """Else nothing behind the codec would be fuzzed."""
    mutator, chance = TARGETS["broker"].mutator, random.Random(1)
    good = bad = 0
    for _ in range(100):
        for step in parse(mutator.mutate(write(STORIES), chance)).steps:
            try:
                codec.decode(step.frames)
                good += 1
            except ProtocolError:
                bad += 1
    assert good > 5 * bad > 0


@settings(deadline=None)
@given(data=st.binary(max_size=200), seed=st.integers(0, 1000))
def test_damage_never_makes_a_file_much_larger(data: bytes, seed: int) -> None:
    assert len(damage(data, random.Random(seed))) <= len(data) + 64


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_failing_input_is_reduced_to_what_fails() -> None:
    def run(data: bytes) -> None:
        if b"say ann" in data and b"body" in data:
            raise ValueError("planted")

    data = files()["broker/seed-native-client"]
    assert failures.failure_of(run, data) == "valueerror-in-run"
    reduced = failures.reduce(run, data, runs_max=5000)
    assert failures.failure_of(run, reduced) == "valueerror-in-run"
    assert len(reduced) < 20


def test_input_is_kept_for_what_it_alone_covers() -> None:
    run = TARGETS["zpl"].run
    kept, same, other = b"liveness = 4\n", b"liveness = 5\n", b"liveness\n    = 3"
    assert coverage.choose(run, [kept], [same, other]) == [other]
