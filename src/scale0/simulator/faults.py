"""What goes wrong, and when: at random times one fault at a random victim, until the world is healed.

A calm world knows only the orderly changes: leaving, joining, other services, another capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from scale0.simulator.host import BrokerHost
from scale0.simulator.majordomo_actors import MajordomoWorker
from scale0.simulator.native_actors import ClientProcess, WorkerProcess
from scale0.simulator.network_faults import NetworkFaults
from scale0.simulator.process import Process

if TYPE_CHECKING:
    from scale0.simulator.world import World

T = TypeVar("T")


class Faults:
    def __init__(self, world: World) -> None:
        self.world = world
        self._random = world.random_for("faults")
        orderly: list[tuple[Callable[[], None], int]] = [
            (self.worker_leaves, 3),
            (self.services_change, 3),
            (self.capacity_changes, 3),
        ]
        rough: list[tuple[Callable[[], None], int]] = [
            (self.client_leaves, 1),
            (self.connection_breaks, 6),
            (self.connection_blackens, 2),
            (self.process_crashes, 3),
            (self.busy_worker_crashes, 4),
            (self.process_pauses, 4),
            (self.process_is_cut_off, 2),
            (self.clock_of_process_jumps, 2),
            (self.broker_crashes, 3),
            (self.broker_pauses, 1),
            (self.clock_of_broker_jumps, 1),
            (self.broker_is_disabled, 1),
            (self.broker_drains, 1),
        ]
        chosen = orderly if world.profile.kind == "calm" else orderly + rough
        if world.shape is not None:
            network = NetworkFaults(world, self._random)
            chosen = network.chosen() + (chosen if world.profile.kind != "shares" else [])
        self._actions = [action for action, _ in chosen]
        self._weights = [weight for _, weight in chosen]

    def start(self) -> None:
        self._next()

    def _next(self) -> None:
        gap_s = self._random.expovariate(1 / self.world.profile.fault_gap_s)
        self.world.schedule.after(gap_s, self._strike)

    def _strike(self) -> None:
        if self.world.is_healed:
            return
        action = self._random.choices(self._actions, self._weights)[0]
        self.world.count("fault", action.__name__.replace("_", " "))
        self.world.faults_injected += 1
        action()
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
