"""A world: brokers, participants, network, faults and checks, all made from one seed.

First trouble: steps with faults. Then the world is healed: everything runs again, no new faults, the workload ends;
every open task must get its outcome, and then every service must answer again at once (I14).
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import NoReturn, TypeVar

from scale0.core.held_config import SavedConfig
from scale0.simulator.checks_config import VersionChecks
from scale0.simulator.checks_end import EndChecks
from scale0.simulator.checks_end_network import NetworkEndChecks
from scale0.simulator.checks_moves import MoveChecks
from scale0.simulator.checks_promise import PromiseChecks
from scale0.simulator.checks_star import StarChecks
from scale0.simulator.faults import Faults
from scale0.simulator.host import BrokerHost
from scale0.simulator.majordomo_actors import MajordomoClient, MajordomoWorker
from scale0.simulator.native_actors import ClientProcess, WorkerProcess
from scale0.simulator.network import Network
from scale0.simulator.network_profiles import any_profile, document_of, local_settings
from scale0.simulator.nuisance import Nuisance
from scale0.simulator.process import Process
from scale0.simulator.profiles import Profile
from scale0.simulator.req_actors import ReqClient, ReqWorker
from scale0.simulator.schedule import Schedule
from scale0.simulator.shapes import BrokerShape
from scale0.simulator.trace import Trace
from scale0.simulator.workload import Workload

P = TypeVar("P", bound=Process)


class Violation(AssertionError):
    """Something that must never happen, with the rule that forbids it."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.text = text


class World:
    def __init__(self, seed: int, profile: Profile | None = None, trace: Trace | None = None) -> None:
        self.seed = seed
        self.profile = profile or any_profile(seed)
        self.shape = self.profile.shape
        self.schedule = Schedule()
        self.trace = trace or Trace()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.faults_injected = 0
        self.is_healed = False
        self.processes: dict[str, Process] = {}
        self._living: dict[tuple[type[Process], ...], list[Process]] = {}
        self.saved: dict[str, SavedConfig] = {}  # what participants keep for their next process, by name
        self.promises = PromiseChecks(self)
        self.versions = VersionChecks(self)
        self.moves = MoveChecks(self)
        self.stars = StarChecks(self)
        self._runs: Counter[str] = Counter()
        self._tokens = 0
        self._random = self.random_for("world")
        self.network = Network(self, self.profile.network)
        self.hosts: list[BrokerHost] = []
        self._hosts_by_name: dict[str, BrokerHost] = {}
        self._make_hosts()
        self.faults = Faults(self)
        self.workload = self.make_workload()
        self.end = EndChecks(self) if self.shape is None else NetworkEndChecks(self)
        self._populate()

    # --- what actors and checks ask for ---------------------------------------------------------------------------

    @property
    def must_all_be_served(self) -> bool:
        """Nothing goes wrong in this world, so no task may end in an error."""
        return self.profile.kind in ("calm", "fair", "shares")

    def random_for(self, concern: str) -> Random:
        """A generator of its own for each concern: one more choice here leaves the others as they were."""
        return Random(f"{self.seed}/{concern}")

    def count(self, group: str, name: str) -> None:
        self.counts[group, name] += 1

    def new_token(self) -> bytes:
        self._tokens += 1
        token = b"token-%d" % self._tokens
        self.stars.splits.born(token)
        return token

    def host_named(self, name: str) -> BrokerHost | None:
        return self._hosts_by_name.get(name)

    def next_run(self, name: str) -> int:
        self._runs[name] += 1
        return self._runs[name]

    def endpoints_for(self, random: Random, name: str) -> list[str]:
        """Where a participant looks for its broker: all of them, each with its own favourite.

        In a network one or two of its group are enough.
        """
        if name.startswith("probe"):
            return [self.hosts[_number(name)].endpoint]
        if self.shape is not None:
            group = self.shape.groups[_number(name) % len(self.shape.groups)]
            members = [broker.endpoint for broker in self.shape.brokers if broker.group == group and not broker.is_late]
            return random.sample(members, min(len(members), random.choice((1, 1, 2))))
        endpoints = [host.endpoint for host in self.hosts]
        if len(endpoints) > 1 and random.random() < 0.3:
            endpoints.reverse()
        return endpoints

    def services_for(self, name: str) -> list[str]:
        """What a worker of this name may offer: all, or, where brokers manage only some, what one of them manages."""
        halves = self.shape.halves if self.shape is not None else []
        if halves:
            return list(halves[_number(name) % len(halves)])
        return [service.name for service in self.profile.services]

    def is_steadfast(self, name: str) -> bool:
        """The first workers offer all that they may, always: so no service is without one for long."""
        kinds = max(len(self.shape.groups), len(self.shape.halves)) if self.shape is not None else 1
        return name.startswith("worker") and _number(name) < kinds

    def of(self, *kinds: type[P]) -> list[P]:
        """The living processes of these kinds; not to be changed, for it is kept until somebody comes or goes."""
        living = self._living.get(kinds)
        if living is None:
            every = self.processes.values()
            living = self._living[kinds] = [one for one in every if isinstance(one, kinds) and one.is_alive]
        return living  # type: ignore[return-value]

    def ended(self, process: Process) -> None:
        """A process is gone; another run of it starts after a while."""
        self._living.clear()
        self.trace.event(self.schedule.now, process.label, "is gone")
        self.promises.ended(process)
        self.schedule.after(0.05 + self._random.random(), self.spawn, process.name)

    def violation(self, rule: str, text: str) -> NoReturn:
        raise Violation(rule, text)

    # --- the course of a run --------------------------------------------------------------------------------------

    @property
    def steps_done(self) -> int:
        return self.schedule.steps_done

    def step(self) -> None:
        self.run(self.steps_done + 1)

    def run(self, steps_max: int, end_s: float = math.inf) -> bool:
        """Until so many steps were done in all. False if nothing is left to do before `end_s`."""
        return self.schedule.run(steps_max, end_s, self.promises)

    def heal(self) -> None:
        """No more trouble: all that stood still goes on, all that is down comes up, nobody is cut off."""
        self.is_healed = True
        self.trace.event(self.schedule.now, "world", "is healed")
        self.network.calm_down()
        for host in self.hosts:
            host.clock_off_s = 0.0
            host.resume()
            host.start()
            host.manage("enable", {})
        for process in list(self.processes.values()):
            process.clock_off_s = 0.0
            process.resume()
            if isinstance(process, WorkerProcess):
                process.post(process.recover)
            if isinstance(process, Nuisance | MajordomoClient | ReqClient):
                process.crash()

    # --- making it ------------------------------------------------------------------------------------------------

    def make_workload(self) -> Workload:
        return Workload(self)

    def _make_hosts(self) -> None:
        if self.shape is not None:
            for broker in self.shape.brokers:
                if not broker.is_late:
                    self.add_broker(broker)
            return
        for number in range(self.profile.brokers):
            name, endpoint = f"broker{number}", f"tcp://10.0.0.{number + 1}:5555"
            self._start_host(BrokerHost(self, name, endpoint, self.profile.broker_settings(name, endpoint)))

    def add_broker(self, broker: BrokerShape) -> None:
        """A broker of the network: by the document that lists it, or by joining one that is there."""
        assert self.shape is not None, "only a network grows"
        is_listed = broker in self.shape.listed
        seeds = [host.endpoint for host in self.hosts[:2]]
        host = BrokerHost(
            self,
            broker.name,
            broker.endpoint,
            local_settings(self.profile, broker),
            seeds=[] if is_listed else seeds,
            document=document_of(self.profile) if is_listed else None,
        )
        self._start_host(host)

    def _start_host(self, host: BrokerHost) -> None:
        self.hosts.append(host)
        self._hosts_by_name[host.name] = host
        self.network.hosts[host.endpoint] = host
        host.start()

    def _populate(self) -> None:
        profile = self.profile
        numbers = {
            "client": profile.clients,
            "worker": profile.workers,
            "mdpclient": profile.majordomo_clients,
            "mdpworker": profile.majordomo_workers,
            "reqclient": profile.req_clients,
            "reqworker": profile.req_workers,
            "nuisance": profile.nuisances,
            "twin": profile.twins,
        }
        for kind, number in numbers.items():
            for index in range(number):
                self.schedule.after(self._random.random() * 0.5, self.spawn, f"{kind}{index}")
        self.workload.start()
        self.faults.start()

    def spawn(self, name: str) -> None:
        living = self.processes.get(name)
        if living is not None and living.is_alive:
            return
        kind = name.rstrip("0123456789")
        index = int(name.removeprefix(kind))
        if self.is_healed and kind in ("mdpclient", "reqclient", "nuisance"):
            return
        process = self._make(kind, name, index)
        self.processes[name] = process
        self._living.clear()
        self.trace.event(self.schedule.now, process.label, "starts")
        process.start()

    def _make(self, kind: str, name: str, index: int) -> Process:
        if kind in ("client", "probe"):
            return ClientProcess(self, name, name)
        if kind == "worker":
            return self.make_worker(name)
        if kind == "twin":
            return WorkerProcess(self, name, "worker0", *self._services_and_capacity("worker0"))
        if kind == "mdpclient":
            return MajordomoClient(self, name, 1 + index % 2)
        if kind == "mdpworker":
            return MajordomoWorker(self, name, 1 + index % 2, self.profile.services[0].name)
        if kind == "reqclient":
            return ReqClient(self, name)
        if kind == "reqworker":
            return ReqWorker(self, name, self.profile.services[-1].name)
        return Nuisance(self, name)

    def make_worker(self, name: str) -> WorkerProcess:
        return WorkerProcess(self, name, name, *self._services_and_capacity(name))

    def _services_and_capacity(self, name: str) -> tuple[list[str], int]:
        names = self.services_for(name)
        if self.profile.kind == "fair":
            return names, self.profile.capacity_max
        if self.is_steadfast(name):
            return names, max(1, self.profile.capacity_max)
        return self._random.sample(names, self._random.randint(1, len(names))), self._random.randint(
            1, self.profile.capacity_max
        )


def _number(name: str) -> int:
    """The number at the end of a participant's name."""
    return int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
