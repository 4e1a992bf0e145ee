"""Clients and workers of the library: the real sessions, in shells like the real ones.

A body carries a token and what its handler shall do; a reply carries the token, the worker's name and the attempt, so
that the checks can follow each task from end to end.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scale0.core.client_session import ClientSession
from scale0.core.held_config import SavedConfig
from scale0.core.link import LinkSettings
from scale0.core.participant import Abort, Left, Part, ParticipantEffect, Ready, Run, Settled
from scale0.core.worker_session import WorkerSession
from scale0.errors import Overloaded
from scale0.protocol import dialects, native
from scale0.protocol.ids import show_id
from scale0.protocol.messages import ServiceOffer, Status, Task, TaskReply
from scale0.simulator.checks_promise import Submitted
from scale0.simulator.process import SessionProcess, behaviour_of

if TYPE_CHECKING:
    from scale0.simulator.world import World

BEHAVIOURS = [b"ok"] * 24 + [b"fail", b"stream", b"slow"] * 3 + [b"hang", b"hang", b"deaf", b"poison"]
CALM_BEHAVIOURS = [b"ok", b"ok", b"fail", b"stream", b"slow"]
STREAM_PARTS = 3
NEVER_GIVEN = 100  # attempts later: more than any service here may have


def _link(world: World, process: SessionProcess) -> LinkSettings:
    keeps_config = world.shape is not None and process.random.random() < 0.5
    return LinkSettings(
        endpoints=world.endpoints_for(process.random, process.name),
        identity=process.identity,
        nonce=process.nonce,
        services=[],
        heartbeat_interval_s=world.profile.interval_s,
        liveness=world.profile.liveness,
        connect_timeout_s=2.0,
        retry_forever=True,
        keeps_config=keeps_config,
        saved=world.saved.get(process.name, SavedConfig()) if keeps_config else SavedConfig(),
    )


class ClientProcess(SessionProcess):
    dialect = dialects.CLIENT
    session: ClientSession

    def __init__(self, world: World, name: str, identity: str) -> None:
        super().__init__(world, name, identity)
        self.is_leaving = False
        self.session = ClientSession(_link(world, self), self.random)

    def submit(self, service: str, behaviour: bytes, timeout_s: float, priority: int = 1) -> None:
        if self.is_leaving:
            return
        token = self.world.new_token()
        try:
            now = self.schedule.now
            id_, effects = self.session.submit(service, (token, behaviour), timeout_s, now, priority=priority)
        except Overloaded:
            self.world.count("effect", "Overloaded")
            return
        task = Submitted(self, service, token, behaviour, now + timeout_s, self.paused_s)
        self.world.promises.submitted(id_, task)
        self.perform(effects)

    def cancel_one(self) -> None:
        if self.is_leaving or not self.world.promises.open_of[self]:
            return
        mine = [id_ for id_, task in self.world.promises.open.items() if task.process is self]
        if mine:
            id_ = self.random.choice(mine)
            self.world.promises.cancelled(id_)
            self.world.trace.event(self.now, self.label, f"cancels {show_id(id_)}")
            self.perform(self.session.cancel(id_, self.now))  # type: ignore[arg-type]

    def leave(self) -> None:
        """A clean end: DISCONNECT, and open tasks are given up."""
        if self.is_leaving:
            return
        self.is_leaving = True
        self.world.promises.ended(self)
        self.perform([effect for effect in self.session.close(self.now) if not isinstance(effect, Settled)])
        self.leave_for_good()

    def carry_out(self, effect: ParticipantEffect) -> None:
        if isinstance(effect, Settled):
            self.world.promises.settled(self, effect.id, effect.outcome)
        elif isinstance(effect, Part):
            self.world.promises.part(self, effect.reply)

    def failed(self) -> None:
        self.world.promises.ended(self)
        super().failed()


class WorkerProcess(SessionProcess):
    dialect = dialects.WORKER
    session: WorkerSession
    begins_within_s = 0.02  # from its start to the first thing that a handler does

    def __init__(self, world: World, name: str, identity: str, services: list[str], capacity: int) -> None:
        super().__init__(world, name, identity)
        self.services = services
        self.capacity = capacity
        self.threads = max(1, capacity // self.random.randint(1, 3))  # fewer than slots: some tasks wait here
        self.is_leaving = False
        self.waiting: deque[Task] = deque()
        self.running: dict[tuple[bytes, int], Task] = {}  # by id and attempt: one may be given out again
        self.stuck: dict[tuple[bytes, int], Task] = {}  # handlers that end when they are told to, or never
        heartbeat = world.profile.kind in ("fair", "own") or self.random.random() > 0.1
        offers = [self._offer(name) for name in services]
        self.session = WorkerSession(
            _link(world, self), self.random, capacity=capacity, offers=offers, heartbeat=heartbeat
        )

    def carry_out(self, effect: ParticipantEffect) -> None:
        if isinstance(effect, Run):
            self.waiting.append(effect.task)
            self._start_next()
        elif isinstance(effect, Abort):
            self._abort(effect)
        elif isinstance(effect, Ready):
            self.world.count("effect", "Ready")
        elif isinstance(effect, Left):
            self.world.count("effect", "Left")
            self.leave_for_good()

    def change_services(self) -> None:
        if self.random.random() < 0.5 and len(self.services) > 1 and not self.world.is_steadfast(self.identity):
            name = self.services.pop(self.random.randrange(len(self.services)))
            self.perform(self.session.withdraw(name, self.now))
        else:
            missing = [name for name in self.world.services_for(self.identity) if name not in self.services]
            if missing:
                name = self.random.choice(missing)
                self.services.append(name)
                self.perform(self.session.offer(self._offer(name), self.now))

    def change_capacity(self) -> None:
        least = 0 if self.world.profile.kind == "rough" else 1
        self.capacity = self.random.randint(least, self.world.profile.capacity_max)
        self.perform(self.session.set_capacity(self.capacity, self.now))

    def leave(self) -> None:
        if self.is_leaving:
            return
        self.is_leaving = True
        self.perform(self.session.leave(self.now))
        while self.waiting and self.is_alive:
            task = self.waiting.popleft()
            self._reply(task, Status.RETURNED)
        self.release()

    def release(self) -> None:
        """Handlers that hang come to an end."""
        for key, task in list(self.stuck.items()):
            self.stuck.pop(key, None)
            self._finish(task)

    def recover(self) -> None:
        """The trouble is over: everything stuck ends, and there is room again."""
        self.release()
        if self.capacity == 0 and self.is_alive and not self.is_leaving:
            self.capacity = 1
            self.perform(self.session.set_capacity(1, self.now))

    def _offer(self, name: str) -> ServiceOffer:
        known = next(known for known in self.world.profile.services if known.name == name)
        # Where the config says what holds, a worker may say anything.
        idempotent = self.random.random() < 0.5 if known.is_configured else known.idempotent
        return ServiceOffer(name, idempotent, known.max_attempts)

    def _start_next(self) -> None:
        while self.waiting and len(self.running) < self.threads and self.is_alive:
            task = self.waiting.popleft()
            self.running[task.id, task.attempt] = task
            self.world.promises.started(self.label, task.service, task.body[0])
            self.after(self.random.random() * self.begins_within_s, self._work, task, 0)

    def _work(self, task: Task, part: int) -> None:
        if self.running.get((task.id, task.attempt)) is not task:
            return
        behaviour = behaviour_of(task.body)
        if behaviour == b"stream" and part < STREAM_PARTS:
            self._reply(task, Status.OK, part, final=False)
            self.after(self.random.random() * 0.2, self._work, task, part + 1)
        elif behaviour == b"slow" and part == 0:
            self.after(self.random.random() * self.world.profile.slow_s, self._work, task, 1)
        elif behaviour == b"poison" and not self.world.is_healed:
            self.world.trace.event(self.now, self.label, f"is killed by {show_id(task.id)}")
            self.crash()
        elif behaviour in (b"hang", b"deaf") and not self.is_leaving and not self.world.is_healed:
            self.stuck[task.id, task.attempt] = task
        else:
            self._finish(task)

    def _abort(self, abort: Abort) -> None:
        self.world.count("effect", "Abort")
        task = self.stuck.get((abort.id, abort.attempt))
        if task is not None and behaviour_of(task.body) == b"hang":
            del self.stuck[abort.id, abort.attempt]
            self.after(0.01, self._finish, task)

    def _finish(self, task: Task) -> None:
        if self.running.get((task.id, task.attempt)) is not task:
            return
        del self.running[task.id, task.attempt]
        behaviour = behaviour_of(task.body)
        part = STREAM_PARTS if behaviour == b"stream" else 0
        status = Status.FAILED if behaviour == b"fail" else Status.OK
        self._reply(task, status, part)
        if self.world.profile.kind == "rough" and self.random.random() < 0.03:
            self._say_again(task, status, part)
        self._start_next()

    def _reply(self, task: Task, status: Status, part: int = 0, final: bool = True) -> None:
        body = (task.body[0], self.label.encode(), b"%d" % task.attempt) if status != Status.RETURNED else ()
        self.perform(
            self.session.reply(
                task.id, task.attempt, body, status=status, part=part, final=final, wait_us=10, work_us=20, now=self.now
            )
        )

    def _say_again(self, task: Task, status: Status, part: int) -> None:
        """A worker with a bug: the same reply twice, or one to an attempt that never was.

        The next attempt may be on its way to this very worker: a reply to it would be as good as any. So is the second
        of two that are the same, when the session has given up its link and keeps the first.
        """
        if self.socket is not None and (task.id, task.attempt + 1) not in self.running:
            self.world.count("fault", "double reply")
            body = (task.body[0], self.label.encode(), b"%d" % task.attempt)
            reply = TaskReply(task.id, body, task.attempt, status, part)
            if self.random.random() < 0.4:
                reply = TaskReply(task.id, (task.body[0], b"nobody", b"99"), task.attempt + NEVER_GIVEN)
            self.socket.send(native.encode(self.dialect.header, reply))
