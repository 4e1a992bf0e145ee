"""What one run of a broker must never do, judged from outside: from what it received and what it sent.

These checks keep their own small books beside the broker's, so a mistake in the core's books shows as a difference.
The names I1–I13 are those of the project's invariants: I2 a reply goes only to its asker, I4 a silent worker gets no
task, I5 late and double replies are discarded, I7 a disabled broker dispatches nothing, I10 caps hold, I11 accepted =
replied + errored + queued + in flight, I12 clock jumps kill nobody.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from scale0.core import connections
from scale0.core.effects import Route, Send
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import DIALECTS, PEER, Dialect, Role
from scale0.protocol.ids import identity_of, sequence_of, show_id
from scale0.protocol.majordomo import MdpDisconnect, MdpReady, MdpReply, MdpTask
from scale0.protocol.messages import (
    Cancel,
    ChangeBroker,
    Connect,
    Disconnect,
    Error,
    Flag,
    NeedBroker,
    Ping,
    Ready,
    ReadyOk,
    Status,
    Task,
    TaskReply,
)
from scale0.simulator.answers_seen import Accepted, AnswersSeen, is_of
from scale0.simulator.checks_config import NAMES_A_VERSION
from scale0.simulator.checks_peers import PeerChecks
from scale0.simulator.network import Connection
from scale0.simulator.process import Process, SessionProcess
from scale0.simulator.workers_seen import WorkersSeen, is_reused

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.world import World

EXPIRY_SLACK_S = 0.3  # a deadline may be met that much later than it was asked for
LOOK_EVERY = 4  # steps, for what takes a walk through all workers
CHECK_EVERY = 32  # steps; the core's own check walks all its tables
WORKERS_SAY = frozenset((TaskReply, Ready, MdpReady, MdpReply, MdpDisconnect, Disconnect, Ping))
_CLIENT, _WORKER = Role.CLIENT, Role.WORKER  # looked up once: each message is asked for them
_FROM = {dialect: f"from {dialect.name}" for dialect in DIALECTS}
_TO = {dialect: f"to {dialect.name}" for dialect in DIALECTS}
SILENT_MODES = frozenset(("disabled", "passive"))
NOT_ACCEPTED = frozenset((301, 400, 401, 403, 404, 413, 426, 429, 501, 503))


class BrokerChecks:
    """The checks of one run of one broker."""

    def __init__(self, world: World, host: BrokerHost, state: str) -> None:
        self.world = world
        self.host = host
        self.schedule = world.schedule
        self.core = host.broker.state  # the broker's own books, which may be wrong
        self.state = state
        self.workers = WorkersSeen(world, host)
        self.peers = PeerChecks(self)
        self.answers = AnswersSeen(self._fail)
        self.open: dict[bytes, Accepted] = {}
        self._deadlines: list[tuple[float, bytes]] = []
        self._outcomes: dict[bytes, str] = {}
        self._owners: dict[bytes, Process] = {}  # by route
        self._routes: dict[Process, bytes] = {}  # where the session of a process is
        self._absent: set[Process] = set()
        self._held: set[bytes] = set()  # tasks whose answer could not be sent at once
        self._anew: set[bytes] = set()  # accepted again, after its first outcome was evicted or lost
        self._current: tuple[Process, Task] | None = None
        self._accepted_before = 0
        self._adopted_before = 0
        self._clock_off_s = host.clock_off_s  # at its start: what it does not see jump it cannot doubt
        self._is_fair = world.profile.kind == "fair"
        self._touched: list[Route] = []  # sessions of workers that spoke, or were given a task, since the last check
        self._steps = 0

    # --- what the broker receives ---------------------------------------------------------------------------------

    def received(self, connection: Connection, dialect: Dialect, message: AnyMessage) -> None:
        process, route = connection.process, connection.route
        self._owners[route] = process
        kind = type(message)
        if isinstance(message, Connect):
            known = self.core.sessions.by_identity.get(message.identity)
            if connections.is_overtaken(known, message):
                return
        # On a connection that has no session yet: its session is still silent, and what it says is not heard.
        is_stranger = self._routes.get(process) != route and dialect.is_native and kind is not Connect
        if not is_stranger:
            self.workers.heard_s[process] = self.schedule.now
            self.answers.heard(process, message)
            self._absent.discard(process)
        self.world.counts[_FROM[dialect], kind.__name__] += 1
        if dialect.is_req or dialect.majordomo == 1:
            self.answers.owes(route)
        if kind is Task:
            self.answers.asked(process, route, message.id)  # type: ignore[union-attr]
            self._current = (process, message)  # type: ignore[assignment]
            self._accepted_before = self._accepted_or_adopted()
            self._adopted_before = self.core.counters.get("forwarded_adopted", 0)
            if message.flags:  # type: ignore[union-attr]
                self.world.count("rule", "resent")
        elif kind is Cancel:
            self.answers.asked(process, route, message.id)  # type: ignore[union-attr]
        elif kind is Connect:
            self._excuse_forgotten(process, is_req=dialect.is_req)
            self._connected(process, route, message)  # type: ignore[arg-type]
        elif kind is NeedBroker:
            self.world.moves.asked(route, message)  # type: ignore[arg-type]
        elif kind is Disconnect and dialect.role is _CLIENT and not is_stranger:
            self._ended_session(process)  # it moves to another broker, and its tasks with it
        elif not is_stranger and dialect.role is _WORKER and kind in WORKERS_SAY:
            self._touched.append(route)
            self.workers.received(process, route, message)  # type: ignore[arg-type]

    def received_garbage(self, connection: Connection) -> None:
        self._owners[connection.route] = connection.process
        self.answers.owes(connection.route)
        self.world.count("rule", "malformed")

    def handled(self) -> None:
        """Right after `Broker.receive`: was the TASK accepted?"""
        self.peers.handled()
        if self._current is not None:
            self._handled_task()

    def _handled_task(self) -> None:
        assert self._current is not None, "it came just now"
        process, task = self._current
        self._current = None
        is_nuisance = process.name.startswith("nuisance")  # it may drop its session at any moment
        if self._accepted_or_adopted() > self._accepted_before and not is_nuisance:
            if self.core.counters.get("forwarded_adopted", 0) > self._adopted_before:
                self.world.count("rule", "adopted")
            elif self.peers.has_taken(task.id):
                self.peers.runs_anew(task.id)
            timeout_s = task.remaining_ms / 1000 or self.core.settings.timeout_s(task.service)
            known = self.core.ledger.entries.get(task.id)
            deadline_s = known.deadline_s if known is not None else self.schedule.now + timeout_s
            if task.id in self._outcomes:
                self._anew.add(task.id)
            self.workers.forget(task.id)
            token = task.body[0] if task.body else b""
            was_announced = task.service in self.workers.announced
            was_resent = bool(task.flags & Flag.RESENT)
            self.open[task.id] = Accepted(process, task.service, token, deadline_s, was_announced, was_resent)
            heapq.heappush(self._deadlines, (deadline_s + EXPIRY_SLACK_S, task.id))

    def _accepted_or_adopted(self) -> int:
        """A task that is here for another broker becomes its client's own when that client comes here."""
        return self.core.ledger.accepted + self.core.counters.get("forwarded_adopted", 0)

    def managed(self, command: str) -> None:
        if command == "enable":
            self.state = "active"

    def persisted(self, state: str) -> None:
        self.state = state

    def stopped(self) -> None:
        census = self.host.broker.census()
        if census.queued or census.in_flight:
            self._fail("rule 25", f"stopped while it holds tasks: {census}")

    def paused(self, until_s: float) -> None:
        """A stopped broker hears nobody and keeps no deadline; it is judged from its return on."""
        self.workers.excuse()
        self._deadlines = [(max(due_s, until_s + EXPIRY_SLACK_S), id_) for due_s, id_ in self._deadlines]
        heapq.heapify(self._deadlines)

    def ended(self) -> None:
        """The broker is gone, and what it had accepted with it: from here on the clients' own promise counts."""
        self.open.clear()

    # --- what the broker sends ------------------------------------------------------------------------------------

    def sent(self, connection: Connection, send: Send) -> None:
        process, message, dialect = connection.process, send.message, send.dialect
        kind = type(message)
        if kind in NAMES_A_VERSION:
            self.world.versions.said(self.host, message.config_version)  # type: ignore[union-attr]
        self.world.counts[_TO[dialect], kind.__name__] += 1
        if dialect.is_req or (dialect.majordomo == 1 and dialect.role is _CLIENT):
            self.answers.pays(process, send.route, message)
        if kind is Task or kind is MdpTask:
            self._touched.append(send.route)
            self.must_dispatch(message)  # type: ignore[arg-type]
            if kind is Task:
                self._dispatched(process, message)  # type: ignore[arg-type]
            else:
                self.workers.dispatched_majordomo(process, send.route, message)  # type: ignore[arg-type]
        elif kind is TaskReply:
            self._replied(process, send.route, message)  # type: ignore[arg-type]
        elif kind is Error:
            self._errored(process, send.route, message)  # type: ignore[arg-type]
        elif kind is ChangeBroker:
            self.world.moves.named(self.host, send.route, message)  # type: ignore[arg-type]
        elif kind is ReadyOk:
            self.workers.agreed(process, message)  # type: ignore[arg-type]

    def sent_nowhere(self, send: Send) -> None:
        """A send to a route that is gone. It still settles what it was about."""
        if send.dialect is not PEER and _settles(send.message):
            self.answers.answered_nobody(send.message.id)  # type: ignore[union-attr]
            code = send.message.code if isinstance(send.message, Error) else 0
            self._settled(send.message.id, str(code))  # type: ignore[union-attr]

    def send_failed(self, send: Send, peer: str = "") -> None:
        if send.dialect is PEER:
            self.peers.send_failed(peer, send.message)
            return
        process = self._owners.get(send.route)
        if process is not None:
            self._absent.add(process)  # until it speaks again: what is for it is held
        if process is not None and isinstance(send.message, Task | MdpTask):
            self.workers.not_sent(process, send.route, send.message)
        if _settles(send.message):
            self.answers.not_answered(send.message.id)  # type: ignore[union-attr]
            self._held.add(send.message.id)  # type: ignore[union-attr]
        if send.dialect.is_req or send.dialect.majordomo == 1:
            self.answers.owes(send.route)

    def after_step(self) -> None:
        """Cheap ones and what was touched each time, the core's own walk through its tables now and then."""
        core, broker = self.core, self.host.broker
        ledger = core.ledger
        if ledger.accepted != ledger.replied + ledger.errored + ledger.queued + ledger.in_flight:
            self._fail("I11", f"accepted is not replied + errored + queued + in flight: {broker.census()}")
        self._steps += 1
        self.peers.after_step()
        if self._touched:
            for route in self._touched:
                broker.check(route)
            self._touched.clear()
        if self._steps % LOOK_EVERY == 0:
            self.workers.must_not_wait_for_the_silent()
        if self._steps % CHECK_EVERY == 0:
            broker.check()
            self.peers.look_into()
        if self._is_fair:
            self.workers.must_be_equal(self.world.profile.workers)
        if core.mode in SILENT_MODES and self.open:
            self._fell_silent() if core.mode == "disabled" else self._gave_way()
        now = self.schedule.now
        while self._deadlines and self._deadlines[0][0] < now:
            _, id_ = heapq.heappop(self._deadlines)
            accepted = self.open.pop(id_, None)
            if accepted is None:
                continue
            if now < accepted.deadline_s + EXPIRY_SLACK_S:  # accepted anew since
                self.open[id_] = accepted
            elif not self._is_away(accepted.process):
                overdue_s = now - accepted.deadline_s
                self._fail("I1", f"{show_id(id_)} is {overdue_s:.3f} s past its deadline and has no outcome")

    def _ended_session(self, process: Process) -> None:
        """Who is sent away for good gets nothing more: from here on the client's own promise counts."""
        for id_ in [id_ for id_, accepted in self.open.items() if accepted.process is process]:
            del self.open[id_]

    def _excuse_forgotten(self, process: Process, *, is_req: bool) -> None:
        """Rule 2: replies for an absent client wait until their deadline, and a grace; after that it asks anew."""
        # Rule 3: one answer a request; a REQ client's CONNECT takes that of the task that it asked for before.
        latest_s = math.inf if is_req else self.schedule.now - self.core.settings.grace_s
        is_gone = process.identity not in self.core.sessions.by_identity  # with all that its client waits for no more
        for id_, task in [(id_, task) for id_, task in self.open.items() if task.process is process]:
            if task.deadline_s < latest_s or (is_gone and self.answers.is_unwanted(process, id_)):
                del self.open[id_]

    def _fell_silent(self) -> None:
        """Rule 25: what it held was answered before."""
        for id_, accepted in self.open.items():
            if not self._is_away(accepted.process):
                self._fail("rule 25", f"fell silent and had not answered {show_id(id_)}")
        self.open.clear()

    def _gave_way(self) -> None:
        """Rule 31: a standby has no sessions. Who was here has been sent away, but who was away could not be told."""
        for id_, accepted in self.open.items():
            if isinstance(accepted.process, SessionProcess) and not self._is_away(accepted.process):
                self._fail("rule 31", f"gave way, and the client of {show_id(id_)} was not told")
        self.open.clear()

    # --- details --------------------------------------------------------------------------------------------------

    def _connected(self, process: Process, route: bytes, connect: Connect) -> None:
        if connect.nonce != process.nonce:
            return
        if self._routes.get(process, route) != route:
            self.world.count("rule", "session move")
        # Rule 24: CONNECT in a session that goes on changes neither LRU place nor tasks.
        session = self.core.sessions.by_route.get(route)  # type: ignore[call-overload]
        is_renewed = session is not None and session.nonce == process.nonce
        self._routes[process] = route
        self._absent.discard(process)
        if not is_renewed:
            self.workers.connected(process, connect)

    def _dispatched(self, process: Process, task: Task) -> None:
        outcome = self._outcomes.get(task.id)
        # What another broker asks for is that one's: here its client may have been told "unknown".
        is_repeatable = self.world.profile.is_idempotent(task.service) or self.peers.has_taken(task.id)
        is_repeatable = is_repeatable or is_reused(task.id)
        if outcome is not None and int(outcome) not in NOT_ACCEPTED and not is_repeatable:
            self._fail("I1", f"{show_id(task.id)} was dispatched after its outcome {outcome}")
        if task.attempt > 1:
            self.world.count("rule", "redispatch")
        self.workers.dispatched(process, task)

    def _replied(self, process: Process, route: bytes, reply: TaskReply) -> None:
        if not is_of(process, reply.id):
            if reply.status == Status.RETURNED and self.answers.has_meddled(route, reply.id):
                return  # as a broker that asks for a task is told no
            self._fail("I2", f"{process.label} was sent a reply to {show_id(reply.id)}, which it did not ask")
        self.must_be_current(reply)
        if reply.final:
            self.answers.answered(reply.id)
            self._settled(reply.id, "0")

    def must_be_current(self, reply: TaskReply) -> None:
        """I5, of what was accepted once."""
        if reply.id not in self._anew:
            self.workers.must_be_current(reply)

    def taken(self, id_: bytes, is_first: bool) -> None:
        """Another broker asks for a task. If somebody else has asked for it, two of its runs may be answered.

        So it is if the copy that this one took over from had its outcome: the partner was asked then.
        """
        session = self.core.sessions.by_identity.get(identity_of(id_))
        is_settled = session is not None and session.prefix == id_[:-8] and sequence_of(id_) in session.kept
        if not is_first or is_settled or self.answers.was_asked(id_):
            self._anew.add(id_)

    def moved(self, id_: bytes) -> None:
        """Its client has it elsewhere: nobody waits for its outcome here."""
        self.open.pop(id_, None)

    def must_dispatch(self, task: Task | MdpTask) -> None:
        """I7: a disabled broker dispatches nothing, and forwards nothing; nor does one that joins."""
        is_joining = self.core.mode == "joining"
        if self.state == "disabled" or is_joining:
            what = show_id(task.id) if isinstance(task, Task) else "a task"
            self._fail("I7", f"a {'joining' if is_joining else 'disabled'} broker sent {what}")

    def _errored(self, process: Process, route: bytes, error: Error) -> None:
        self.world.count("code", str(error.code))
        was_right = abs(self._clock_off_s) <= self.core.settings.max_clock_skew_s
        has_jumped = self.host.told_clock_off_s != self._clock_off_s
        if error.code == 498 and not process.clock_was_off and was_right and has_jumped:
            self._fail("I12", f"{process.label} was told 498 after the broker's own clock jumped: {error.text}")
        if error.fatal:
            self._ended_session(process)
        if not error.id:
            return
        if not is_of(process, error.id):
            if not self.answers.has_meddled(route, error.id):
                self._fail("I2", f"{process.label} was sent error {error.code} about {show_id(error.id)}, not its own")
            return
        accepted = self.open.get(error.id)
        if accepted is not None:
            may_have_run = accepted.was_resent or accepted.token in self.workers.given_tokens
            may_have_run = may_have_run or self.world.stars.has_doubted_since(self.host, accepted.deadline_s)
            if error.code == 504 and not may_have_run:
                self._fail("code 504", f"{show_id(error.id)} was never dispatched")
            if error.code in (408, 504) and self.schedule.now < accepted.deadline_s - 0.01:
                early_s = accepted.deadline_s - self.schedule.now
                self._fail("rule 13", f"{show_id(error.id)} got {error.code} {early_s:.3f} s before its deadline")
        if error.code == 404 and accepted is not None and accepted.was_announced and error.id not in self._held:
            self._fail("rule 16", f"404 for {show_id(error.id)} of {accepted.service}, which a worker has announced")
        self.answers.answered(error.id)
        self._settled(error.id, str(error.code))

    def _settled(self, id_: bytes, outcome: str) -> None:
        accepted = self.open.pop(id_, None)
        if accepted is None and outcome != "0" and self._outcomes.get(id_) == "0":
            # Outcomes are kept for resends only for a while; then 502 says "unknown", and 404 answers CANCEL.
            return
        self._outcomes[id_] = outcome

    def _is_away(self, process: Process) -> bool:
        return process in self._absent or not process.is_alive or self.workers.is_silent(process, -EXPIRY_SLACK_S)

    def _fail(self, rule: str, text: str) -> None:
        self.world.violation(rule, f"{self.host.name}: {text}")


def _settles(message: AnyMessage) -> bool:
    """Whether it tells a client the outcome of a task."""
    return message.final if isinstance(message, TaskReply) else isinstance(message, Error) and bool(message.id)
