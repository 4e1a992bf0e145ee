"""What the participants do when nothing is wrong: clients submit and cancel, and now and then ask the broker itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scale0.simulator.majordomo_actors import MajordomoClient
from scale0.simulator.native_actors import BEHAVIOURS, CALM_BEHAVIOURS, ClientProcess
from scale0.simulator.process import Process
from scale0.simulator.req_actors import ReqClient

if TYPE_CHECKING:
    from scale0.simulator.world import World

BUILT_IN = ("scale0.services", "scale0.workers", "scale0.brokers", "scale0.clients", "scale0.dead_letters")
OPEN_MAX = 60  # tasks of one client in a rough world


class Workload:
    def __init__(self, world: World) -> None:
        self.world = world
        self._random = world.random_for("workload")

    def start(self) -> None:
        # A fair world counts from the moment that all workers are there; a network has to find itself first.
        is_early = self.world.profile.kind == "fair" or (self.world.shape is not None and self.world.must_all_be_served)
        delay_s = 3.0 if is_early else 0.0
        self.world.schedule.after(delay_s, self._act)

    def _act(self) -> None:
        if self.world.is_healed:
            return
        clients = self.world.of(ClientProcess, MajordomoClient, ReqClient)
        if clients:
            client = self._random.choice(clients)
            if not client.is_paused:
                # Bursts fill queues and slots; single tasks find them empty.
                for _ in range(self._random.choice((1, 1, 1, 1, 5))):
                    self._use(client)
        self.world.schedule.after(self._random.expovariate(1 / self.world.profile.task_gap_s), self._act)

    def _use(self, client: Process) -> None:
        profile = self.world.profile
        service = self._random.choice(profile.services).name
        behaviour = self._random.choice(BEHAVIOURS if profile.kind == "rough" else CALM_BEHAVIOURS)
        if isinstance(client, MajordomoClient):
            client.submit(service, b"ok" if behaviour in (b"hang", b"deaf", b"poison") else behaviour)
        elif isinstance(client, ReqClient):
            client.submit(service, behaviour, self._timeout_s())
        elif isinstance(client, ClientProcess):
            self._use_native(client, service, behaviour)

    def _use_native(self, client: ClientProcess, service: str, behaviour: bytes) -> None:
        is_rough = self.world.profile.kind == "rough"
        chance = self._random.random()
        if chance < 0.02:
            client.submit(self._random.choice(BUILT_IN), b"ok", self._timeout_s())
        elif chance < 0.04 and is_rough:
            client.submit("no.such.service", b"ok", self._timeout_s())
        elif chance < 0.12 and is_rough:
            client.cancel_one()
        elif is_rough and self.world.promises.open_of[client] > OPEN_MAX:
            return
        elif behaviour == b"poison":
            # A task that kills its worker: dispatched again while its service allows, then a dead letter.
            client.submit("again", behaviour, self.world.profile.timeout_max_s)
        else:
            client.submit(service, behaviour, self._timeout_s(), self._random.choice((0, 1, 1, 1, 2, 3)))

    def _timeout_s(self) -> float:
        longest_s = self.world.profile.timeout_max_s
        if self.world.profile.kind != "rough":
            return longest_s
        return self._random.choice((0.05, 0.3, longest_s / 2, longest_s, longest_s))
