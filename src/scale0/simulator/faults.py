"""What goes wrong, and when: at random times one fault at a random victim, until the world is healed.

A calm world knows only the orderly changes: leaving, joining, other services, another capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from scale0.simulator.crossing_faults import CrossingFaults
from scale0.simulator.host import BrokerHost
from scale0.simulator.majordomo_actors import MajordomoWorker
from scale0.simulator.moment_faults import MomentFaults
from scale0.simulator.native_actors import ClientProcess, WorkerProcess
from scale0.simulator.network_faults import NetworkFaults
from scale0.simulator.operator_faults import OperatorFaults
from scale0.simulator.process import Process
from scale0.simulator.star_faults import StarFaults

if TYPE_CHECKING:
    from scale0.simulator.world import World

T = TypeVar("T")


ORDERLY = {"worker leaves": 3, "services change": 3, "capacity changes": 3}
ROUGH = {
    "client leaves": 1,
    "connection breaks": 6,
    "connection blackens": 2,
    "process crashes": 3,
    "busy worker crashes": 4,
    "process pauses": 4,
    "process is cut off": 2,
    "clock of process jumps": 2,
    "broker crashes": 3,
    "broker pauses": 1,
    "clock of broker jumps": 1,
    "broker is disabled": 1,
    "broker drains": 1,
}
"""Each kind of fault and how often it is chosen; a method of `Faults` has its name."""


class Faults:
    def __init__(self, world: World) -> None:
        self.world = world
        self._random = world.random_for("faults")
        chosen = ORDERLY if world.profile.kind == "calm" else ORDERLY | ROUGH
        owners: dict[str, object] = dict.fromkeys(chosen, self)
        if world.shape is not None:
            network = NetworkFaults(world, self._random)
            chosen = network.chosen() | (chosen if world.profile.kind != "shares" else {})
            owners |= dict.fromkeys(network.chosen(), network)
            star = StarFaults(world, self._random)
            chosen |= star.chosen()
            owners |= dict.fromkeys(star.chosen(), star)
            for moments in (MomentFaults(world, self._random), CrossingFaults(world, self._random)):
                chosen |= moments.chosen()
                owners |= dict.fromkeys(moments.chosen(), moments)
        operator = OperatorFaults(world, self._random)
        chosen = chosen | operator.chosen()
        owners |= dict.fromkeys(operator.chosen(), operator)
        wanted = world.profile.faults
        self._kinds = [kind for kind in chosen if wanted is None or kind in wanted]
        self._weights = [chosen[kind] for kind in self._kinds]
        self._actions: list[Callable[[], None]] = [
            getattr(owners[kind], kind.replace(" ", "_")) for kind in self._kinds
        ]
        self._struck = 0  # times that it was a fault's turn

    def start(self) -> None:
        if self._kinds:
            self._next()

    def _next(self) -> None:
        # Each fault has choices of its own: leaving one out leaves the others as they were.
        self._random.seed(f"{self.world.seed}/fault/{self._struck}")
        gap_s = self._random.expovariate(1 / self.world.profile.fault_gap_s)
        self.world.schedule.after(gap_s, self._strike)

    def _strike(self) -> None:
        if self.world.is_healed:
            return
        number, only = self._struck, self.world.profile.strikes
        place = self._random.choices(range(len(self._kinds)), self._weights)[0]
        self._struck += 1
        if only is None or number in only:
            kind = self._kinds[place]
            self.world.count("fault", kind)
            self.world.faults_injected += 1
            self.world.trace.event(self.world.schedule.now, "fault", f"{number}: {kind}")
            self._actions[place]()
        self._next()

    # --- orderly --------------------------------------------------------------------------------------------------

    def worker_leaves(self) -> None:
        for worker in self._one(self.world.of(WorkerProcess) + self.world.of(MajordomoWorker)):
            self._tell(worker, "leaves")
            # A calm world's Majordomo workers stay: DISCONNECT with a task in hand loses it, by the RFC.
            if isinstance(worker, WorkerProcess) or self.world.profile.kind != "calm":
                worker.post(worker.leave)

    def services_change(self) -> None:
        for worker in self._one(self.world.of(WorkerProcess)):
            worker.post(worker.change_services)

    def capacity_changes(self) -> None:
        for worker in self._one(self.world.of(WorkerProcess)):
            worker.post(worker.change_capacity)

    # --- participants and their connections -----------------------------------------------------------------------

    def client_leaves(self) -> None:
        for client in self._one(self.world.of(ClientProcess)):
            self._tell(client, "leaves")
            client.post(client.leave)

    def connection_breaks(self) -> None:
        for connection in self._one(self.world.network.connections()):
            self._tell(connection.process, "connection breaks")
            self.world.network.break_(connection)

    def connection_blackens(self) -> None:
        for connection in self._one(self.world.network.connections()):
            self._tell(connection.process, "connection is half open")
            self.world.network.blacken(connection, self._some_intervals_s(5))

    def process_crashes(self) -> None:
        for process in self._one(self.world.of(Process)):
            self._tell(process, "crashes")
            process.crash()

    def busy_worker_crashes(self) -> None:
        """With tasks in hand: some are repeated, some end in 502."""
        for worker in self._one([worker for worker in self.world.of(WorkerProcess) if worker.running]):
            self._tell(worker, "crashes with tasks in hand")
            worker.crash()

    def process_pauses(self) -> None:
        for process in self._one(self.world.of(Process)):
            self._tell(process, "pauses")
            process.pause()
            self.world.schedule.after(self._some_intervals_s(8), process.resume)

    def process_is_cut_off(self) -> None:
        for process in self._one(self.world.of(Process)):
            self._tell(process, "is cut off")
            self.world.network.cut_until_s[process.name] = self.world.schedule.now + self._some_intervals_s(6)

    def clock_of_process_jumps(self) -> None:
        for process in self._one(self.world.of(Process)):
            process.clock_off_s = self._random.choice((-3600.0, -20.0, 0.0, 0.0, 20.0, 3600.0))
            process.clock_was_off |= process.clock_off_s != 0.0
            self._tell(process, f"has a clock {process.clock_off_s:+} s off")

    # --- brokers --------------------------------------------------------------------------------------------------

    def broker_crashes(self) -> None:
        for host in self._one(self._running()):
            host.crash()
            self.world.schedule.after(self._some_intervals_s(3), host.start)

    def broker_pauses(self) -> None:
        for host in self._one(self._running()):
            self.world.trace.event(self.world.schedule.now, host.name, "pauses")
            host.pause()
            self.world.schedule.after(self._some_intervals_s(6), host.resume)

    def clock_of_broker_jumps(self) -> None:
        for host in self._one(self._running()):
            host.clock_off_s = self._random.choice((-7200.0, -100.0, 0.0, 0.0, 100.0, 7200.0))
            self.world.trace.event(self.world.schedule.now, host.name, f"has a clock {host.clock_off_s:+} s off")

    def broker_is_disabled(self) -> None:
        for host in self._one(self._running()):
            host.manage("disable", {})
            self.world.schedule.after(self._some_intervals_s(4), host.manage, "enable", {})

    def broker_drains(self) -> None:
        for host in self._one(self._running()):
            host.manage("drain", {})

    # --- details --------------------------------------------------------------------------------------------------

    def _running(self) -> list[BrokerHost]:
        return [host for host in self.world.hosts if host.is_running]

    def _one(self, candidates: list[T]) -> list[T]:
        return [self._random.choice(candidates)] if candidates else []

    def _some_intervals_s(self, most: float) -> float:
        return self._random.random() * most * self.world.profile.interval_s

    def _tell(self, process: Process, what: str) -> None:
        self.world.trace.event(self.world.schedule.now, process.label, what)
