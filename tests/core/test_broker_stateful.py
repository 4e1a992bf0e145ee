"""Any order of inputs whatever: Hypothesis drives the broker's core and shrinks what breaks an invariant.

The machine keeps a small model: which tasks each client asked, and what each was told. The simulator covers networks
and the library's sessions; here inputs come in orders that no session would ever send.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from scale0.core.broker import Broker
from scale0.core.effects import Effect, Route, Send
from scale0.core.settings import BrokerSettings, Limits, ServiceSettings
from scale0.errors import ProtocolError
from scale0.protocol import dialects, ids
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Dialect
from scale0.protocol.majordomo import MdpDisconnect, MdpHeartbeat, MdpReady, MdpReply, MdpRequest, MdpResult, MdpTask
from scale0.protocol.messages import (
    Cancel,
    Connect,
    Disconnect,
    Error,
    Flag,
    Ping,
    Ready,
    ServiceOffer,
    Status,
    Task,
    TaskId,
    TaskReply,
)
from tests.core.record_reader import Reader

SERVICES = st.sampled_from(["once", "again", "configured"])
INTERVAL_S = 1.0
SETTINGS = BrokerSettings(
    default_heartbeat_interval_s=INTERVAL_S,
    grace_s=1.0,
    service={"configured": ServiceSettings(idempotent=True, max_attempts=2)},
    limits=Limits(queued_per_service=5, accepted=12, accepted_per_client=8, outcomes=6, dead_letters=2, sessions=8),
)


class Participant:
    """A client or worker as the broker sees it: an identity, a nonce and the route it uses now."""

    def __init__(self, number: int, dialect: Dialect) -> None:
        self.identity = f"{dialect.role.value}{number}"
        self.nonce = number.to_bytes(8, "big")
        self.dialect = dialect
        self.route = Route(b"\x00" + number.to_bytes(4, "big"))
        self.sequence = 0
        self.replies: dict[TaskId, int] = {}  # of a client: finals by id
        self.meddled_with: set[TaskId] = set()  # tasks of others that it tried to cancel


class BrokerMachine(RuleBasedStateMachine):
    clients: Bundle[Participant] = Bundle("clients")
    workers: Bundle[Participant] = Bundle("workers")
    majordomos: Bundle[Participant] = Bundle("majordomos")
    tasks: Bundle[tuple[Participant, TaskId]] = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.now = 500.0
        self.wall_s = 1_800_000_000.0
        self.broker = Broker(SETTINGS, now=self.now, wall_s=self.wall_s, boot="any")
        self.reader = Reader(self.broker)
        self.number = 0
        self.by_route: dict[bytes, Participant] = {}
        self.asked: dict[TaskId, int] = {}
        self.given: list[tuple[Participant, Task]] = []
        self.addresses: list[tuple[Participant, bytes]] = []
        self.last_sends: list[Send] = []

    # --- participants ---------------------------------------------------------------------------------------------

    @rule(target=clients)
    def a_client_connects(self) -> Any:
        return self._join(dialects.CLIENT)

    @rule(target=workers, services=st.lists(SERVICES, min_size=1, max_size=2, unique=True), capacity=st.integers(0, 2))
    def a_worker_is_ready(self, services: list[str], capacity: int) -> Any:
        worker = self._join(dialects.WORKER)
        self._ready(worker, services, capacity)
        return worker

    @rule(target=majordomos, dialect=st.sampled_from([dialects.MDP1_WORKER, dialects.MDP2_WORKER]), service=SERVICES)
    def a_majordomo_worker_is_ready(self, dialect: Dialect, service: str) -> Any:
        worker = self._new(dialect)
        self._say(worker, MdpReady(service))
        return worker

    @rule(who=st.one_of(clients, workers), lists=st.booleans())
    def it_connects_from_another_route(self, who: Participant, lists: bool) -> None:
        held: list[bytes] = [task.id for worker, task in self.given if worker is who] if lists else []
        self.number += 1
        who.route = Route(b"\x00" + self.number.to_bytes(4, "big"))
        self.by_route[who.route] = who
        self._say(who, Connect(identity=who.identity, nonce=who.nonce, in_flight=held))

    @rule(who=st.one_of(clients, workers), nonce=st.binary(min_size=8, max_size=8))
    def another_claims_its_identity(self, who: Participant, nonce: bytes) -> None:
        other = self._new(who.dialect)
        self._say(other, Connect(identity=who.identity, nonce=nonce))

    @rule(who=st.one_of(consumes(clients), consumes(workers)))
    def it_disconnects(self, who: Participant) -> None:
        self._say(who, Disconnect(reason="done"))

    @rule(who=consumes(majordomos))
    def a_majordomo_worker_disconnects(self, who: Participant) -> None:
        self._say(who, MdpDisconnect())

    @rule(
        worker=workers,
        services=st.lists(SERVICES, max_size=3, unique=True),
        capacity=st.integers(0, 3),
        lists=st.booleans(),
    )
    def a_worker_says_ready_again(self, worker: Participant, services: list[str], capacity: int, lists: bool) -> None:
        self._ready(worker, services, capacity, lists)

    @rule(who=st.one_of(clients, workers), offset_s=st.sampled_from([0, 0, 0, 100]), oldest=st.integers(0, 3))
    def it_pings(self, who: Participant, offset_s: int, oldest: int) -> None:
        if who.dialect is dialects.WORKER:
            oldest = 0
        self._say(
            who, Ping(int(self.wall_s * 1e6), offset_us=offset_s * 10**6, has_offset=True, oldest_unanswered=oldest)
        )

    @rule(who=majordomos)
    def a_majordomo_worker_heartbeats(self, who: Participant) -> None:
        self._say(who, MdpHeartbeat())

    # --- tasks ----------------------------------------------------------------------------------------------------

    @rule(
        target=tasks,
        client=clients,
        service=st.sampled_from(["once", "once", "again", "configured", "unknown", "scale0.workers"]),
        remaining_ms=st.sampled_from([0, 10, 1000, 5000]),
        priority=st.integers(0, 3),
        flags=st.sampled_from([0, 0, 0, int(Flag.RESENT)]),
    )
    def a_task(self, client: Participant, service: str, remaining_ms: int, priority: int, flags: int) -> Any:
        client.sequence += 1
        task_id = ids.make_id(ids.id_prefix(client.identity, client.nonce), client.sequence)
        self._ask(client, Task(task_id, service, (b"body",), remaining_ms, priority=priority, flags=flags))
        return (client, task_id)

    @rule(asked=tasks, service=SERVICES, flags=st.sampled_from([0, int(Flag.RESENT)]))
    def a_task_comes_again(self, asked: tuple[Participant, TaskId], service: str, flags: int) -> None:
        client, task_id = asked
        self._ask(client, Task(task_id, service, (b"body",), 1000, flags=flags))

    @rule(asked=tasks)
    def a_cancel(self, asked: tuple[Participant, TaskId]) -> None:
        client, task_id = asked
        self.asked[task_id] = self.asked.get(task_id, 0) + 1
        self._say(client, Cancel(id=task_id))

    @rule(asked=tasks, other=clients)
    def another_client_cancels_it(self, asked: tuple[Participant, TaskId], other: Participant) -> None:
        if other is asked[0]:
            self.asked[asked[1]] = self.asked.get(asked[1], 0) + 1
        other.meddled_with.add(asked[1])
        self._say(other, Cancel(id=asked[1]))

    @rule(service=SERVICES, dialect=st.sampled_from([dialects.MDP1_CLIENT, dialects.MDP2_CLIENT]))
    def a_majordomo_request(self, service: str, dialect: Dialect) -> None:
        self._say(self._new(dialect), MdpRequest(service, (b"body",)))

    @rule(
        index=st.integers(0, 30),
        status=st.sampled_from([Status.OK, Status.OK, Status.FAILED, Status.RETURNED]),
        attempt_off=st.sampled_from([0, 0, 0, 1, -1]),
        keeps=st.booleans(),
    )
    def a_reply(self, index: int, status: Status, attempt_off: int, keeps: bool) -> None:
        """To any task that was ever given out, perhaps again, perhaps to another attempt."""
        if not self.given:
            return
        worker, task = self.given[index % len(self.given)]
        if not keeps and not attempt_off:  # it has answered: whatever it says of it later is another's
            del self.given[index % len(self.given)]
        attempt = max(0, task.attempt + attempt_off)
        self._say(worker, TaskReply(task.id, (b"answer",), attempt, int(status)))

    @rule(index=st.integers(0, 30), part=st.integers(0, 2))
    def a_partial_reply(self, index: int, part: int) -> None:
        if self.given:
            worker, task = self.given[index % len(self.given)]
            self._say(worker, TaskReply(task.id, (b"part",), task.attempt, part=part, final=False))

    @rule(worker=workers, asked=tasks)
    def a_reply_to_a_task_of_another(self, worker: Participant, asked: tuple[Participant, TaskId]) -> None:
        if all(task.id != asked[1] or holder is not worker for holder, task in self.given):
            before = self.broker.census()
            self._say(worker, TaskReply(asked[1], (b"forged",), 1))
            assert self.broker.census().replied == before.replied, "a forged reply settled a task"

    @rule(index=st.integers(0, 30))
    def a_majordomo_reply(self, index: int) -> None:
        if self.addresses:
            worker, address = self.addresses.pop(index % len(self.addresses))
            self._say(worker, MdpReply(address, (b"answer",)))

    # --- the world around -----------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.5, 1.0, 1.1, 3.1, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.wall_s += seconds
        self._take(self.broker.tick(self.now, self.wall_s))
        assert self.broker.next_deadline() > self.now, "the shell would spin"

    @rule(seconds=st.sampled_from([-3600.0, 3600.0]))
    def the_wall_clock_jumps(self, seconds: float) -> None:
        self.wall_s += seconds
        self._take(self.broker.tick(self.now, self.wall_s))

    @rule(index=st.integers(0, 5), reason=st.sampled_from(["unroutable", "full"]))
    def a_send_fails(self, index: int, reason: str) -> None:
        if self.last_sends:
            send = self.last_sends.pop(index % len(self.last_sends))
            message = send.message
            if isinstance(message, Task):
                self.given = [entry for entry in self.given if entry[1] is not message]
            if isinstance(message, TaskReply | Error) and send.route in self.by_route:
                replies = self.by_route[send.route].replies
                if isinstance(message, Error) or message.final:
                    replies[TaskId(message.id)] = replies.get(TaskId(message.id), 1) - 1
            self._take(self.broker.send_failed(send, reason, self.now))

    @rule(
        who=st.one_of(clients, workers),
        code=st.sampled_from([400, 413, 501]),
        knows_dialect=st.booleans(),
    )
    def something_malformed(self, who: Participant, code: int, knows_dialect: bool) -> None:
        dialect = who.dialect if knows_dialect else None
        self._take(self.broker.malformed(who.route, dialect, ProtocolError(code, "nonsense"), self.now))

    @rule(command=st.sampled_from(["disable", "enable", "enable", "enable"]))
    def a_command(self, command: str) -> None:
        _, effects = self.broker.manage(command, {}, self.now)
        self._take(effects)

    # --- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def every_accepted_task_is_accounted_for(self) -> None:
        census = self.broker.census()
        assert census.accepted == census.replied + census.errored + census.queued + census.in_flight
        self.broker.check()
        self.reader.check()

    def teardown(self) -> None:
        """Past every deadline nothing is queued or in flight (I1)."""
        for _ in range(8):
            self.time_passes(10.0)
        census = self.broker.census()
        assert census.queued == 0, census
        assert census.in_flight == 0, census

    # --- details --------------------------------------------------------------------------------------------------

    def _new(self, dialect: Dialect) -> Participant:
        self.number += 1
        participant = Participant(self.number, dialect)
        self.by_route[participant.route] = participant
        return participant

    def _join(self, dialect: Dialect) -> Participant:
        participant = self._new(dialect)
        self._say(participant, Connect(identity=participant.identity, nonce=participant.nonce))
        return participant

    def _ready(self, worker: Participant, services: list[str], capacity: int, lists: bool = False) -> None:
        offers = [ServiceOffer(name, idempotent=name == "again", max_attempts=2) for name in services]
        held: list[bytes] = [task.id for holder, task in self.given if holder is worker] if lists else []
        self._say(worker, Ready(services=offers, capacity=capacity, in_flight=held))

    def _ask(self, client: Participant, task: Task) -> None:
        self.asked[task.id] = self.asked.get(task.id, 0) + 1
        self._say(client, task)

    def _say(self, who: Participant, message: AnyMessage) -> None:
        self.now += 0.0001
        self._take(self.broker.receive(who.route, who.dialect, message, self.now))

    def _take(self, effects: list[Effect]) -> None:
        self.last_sends = [effect for effect in effects if isinstance(effect, Send)]
        for send in self.last_sends:
            receiver = self.by_route[send.route]
            message = send.message
            assert send.dialect is receiver.dialect or isinstance(message, Error), "answered in another dialect"
            if isinstance(message, Task):
                self.given.append((receiver, message))
            elif isinstance(message, MdpTask):
                self.addresses.append((receiver, message.address))
            elif isinstance(message, TaskReply | Error) and message.id:
                self._told(receiver, message)
            else:
                assert not isinstance(message, MdpResult) or receiver.dialect.role is dialects.Role.CLIENT

    def _told(self, client: Participant, message: TaskReply | Error) -> None:
        task_id = TaskId(message.id)
        is_own = task_id.startswith(ids.id_prefix(client.identity, client.nonce))
        assert is_own or (isinstance(message, Error) and task_id in client.meddled_with), "told of another's task"
        if isinstance(message, Error) or message.final:
            client.replies[task_id] = client.replies.get(task_id, 0) + 1
            asked = self.asked.get(task_id, 0)
            assert not is_own or client.replies[task_id] <= asked, "answered more often than asked"


TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
