"""The simulator as a library: users' own services and topologies, under load and faults, in virtual time.

`simulate` runs a network with the handlers that it is given and says what came of it: outcomes, latencies, who did the
work, what went wrong, and whether every promise held. An hour takes seconds, and the same seed gives the same run.
What is simulated is the network and the time; brokers, sessions and handlers are the real ones.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scale0.core.settings import Limits
from scale0.encoding import Signature
from scale0.errors import UsageError
from scale0.protocol import documents, network_rules
from scale0.protocol.network import BrokerEntry, Document
from scale0.simulator.network import NetworkProfile
from scale0.simulator.own_world import LEAD_S, Handler, Load, OwnWorld, Plan
from scale0.simulator.profiles import Profile, ServiceProfile
from scale0.simulator.run import LAST_EVENTS, play
from scale0.simulator.scenario import BROKERS_MAX, PARTICIPANTS_MAX, read_kinds
from scale0.simulator.schedule import START_S
from scale0.simulator.shapes import BrokerShape, Shape
from scale0.simulator.timeline import Recorder, Strike

TASKS_MAX = 1_000_000  # of one simulation: each one's latency is kept

Network = int | str | Path | Document


class Figures(msgspec.Struct):
    """What came of one service's tasks. Latencies are those of replies, from submission to outcome."""

    outcomes: dict[str, int]  # OK, FAILED (the handler raised), or an error's code
    latencies_s: list[float]  # in order

    @property
    def tasks(self) -> int:
        return sum(self.outcomes.values())

    def percentile_s(self, share: float) -> float | None:
        """The latency that this share of the replies had at most; None without replies."""
        if not self.latencies_s:
            return None
        return self.latencies_s[max(0, math.ceil(share * len(self.latencies_s)) - 1)]


class Simulation(msgspec.Struct):
    """What happened. All times are virtual."""

    seed: int
    steps: int
    virtual_s: float
    digest: str  # equal digests mean equal runs
    services: dict[str, Figures]
    brokers: dict[str, int]  # replies that clients got from each
    workers: dict[str, int]  # handlers that each has started
    faults: dict[str, int]
    timeline: list[Strike]
    failures: list[str]  # what handlers raised
    violation: str = ""  # a promise of Scale0 that was broken, or nothing
    last_events: list[str] = []

    @property
    def is_good(self) -> bool:
        """Whether every promise held; outcomes may be errors all the same."""
        return not self.violation

    @property
    def outcomes(self) -> dict[str, int]:
        """Over all services."""
        total: dict[str, int] = {}
        for figures in self.services.values():
            for name, number in figures.outcomes.items():
                total[name] = total.get(name, 0) + number
        return total


def simulate(
    network: Network = 1,
    *,
    handlers: Mapping[str, Handler | Callable[..., Any] | float],
    load: Load | Sequence[Load],
    workers: int | Mapping[str, int] = 2,
    capacity: int = 1,
    clients: int = 2,
    faults: Sequence[str] = (),
    fault_every_s: float = 5.0,
    latency_s: float = 0.001,
    seconds: float = 60.0,
    seed: int = 0,
) -> Simulation:
    """Run a network under load for so many virtual seconds, then until it has come to rest.

    `network` is a number of brokers, a config document, or a file with one; its addresses are replaced by simulated
    ones. `handlers` has each service's function, `Handler`, or only the seconds that a call takes. `workers` is a
    number of workers that serve everything, or a number for each service. `faults` names kinds of faults, as
    `scale0 sim --faults list` lists them; one of them happens each `fault_every_s` on average.
    """
    known = {name: _handler(given) for name, given in handlers.items()}
    loads = [load] if isinstance(load, Load) else list(load)
    document = _document(network)
    crews = [list(known)] * workers if isinstance(workers, int) else [[n] for n, k in workers.items() for _ in range(k)]
    _check(known, loads, crews, clients, seconds)
    profile = Profile(
        kind="own",
        services=[_service(name, handler, document) for name, handler in known.items()],
        interval_s=document.default_heartbeat_interval_s,
        liveness=document.liveness,
        clients=clients,
        workers=len(crews),
        capacity_max=capacity,
        majordomo_clients=0,
        majordomo_workers=0,
        req_clients=0,
        req_workers=0,
        nuisances=0,
        twins=0,
        brokers=len(document.brokers),
        task_gap_s=1.0,
        fault_gap_s=fault_every_s,
        timeout_max_s=max(each.timeout_s for each in loads),
        slow_s=max(each.timeout_s for each in loads),
        network=NetworkProfile(latency_s=latency_s, jitter_s=latency_s, spike_share=0.0),
        limits=Limits(),
        shape=_shape(document),
        faults=read_kinds(",".join(faults)) if faults else (),
    )
    signatures = {name: Signature(one.function, name) for name, one in known.items() if one.function is not None}
    recorder = Recorder()
    world = OwnWorld(seed, profile, Plan(known, loads, crews, capacity, signatures), recorder)
    recorder.world = world
    end_s = START_S + LEAD_S + seconds
    ending = play(world, sys.maxsize, end_s)
    if ending.is_interrupted:
        raise KeyboardInterrupt
    return _told(world, recorder, ending.violation)


def _told(world: OwnWorld, recorder: Recorder, violation: str) -> Simulation:
    books = world.books
    return Simulation(
        seed=world.seed,
        steps=world.steps_done,
        virtual_s=world.schedule.now - START_S,
        digest=world.trace.digest(),
        services={
            name: Figures(dict(outcomes), sorted(books.latencies_s[name]))
            for name, outcomes in books.by_service.items()
        },
        brokers={host.name: books.by_broker[host.name] for host in world.hosts},
        workers={f"worker{number}": books.by_worker[f"worker{number}"] for number in range(len(world.plan.crews))},
        faults={name: number for (group, name), number in world.counts.items() if group == "fault"},
        timeline=recorder.finish(),
        failures=world.failures,
        violation=violation,
        last_events=world.trace.last(LAST_EVENTS, violation) if violation else [],
    )


# --- what users give ----------------------------------------------------------------------------------------------


def _handler(given: Handler | Callable[..., Any] | float) -> Handler:
    if isinstance(given, int | float):
        return Handler(work_s=float(given))
    handler = given if isinstance(given, Handler) else Handler(given)
    function = handler.function
    if function is not None and (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)):
        what = getattr(function, "__name__", repr(function))
        raise UsageError(f"{what} is no plain function, and only those run in virtual time\ngive its work_s alone")
    return handler


def _service(name: str, handler: Handler, document: Document) -> ServiceProfile:
    """What holds for it: the document's word, else the workers' (rule 15)."""
    entry = next((entry for entry in document.service if entry.name == name), None)
    idempotent = handler.idempotent if entry is None or entry.idempotent is None else entry.idempotent
    attempts = handler.max_attempts if entry is None or entry.max_attempts is None else entry.max_attempts
    return ServiceProfile(name, idempotent, attempts)


def _check(
    handlers: dict[str, Handler], loads: list[Load], crews: list[list[str]], clients: int, seconds: float
) -> None:
    if not loads or not handlers:
        raise UsageError("nothing would happen\ngive at least one handler, and a Load for it")
    for load in loads:
        if load.service not in handlers:
            raise UsageError(f"no handler for {load.service!r}\nthere are {', '.join(handlers)}")
        if load.per_s <= 0 or load.timeout_s <= 0:
            raise UsageError(f"the load of {load.service!r} needs per_s and timeout_s above zero")
    strange = [name for crew in crews for name in crew if name not in handlers]
    if strange:
        raise UsageError(f"workers for {strange[0]!r}, which has no handler\nthere are {', '.join(handlers)}")
    idle = [name for name in handlers if not any(name in crew for crew in crews)]
    if idle:
        raise UsageError(f"no worker serves {idle[0]!r}\ngive workers a number, or one for each service")
    if not 0 < clients <= PARTICIPANTS_MAX or len(crews) > PARTICIPANTS_MAX:
        raise UsageError(f"1 to {PARTICIPANTS_MAX} clients, and workers, can be simulated")
    if sum(load.per_s for load in loads) * seconds > TASKS_MAX:
        raise UsageError(f"more than {TASKS_MAX:,} tasks\nsimulate fewer seconds, or a smaller load")


def _document(network: Network) -> Document:
    """The document, with an address of the simulated network for each broker."""
    if isinstance(network, int):
        names = [f"broker{number}" for number in range(network)]
        document = Document(brokers=[BrokerEntry(identity=name) for name in names])
    elif isinstance(network, Document):
        document = network
    else:
        path = Path(network)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from None
        document = documents.decode(data, path.suffix.removeprefix(".").upper() or "TOML", Document, str(path))
    if not 0 < len(document.brokers) <= BROKERS_MAX:
        raise UsageError(f"{len(document.brokers)} brokers\n1 to {BROKERS_MAX} can be simulated")
    brokers = [_entry(entry, number) for number, entry in enumerate(document.brokers)]
    document = msgspec.structs.replace(document, brokers=brokers)
    network_rules.check(document, "network")
    return document


def _entry(entry: BrokerEntry, number: int) -> BrokerEntry:
    shape = BrokerShape(number)
    return msgspec.structs.replace(
        entry,
        endpoints=[shape.endpoint],
        config_pub=shape.publisher,
        config_sub_ports=[],
        bind="",
        advertise="",
        frontend_port=0,
        backend_port=0,
        peer_port=0,
        config_pub_port=0,
        public_key="",
    )


def _shape(document: Document) -> Shape:
    members = [
        BrokerShape(
            number,
            entry.group,
            () if entry.services == "all" else tuple(entry.services),
            identity=entry.identity,
            fallback_broker=entry.fallback_broker,
        )
        for number, entry in enumerate(document.brokers)
    ]
    return Shape(tuple(members), joins=False, join=document.join, given=document)
