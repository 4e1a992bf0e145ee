"""The copy is the original: whatever happens to the active broker, its follower holds the same.

Hypothesis makes participants come, work, misbehave and go at the active broker; after each step, when all that is under
way has arrived, what a successor needs is compared. The standby is restarted and cut off by the way, so that whole
copies are compared as well as streams of changes.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scale0.core.effects import Route
from scale0.protocol.dialects import CLIENT, MDP1_CLIENT, MDP2_WORKER, WORKER
from scale0.protocol.majordomo import MdpReady, MdpReply, MdpRequest, MdpTask
from scale0.protocol.messages import (
    Cancel,
    Connect,
    Disconnect,
    Flag,
    Ping,
    Ready,
    ServiceOffer,
    Status,
    Task,
    TaskReply,
)
from tests.core.mesh import WORKER_NONCE, id_of, pair_of
from tests.core.star_kit import copy_of

CLIENTS = st.sampled_from(["ada", "bob"])
WORKERS = st.sampled_from(["w1", "w2", "w3"])
SERVICES = st.sampled_from(["once", "again"])
DEADLINE_SLACK_S = 0.01


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.mesh, self.primary, self.fallback = pair_of()
        self.sequences = {"ada": 0, "bob": 0}
        self.nonces = 0
        self.given: list[tuple[str, Task]] = []
        self.addresses: list[bytes] = []

    # --- participants -------------------------------------------------------------------------------------------------

    @rule(name=CLIENTS, config_type=st.sampled_from(["JSON", "ZPL"]))
    def client_connects(self, name: str, config_type: str) -> None:
        self.primary.client(name, config_type=config_type, home="back")

    @rule(
        name=WORKERS,
        services=st.lists(SERVICES, min_size=1, max_size=2, unique=True),
        capacity=st.integers(0, 3),
        lists=st.booleans(),
    )
    def worker_is_ready(self, name: str, services: list[str], capacity: int, lists: bool) -> None:
        held = [task.id for holder, task in self.given if holder == name] if lists else []
        connect = Connect(identity=name, nonce=WORKER_NONCE, services=services, in_flight=list(held))
        self.primary.say(name, WORKER, connect)
        offers = [ServiceOffer(service, service == "again", 2) for service in services]
        self.primary.say(name, WORKER, Ready(services=offers, capacity=capacity, in_flight=list(held)))

    @rule(name=WORKERS)
    def worker_connects_on_another_route(self, name: str) -> None:
        self.nonces += 1
        connect = Connect(identity=name, nonce=WORKER_NONCE, services=["again"])
        node = self.primary
        node.do(node.broker.receive(Route(b"\0%b" % name.encode()), WORKER, Ping(0), self.mesh.now))
        node.do(node.broker.receive(Route(b"\0%d" % self.nonces), WORKER, connect, self.mesh.now))

    @rule(name=st.one_of(CLIENTS, WORKERS))
    def participant_leaves(self, name: str) -> None:
        self.primary.say(name, CLIENT if name in self.sequences else WORKER, Disconnect())

    @rule(name=WORKERS)
    def another_process_takes_the_identity(self, name: str) -> None:
        self.mesh.beats = False
        self.mesh.run(4.0, 0.5)
        self.mesh.beats = True
        self.primary.say(name, WORKER, Connect(identity=name, nonce=b"anothers", services=["once"]))

    @rule(service=SERVICES)
    def majordomo_worker_is_ready(self, service: str) -> None:
        self.primary.say("m", MDP2_WORKER, MdpReady(service))

    # --- tasks --------------------------------------------------------------------------------------------------------

    @rule(
        name=CLIENTS,
        service=SERVICES,
        priority=st.integers(0, 3),
        timeout_s=st.sampled_from([0.1, 3.0, 30.0]),
        options=st.sampled_from([b"", b"\x80"]),
        flags=st.sampled_from([0, 0, int(Flag.RESENT), Flag.RESENT | Flag.SAME_PAIR]),
    )
    def task_is_sent(
        self, name: str, service: str, priority: int, timeout_s: float, options: bytes, flags: int
    ) -> None:
        self.sequences[name] += 1
        terms: dict[str, Any] = {"priority": priority, "options": options, "flags": int(flags), "send_time_us": 7}
        self.primary.submit(name, self.sequences[name], service, timeout_s, **terms)

    @rule(name=CLIENTS, back=st.integers(0, 4))
    def task_is_sent_again(self, name: str, back: int) -> None:
        if self.sequences[name] > back:
            self.primary.submit(name, self.sequences[name] - back, "once", 5.0, flags=int(Flag.RESENT))

    @rule(name=CLIENTS, back=st.integers(0, 4))
    def task_is_cancelled(self, name: str, back: int) -> None:
        if self.sequences[name] > back:
            self.primary.say(name, CLIENT, Cancel(id=id_of(name, self.sequences[name] - back)))

    @rule()
    def majordomo_client_asks(self) -> None:
        self.primary.say("mc", MDP1_CLIENT, MdpRequest("once", (b"body",)))

    @rule(
        index=st.integers(0, 9),
        status=st.sampled_from([Status.OK, Status.OK, Status.FAILED, Status.RETURNED]),
        body=st.sampled_from([(b"done",), (b"", b"raw"), (), (bytes(9000),)]),
    )
    def worker_replies(self, index: int, status: Status, body: tuple[bytes, ...]) -> None:
        if self.given:
            name, task = self.given.pop(index % len(self.given))
            self.primary.say(name, WORKER, TaskReply(task.id, body, task.attempt, int(status)))

    @rule(index=st.integers(0, 9), part=st.integers(0, 2))
    def worker_sends_a_part(self, index: int, part: int) -> None:
        if self.given:
            name, task = self.given[index % len(self.given)]
            self.primary.say(name, WORKER, TaskReply(task.id, (b"part",), task.attempt, part=part, final=False))

    @rule()
    def majordomo_worker_replies(self) -> None:
        if self.addresses:
            self.primary.say("m", MDP2_WORKER, MdpReply(self.addresses.pop(0), (b"done",)))

    @rule(name=CLIENTS, back=st.integers(0, 3))
    def client_has_heard_all_below(self, name: str, back: int) -> None:
        oldest = max(1, self.sequences[name] - back + 1)
        self.primary.say(name, CLIENT, Ping(round(self.mesh.now * 1e6), oldest_unanswered=oldest))

    @rule(name=CLIENTS)
    def client_wants_nothing_kept_ever(self, name: str) -> None:
        self.primary.say(name, CLIENT, Ping(round(self.mesh.now * 1e6), oldest_unanswered=2**64 - 1))

    @rule(name=st.one_of(CLIENTS, WORKERS), interval_ms=st.sampled_from([1, 5_000, 2**32 - 1]))
    def participant_has_another_interval(self, name: str, interval_ms: int) -> None:
        ping = Ping(round(self.mesh.now * 1e6), heartbeat_interval_ms=interval_ms)
        self.primary.say(name, CLIENT if name in self.sequences else WORKER, ping)

    @rule(name=CLIENTS, far=st.booleans())
    def client_counts_very_high(self, name: str, far: bool) -> None:
        self.sequences[name] = max(self.sequences[name], 2**63 - 2 if far else 2**62)

    # --- the world around ---------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.2, 1.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.mesh.run(seconds, 0.1)

    @rule()
    def all_are_silent_for_long(self) -> None:
        self.mesh.beats = False
        self.mesh.run(9.0, 0.5)
        self.mesh.beats = True

    @rule()
    def standby_is_restarted(self) -> None:
        self.fallback.restart()
        self.mesh.run(6.0, 0.1)

    @rule()
    def link_breaks(self) -> None:
        self.mesh.sever("prim", "back")
        self.mesh.run(6.0, 0.1)

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def copy_equals_the_original(self) -> None:
        self.mesh.settle()
        for name in ("w1", "w2", "w3"):
            self.given += [(name, task) for task in self.primary.heard(name, Task)]
        self.addresses += [task.address for task in self.primary.heard("m", MdpTask)]
        state, copy = self.primary.state, self.fallback.state
        assert (self.primary.mode, self.fallback.mode) == ("active", "passive")
        assert state.stream is not None, "it follows"
        assert state.stream.is_in_sync
        assert not state.stream.held
        assert copy_of(copy) == copy_of(state)
        for entry in copy.ledger.entries.values():
            assert abs(entry.deadline_s - state.ledger.entries[entry.id].deadline_s) < DEADLINE_SLACK_S
        for identity, session in copy.sessions.by_identity.items():
            assert session.highest <= state.sessions.by_identity[identity].highest
        self.fallback.broker.check()


TestReplica = Machine.TestCase
TestReplica.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
