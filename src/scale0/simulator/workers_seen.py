"""Books on workers, kept beside the broker's: what each was given, what it holds, when it last spoke.

A dispatch is wrong if the worker is full (rule 6), silent (I4), never offered the service, or if this attempt of this
task was given out before and not returned (rule 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scale0.protocol.ids import show_id
from scale0.protocol.majordomo import MdpDisconnect, MdpReady, MdpReply, MdpTask
from scale0.protocol.messages import Connect, Disconnect, Ping, Ready, ReadyOk, Status, Task, TaskReply
from scale0.simulator.process import Process

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.world import World

SILENCE_SLACK_S = 0.3  # "within liveness × interval + 1 tick"


def is_reused(task_id: bytes) -> bool:
    """A nuisance gives one id to several tasks, and the broker may have forgotten the first with its session."""
    return b"nuisance" in task_id


class WorkersSeen:
    def __init__(self, world: World, host: BrokerHost) -> None:
        self.world = world
        self.host = host
        self.schedule = world.schedule
        self.core = host.broker.state  # the broker's own books
        self.announced: set[str] = set()  # only asked, never walked through: sets have no stable order
        self.given_tokens: set[bytes] = set()
        self.dispatches: dict[Process, int] = {}
        self.heard_s: dict[Process, float] = {}  # when each last spoke
        self.excused_s = 0.0
        self._interval_s: dict[Process, float] = {}
        self._capacity: dict[Process, int] = {}
        self._without_heartbeat: set[Process] = set()
        self._services: dict[Process, set[str]] = {}
        self._holds: dict[Process, dict[bytes, int]] = {}
        self._fresh: set[Process] = set()  # connected, and no READY since
        self._holders: dict[bytes, tuple[str, int]] = {}  # by id: label and attempt; 0 is a Majordomo worker's
        self._given_out: dict[bytes, set[int]] = {}
        self._tokens: dict[bytes, bytes] = {}  # by id, of what was given out
        self._given_s: dict[bytes, float] = {}  # when it was last given out, by id
        self._majordomos: set[Process] = set()
        self._busy_majordomo: set[bytes] = set()  # by route: a Majordomo session is its connection

    def excuse(self) -> None:
        """The broker itself stood still: at this moment it cannot know who has been silent."""
        self.excused_s = self.host.now

    def is_silent(self, process: Process, slack_s: float = SILENCE_SLACK_S) -> bool:
        """Longer than it may be, and than `slack_s` more."""
        settings = self.core.settings
        interval_s = max(self._interval_s.get(process, 0.0), settings.default_heartbeat_interval_s)
        patience = 2 if process in self._majordomos else 1  # their intervals are not negotiated
        limit_s = patience * settings.liveness * interval_s + slack_s
        return self.schedule.now - self.heard_s.get(process, 0.0) > limit_s

    def must_be_current(self, reply: TaskReply) -> None:
        """I5: only the last attempt's reply is passed on. A peer's workers have no name here.

        Nor does a peer's Majordomo worker tell its attempt. What an operator tries again has the same body, and is
        another task.
        """
        holder = self._holders.get(reply.id) if len(reply.body) == 3 else None
        if holder is None:
            return
        worker, attempt = reply.body[1].decode(), int(reply.body[2])
        is_right = attempt in (0, holder[1]) if not holder[0] else (worker, attempt) == holder
        if not is_right:
            seen, due = f"attempt {attempt} of {worker}", f"{holder[1]} of {holder[0] or 'a peer'}"
            self._fail("I5", f"{show_id(reply.id)}: {seen} was passed on; {due} is current")

    def forget(self, id_: bytes) -> None:
        """It was accepted anew, after the broker had lost sight of it: its attempts are counted anew."""
        self._given_out.pop(id_, None)

    def connected(self, process: Process, connect: Connect) -> None:
        """CONNECT lists what it holds; what it was given of late and does not list has never reached it."""
        covered_s = self.host.now - connect.covers_ms / 1000
        for id_, attempt in self._holds.get(process, {}).items():
            if id_ not in connect.in_flight and self._given_s.get(id_, 0.0) > covered_s:
                self.never_started(id_, attempt)
        self._holds[process] = dict.fromkeys(connect.in_flight, 0)
        self._fresh.add(process)

    def received(
        self,
        process: Process,
        route: bytes,
        message: TaskReply | Ready | MdpReady | MdpReply | MdpDisconnect | Disconnect | Ping,
    ) -> None:
        if isinstance(message, TaskReply):
            if message.final:
                self._holds.get(process, {}).pop(message.id, None)
            if message.status == Status.RETURNED:
                self.never_started(message.id, message.attempt)
                self.world.count("rule", "returned")
        elif isinstance(message, Ping):
            self._capacity.setdefault(process, 1)
        elif isinstance(message, Ready):
            self._ready(process, route, message)
        elif isinstance(message, MdpReady):
            self._services.setdefault(process, set()).add(message.service)
            state = self.core
            if state.mode == "active" and state.services.manages(message.service):  # any other broker sends it away
                self.announced.add(message.service)
            self._majordomos.add(process)
            self._busy_majordomo.discard(route)
        elif isinstance(message, MdpReply):
            if message.final:
                self._busy_majordomo.discard(route)
        else:
            self._holds.pop(process, None)
            self._busy_majordomo.discard(route)

    def agreed(self, process: Process, ready_ok: ReadyOk) -> None:
        self._interval_s[process] = ready_ok.heartbeat_interval_ms / 1000

    def dispatched(self, process: Process, task: Task) -> None:
        self._must_be_alive(process, show_id(task.id))
        holds = self._holds.setdefault(process, {})
        capacity = self._capacity.get(process, 0)
        if len(holds) >= capacity and task.id not in holds:  # which needs no other slot: its reply answers both
            what = f"holds {len(holds)} of {capacity} and was sent {show_id(task.id)} too"
            self._fail("rule 6", f"{process.label} {what}")
        if task.service not in self._services.get(process, ()):
            self._fail("rule 5", f"{process.label} was sent a task of {task.service}, which it never offered")
        self.given_out(task, process.label)
        holds[task.id] = task.attempt
        self.dispatches[process] = self.dispatches.get(process, 0) + 1

    def given_out(self, task: Task, holder: str) -> None:
        """An attempt goes to a worker, or to a peer, whose name is then empty."""
        given_out = self._given_out.setdefault(task.id, set())
        if task.attempt in given_out and not is_reused(task.id):
            self._fail("rule 7", f"attempt {task.attempt} of {show_id(task.id)} was dispatched twice")
        attempts_max = self.world.profile.attempts_max(task.service)
        if task.attempt > attempts_max:
            self._fail("rule 9", f"attempt {task.attempt} of {show_id(task.id)}; at most {attempts_max} are allowed")
        given_out.add(task.attempt)
        self._given_s[task.id] = self.schedule.now
        self.given_tokens.add(task.body[0])
        self._tokens[task.id] = task.body[0]
        self._holders[task.id] = (holder, task.attempt)

    def dispatched_majordomo(self, process: Process, route: bytes, task: MdpTask) -> None:
        self.given_tokens.add(task.body[0])
        self._holders[task.address[:-1]] = (process.label, 0)  # the id, and then the attempt
        if route in self._busy_majordomo:
            self._fail("RFC 7", f"{process.label} was sent a second task while it works on one")
        self._must_be_alive(process, "a task")
        self._busy_majordomo.add(route)

    def not_sent(self, process: Process, route: bytes, message: Task | MdpTask) -> None:
        """The pipe was full, or its other end gone: the task goes back, and counts as no attempt."""
        if isinstance(message, Task):
            self._holds.get(process, {}).pop(message.id, None)
            self.take_back(message.id, message.attempt)
        else:
            self._busy_majordomo.discard(route)

    def must_be_equal(self, number: int) -> None:
        """I13: workers with equal services that always have room differ by at most one dispatch."""
        counts = list(self.dispatches.values())
        if not counts:
            return
        least = min(counts) if len(counts) == number else 0
        if max(counts) - least > 1:
            shown = {process.label: count for process, count in self.dispatches.items()}
            self._fail("I13", f"of {number} equal workers these had so many tasks: {shown}")

    def must_not_wait_for_the_silent(self) -> None:
        """I4: a silent worker leaves the LRU queue within liveness × interval + 1 tick."""
        if self.schedule.now == self.excused_s:
            return
        settings, heard_s = self.core.settings, self.heard_s
        # Nobody may be silent for less: a look at the clock is enough for nearly all.
        lately_s = settings.liveness * settings.default_heartbeat_interval_s + SILENCE_SLACK_S
        now = self.schedule.now
        for process in self._capacity:
            if now - heard_s.get(process, 0.0) <= lately_s or process in self._without_heartbeat:
                continue
            if self.host.is_listed(process) and self.is_silent(process):
                silent_s = self.host.now - self.heard_s.get(process, 0.0)
                self._fail("I4", f"{process.label} has been silent for {silent_s:.2f} s and stands in the LRU queue")

    def _ready(self, process: Process, route: bytes, ready: Ready) -> None:
        self._capacity[process] = ready.capacity
        names = [offer.name for offer in ready.services]
        self._services.setdefault(process, set()).update(names)
        # A disabled broker does not hear it, nor one that has forgotten the session since, which asks for CONNECT.
        if self.core.mode != "disabled" and route in self.core.sessions.by_route:
            self.announced.update(name for name in names if self.core.services.manages(name))
        if not ready.heartbeat:
            self._without_heartbeat.add(process)
        if process in self._fresh:
            # Only the first READY of a connection tells what is held: a later one crosses tasks on their way.
            self._fresh.discard(process)
            self._holds[process] = dict.fromkeys(ready.in_flight, 0)

    def _must_be_alive(self, process: Process, what: str) -> None:
        is_excused = self.schedule.now == self.excused_s or process in self._without_heartbeat
        if self.is_silent(process) and not is_excused:
            silent_s = self.host.now - self.heard_s.get(process, 0.0)
            self._fail("I4", f"{process.label} has been silent for {silent_s:.2f} s and was sent {what}")

    def never_started(self, id_: bytes, attempt: int) -> None:
        """It left, and came back or did not arrive: it is as if it had not been given out."""
        self.take_back(id_, attempt)
        if id_ in self._tokens:
            self.world.stars.splits.taken_back(self.host, self._tokens[id_])

    def take_back(self, id_: bytes, attempt: int) -> None:
        """The same attempt may be given out again."""
        self._given_out.get(id_, set()).discard(attempt)

    def _fail(self, rule: str, text: str) -> None:
        self.world.violation(rule, f"{self.host.name}: {text}")
