"""A world for the services of a user: the real brokers and sessions, workers that run the user's handlers, and the
user's load.

A body carries a token and the number of the load that it belongs to; the arguments are drawn from the seed and the
token when a handler is started, and go through the library's encoding, so that a handler gets what it would get from a
real worker. Only the bytes of arguments and results do not travel: their size costs no virtual time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec

from scale0.core.participant import Abort
from scale0.encoding import Signature, encode_arguments
from scale0.protocol.messages import Error, Status, Task, TaskId, TaskReply
from scale0.simulator.checks_promise import OWN, PromiseChecks, Submitted
from scale0.simulator.native_actors import ClientProcess, WorkerProcess
from scale0.simulator.process import Process, behaviour_of
from scale0.simulator.profiles import Profile
from scale0.simulator.trace import Trace
from scale0.simulator.workload import Workload
from scale0.simulator.world import World

if TYPE_CHECKING:
    from scale0.protocol.messages import Body

LEAD_S = 3.0  # brokers and workers find one another before the load begins
FAILURES_MAX = 100  # texts that are kept of what handlers raised
Arguments = tuple[Any, ...] | Callable[[Random], tuple[Any, ...]]
Duration = float | tuple[float, float] | Callable[[Random], float]


class Handler(msgspec.Struct):
    """A service: the function behind it, and how long a call takes in virtual time.

    Without a function a call only takes its time. `work_s` is a number, a range that is drawn from evenly, or a
    function of a random generator. What the function raises is a failed reply, as at a real worker.
    """

    function: Callable[..., Any] | None = None
    work_s: Duration = 0.01
    idempotent: bool = False
    max_attempts: int = 3


class Load(msgspec.Struct):
    """Tasks of one service, so many a second on average; their arguments are the same, or drawn for each."""

    service: str
    per_s: float
    arguments: Arguments = ()
    timeout_s: float = 10.0
    priority: int = 1


class Plan(msgspec.Struct):
    """What the user wants of the world."""

    handlers: dict[str, Handler]
    loads: list[Load]
    crews: list[list[str]]  # the services of each worker
    capacity: int
    signatures: dict[str, Signature]


class OwnWorld(World):
    def __init__(self, seed: int, profile: Profile, plan: Plan, trace: Trace) -> None:
        self.plan = plan
        self.failures: list[str] = []
        super().__init__(seed, profile, trace)
        self.books = OwnBooks(self)
        self.promises = self.books

    def services_for(self, name: str) -> list[str]:
        return list(self.plan.crews[int(name.removeprefix("worker"))])

    def is_steadfast(self, name: str) -> bool:
        return True  # a user's workers offer what they offer

    def make_workload(self) -> Workload:
        return OwnLoad(self)

    def make_worker(self, name: str) -> WorkerProcess:
        return OwnWorker(self, name, name, self.services_for(name), self.plan.capacity)

    def work_s(self, service: str, random: Random) -> float:
        """How long this call takes."""
        wanted = self.plan.handlers[service].work_s
        if isinstance(wanted, tuple):
            return random.uniform(*wanted)
        return wanted(random) if callable(wanted) else wanted

    def call(self, task: Task) -> Status:
        """Run the user's function, if there is one."""
        handler, signature = self.plan.handlers[task.service], self.plan.signatures.get(task.service)
        if handler.function is None or signature is None:
            return Status.OK
        load = self.plan.loads[int(task.body[1].removeprefix(OWN))]
        try:
            args, kwargs = signature.decode_arguments(*self._arguments(load, task.body[0]))
            signature.encode_result(handler.function(*args, **kwargs))
        except Exception as error:  # the user's, and its outcome is a failed reply
            if len(self.failures) < FAILURES_MAX:
                self.failures.append(f"{task.service}: {type(error).__name__}: {error}")
            return Status.FAILED
        return Status.OK

    def _arguments(self, load: Load, token: bytes) -> tuple[Body, bytes]:
        drawn = load.arguments(self.random_for(f"arguments/{token!r}")) if callable(load.arguments) else load.arguments
        return encode_arguments(drawn, {})


class OwnWorker(WorkerProcess):
    """A worker that runs the user's handlers, one in each slot."""

    world: OwnWorld
    begins_within_s = 0.0

    def __init__(self, world: OwnWorld, name: str, identity: str, services: list[str], capacity: int) -> None:
        super().__init__(world, name, identity, services, capacity)
        self.threads = capacity

    def recover(self) -> None:
        """The load is over, and so are handlers whose task nobody waits for."""
        super().recover()
        for task in [task for task in self.running.values() if task.id not in self.world.promises.open]:
            self._finish(task)

    def _work(self, task: Task, part: int) -> None:
        if not behaviour_of(task.body).startswith(OWN):  # a probe, after the load
            super()._work(task, part)
        elif part == 0:
            self.after(self.world.work_s(task.service, self.random), self._work, task, 1)
        else:
            self._finish(task)

    def _finish(self, task: Task) -> None:
        if not behaviour_of(task.body).startswith(OWN):
            super()._finish(task)
        elif self.running.pop((task.id, task.attempt), None) is not None:
            self._reply(task, self.world.call(task))
            self._start_next()

    def _abort(self, abort: Abort) -> None:
        super()._abort(abort)
        task = self.running.get((abort.id, abort.attempt))
        if task is not None and self.world.is_healed:
            self._finish(task)


class OwnLoad(Workload):
    """The user's load, from any of the clients."""

    def start(self) -> None:
        world = cast("OwnWorld", self.world)
        for number, load in enumerate(world.plan.loads):
            self.world.schedule.after(LEAD_S + self._random.expovariate(load.per_s), self._submit, number, load)

    def _submit(self, number: int, load: Load) -> None:
        if self.world.is_healed:
            return
        clients = [client for client in self.world.of(ClientProcess) if not client.is_paused]
        if clients:
            behaviour = OWN + str(number).encode()
            self._random.choice(clients).submit(load.service, behaviour, load.timeout_s, load.priority)
        self.world.schedule.after(self._random.expovariate(load.per_s), self._submit, number, load)


class OwnBooks(PromiseChecks):
    """The checks of the promise, and figures beside them."""

    def __init__(self, world: OwnWorld) -> None:
        super().__init__(world)
        self.by_service: dict[str, Counter[str]] = {load.service: Counter() for load in world.plan.loads}
        self.latencies_s: dict[str, list[float]] = {load.service: [] for load in world.plan.loads}
        self.by_broker: Counter[str] = Counter()
        self.by_worker: Counter[str] = Counter()
        self._began_s: dict[bytes, float] = {}

    def submitted(self, id_: TaskId, task: Submitted) -> None:
        super().submitted(id_, task)
        if task.behaviour.startswith(OWN):
            self._began_s[id_] = self.world.schedule.now

    def settled(self, process: Process, id_: bytes, outcome: TaskReply | Error) -> None:
        task = self.open.get(id_)
        super().settled(process, id_, outcome)
        began_s = self._began_s.pop(id_, None)
        if task is None or began_s is None:
            return
        name = str(outcome.code) if isinstance(outcome, Error) else Status(outcome.status).name
        self.by_service[task.service][name] += 1
        if not isinstance(outcome, Error):
            self.latencies_s[task.service].append(self.world.schedule.now - began_s)
            host = self.world.network.hosts.get(process.socket.endpoint) if process.socket is not None else None
            self.by_broker[host.name if host is not None else "none"] += 1

    def started(self, worker: str, service: str, token: bytes) -> None:
        super().started(worker, service, token)
        if not self.world.is_healed:
            self.by_worker[worker.partition("#")[0]] += 1

    def ended(self, process: Process) -> None:
        for id_ in [id_ for id_, task in self.open.items() if task.process is process and id_ in self._began_s]:
            self.by_service[self.open[id_].service]["client gone"] += 1
            del self._began_s[id_]
        super().ended(process)
