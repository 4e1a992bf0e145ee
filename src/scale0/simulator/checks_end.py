"""What must hold after the trouble: every task has its outcome, the broker holds nothing, every service answers again.

I14: after faults stop, fully live within N seconds. A slot that was never released, a worker that stayed out of the LRU
queue or a session that nobody renews show here, in probes that fill every slot.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from scale0.simulator.native_actors import ClientProcess, WorkerProcess
from scale0.simulator.schedule import START_S

if TYPE_CHECKING:
    from scale0.simulator.world import World

LIVE_WITHIN_S = 40.0
PROBE_TIMEOUT_S = 4.0
STEPS_MAX = 60_000


class EndChecks:
    def __init__(self, world: World) -> None:
        self.world = world
        self.why_unserved = ""

    def run(self) -> None:
        """Heal the world and wait, in virtual time, until it is well."""
        world = self.world
        world.heal()
        limit_s = world.schedule.now + world.profile.timeout_max_s + 5.0
        self._until(lambda: not world.promises.open, limit_s, "tasks have no outcome")
        self._until(self._is_empty, limit_s + 10.0, "a broker still holds tasks whose deadlines have passed")
        self.settle()
        self._probe()
        self._until(self._is_empty, world.schedule.now + 5.0, "a broker still holds tasks that were answered")
        for host in world.hosts:
            host.broker.check()
        self._workers_are_free()
        self.finish()

    def settle(self) -> None:
        """What else must hold before the probes; a network has more to say."""

    def finish(self) -> None:
        """What else must hold after them."""

    def _probe(self) -> None:
        """Each client asks each service, one after the other, until a whole round is served."""
        world = self.world
        end_s = world.schedule.now + LIVE_WITHIN_S
        while not self._is_round_served():
            if world.schedule.now > end_s:
                world.violation(
                    "I14", f"{LIVE_WITHIN_S:.0f} s after the last fault tasks still fail{self.why_unserved}"
                )
            self._pass(0.5)

    def _is_round_served(self) -> bool:
        world = self.world
        clients = world.of(ClientProcess)
        for client in clients:
            for service in world.profile.services:
                served = self._served()
                client.submit(service.name, b"ok", PROBE_TIMEOUT_S)
                self._until(lambda: not world.promises.open, world.schedule.now + 10.0, "a probe has no outcome")
                if self._served() == served:
                    self.why_unserved = f": {service.name} asked by {client.label}"
                    return False
        return bool(clients)

    def _served(self) -> int:
        """Brokers do not know one another here: with two of them the workers may all be at the other one."""
        outcomes = self.world.promises.outcomes
        are_strangers = len(self.world.hosts) > 1 and self.world.shape is None
        return outcomes["OK"] + (outcomes["404"] + outcomes["408"] if are_strangers else 0)

    def _workers_are_free(self) -> None:
        """Nothing is in flight, so every worker's slots are free as soon as its last handler ends."""
        world = self.world
        longest_s = world.profile.liveness * world.profile.interval_s + world.profile.slow_s + 10.0
        end_s = world.schedule.now + longest_s
        self._until(
            lambda: not self._taken(),
            end_s,
            "a worker's slot is never freed (rule 6):",
            lambda: ", ".join(self._taken()),
        )

    def _taken(self) -> list[str]:
        """The workers that work on something, or of which their broker says so."""
        taken = []
        for worker in self.world.of(WorkerProcess):
            host = self.world.network.hosts.get(worker.socket.endpoint) if worker.socket else None
            if worker.running or worker.waiting or (host is not None and host.slots_of(worker)):
                taken.append(worker.label)
        return taken

    def _is_empty(self) -> bool:
        for host in self.world.hosts:
            census = host.broker.census()
            is_copy = host.broker.state.mode == "passive"  # which ends when its partner says so
            if (census.queued or census.in_flight) and not is_copy:
                return False
        return True

    def _until(
        self,
        is_done: Callable[[], bool],
        limit_s: float,
        otherwise: str,
        why: Callable[[], str] = str,
        rule: str = "I14",
    ) -> None:
        world = self.world
        for _ in range(STEPS_MAX):
            if is_done():
                return
            if world.schedule.now > limit_s:
                world.violation(rule, f"{limit_s - START_S:.1f} s: {otherwise} {why()}".rstrip())
            world.step()
        world.violation(rule, f"{STEPS_MAX} steps: {otherwise} {why()}".rstrip())

    def _pass(self, seconds: float) -> None:
        end_s = self.world.schedule.now + seconds
        self.world.run(sys.maxsize, end_s)
        self.world.schedule.now = max(self.world.schedule.now, end_s)
