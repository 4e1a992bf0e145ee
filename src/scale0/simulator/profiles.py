"""What kind of world a seed makes: how many participants, which services, how much trouble.

Every tenth seed is *calm* (no faults, only clean leaves: every task must end in a reply), every tenth *fair* (equal
workers with room: their dispatches differ by at most one, I13); the others are rough in their own ways. Seeds from
`NETWORKS` on make networks of brokers, which `network_profiles` describes, with pairs as `star_profiles` has it.
"""

from __future__ import annotations

from random import Random

import msgspec

from scale0.core.settings import BrokerSettings, Limits, ServiceSettings
from scale0.simulator.network import NetworkProfile
from scale0.simulator.shapes import Shape

MANAGER, PASSWORD = "operator", "open sesame"  # who may send MANAGEMENTREQ, where somebody may
NETWORKS = 1_000_000  # the first seed of the worlds whose brokers know one another
PAIRS = 2_000_000  # the first seed of those that have a pair for certain


class ServiceProfile(msgspec.Struct, frozen=True):
    """A service of this world. `is_configured`: the config says what holds, whatever the workers say (rule 15)."""

    name: str
    idempotent: bool
    max_attempts: int
    is_configured: bool = False


class Profile(msgspec.Struct, frozen=True):
    kind: str
    services: list[ServiceProfile]
    interval_s: float
    liveness: int
    clients: int
    workers: int
    capacity_max: int
    majordomo_clients: int
    majordomo_workers: int
    req_clients: int
    req_workers: int
    nuisances: int
    twins: int  # processes that claim an identity that is in use
    brokers: int
    task_gap_s: float
    fault_gap_s: float
    timeout_max_s: float
    slow_s: float  # how long a slow handler takes at most
    network: NetworkProfile
    limits: Limits
    is_managed: bool = False  # MANAGEMENTREQ is heard, with the right password
    shape: Shape | None = None  # of the network, if the brokers know one another
    faults: tuple[str, ...] | None = None  # the kinds that happen; None: all that this kind of world knows
    strikes: frozenset[int] | None = None  # of the faults only these, by their number; None: all

    def attempts_max(self, service: str) -> int:
        """How often a task may be dispatched at most."""
        for known in self.services:
            if known.name == service:
                return known.max_attempts if known.idempotent else 1
        return 1

    def is_idempotent(self, service: str) -> bool:
        return any(known.name == service and known.idempotent for known in self.services)

    def broker_settings(self, name: str, endpoint: str) -> BrokerSettings:
        configured = {
            service.name: ServiceSettings(service.idempotent, service.max_attempts, self.timeout_max_s)
            for service in self.services
            if service.is_configured
        }
        return BrokerSettings(
            identity=name,
            default_heartbeat_interval_s=self.interval_s,
            liveness=self.liveness,
            grace_s=1.0,
            default_timeout_s=self.timeout_max_s,
            service=configured,
            limits=self.limits,
            advertise=[endpoint],
        )


SERVICES = [
    ServiceProfile("once", idempotent=False, max_attempts=3),
    ServiceProfile("again", idempotent=True, max_attempts=3),
    ServiceProfile("configured.once", idempotent=False, max_attempts=2, is_configured=True),
    ServiceProfile("configured.again", idempotent=True, max_attempts=2, is_configured=True),
]


def profile_for(seed: int) -> Profile:
    """A world whose brokers do not know one another; most have only one."""
    random = Random(f"{seed}/profile")
    if seed % 10 == 0:
        return _calm(random)
    if seed % 10 == 1:
        return _fair(random)
    return _rough(random)


def _calm(random: Random) -> Profile:
    return Profile(
        kind="calm",
        services=SERVICES,
        interval_s=random.choice((0.5, 1.0, 2.5)),
        liveness=3,
        clients=random.randint(1, 4),
        workers=random.randint(2, 5),
        capacity_max=random.choice((1, 2, 4)),
        majordomo_clients=random.randint(0, 2),
        majordomo_workers=random.randint(0, 2),
        req_clients=random.randint(0, 1),
        req_workers=random.randint(0, 1),
        nuisances=0,
        twins=0,
        brokers=1,
        task_gap_s=0.2,
        fault_gap_s=0.7,
        timeout_max_s=30.0,
        slow_s=0.3,
        network=NetworkProfile(spike_s=0.1),
        limits=Limits(),
    )


def _fair(random: Random) -> Profile:
    return Profile(
        kind="fair",
        services=SERVICES[: random.randint(1, 4)],
        interval_s=2.5,
        liveness=3,
        clients=random.randint(1, 3),
        workers=random.randint(2, 7),
        capacity_max=200,
        majordomo_clients=0,
        majordomo_workers=0,
        req_clients=0,
        req_workers=0,
        nuisances=0,
        twins=0,
        brokers=1,
        task_gap_s=0.01,
        fault_gap_s=1e9,
        timeout_max_s=30.0,
        slow_s=0.3,
        network=NetworkProfile(),
        limits=Limits(),
    )


def _rough(random: Random) -> Profile:
    is_tight = random.random() < 0.3
    return Profile(
        kind="rough",
        services=SERVICES,
        interval_s=random.choice((0.3, 0.5, 1.0)),
        liveness=random.choice((2, 3, 4)),
        clients=random.randint(1, 4),
        workers=random.randint(1, 5),
        capacity_max=random.choice((1, 2, 2, 5, 20)),
        majordomo_clients=random.choice((0, 0, 1, 2)),
        majordomo_workers=random.choice((0, 0, 1, 2)),
        req_clients=random.choice((0, 0, 1)),
        req_workers=random.choice((0, 0, 1)),
        nuisances=random.choice((0, 1, 2)),
        twins=random.choice((0, 0, 1)),
        brokers=random.choice((1, 1, 2)),
        task_gap_s=random.choice((0.01, 0.03, 0.1, 0.3)),
        fault_gap_s=random.choice((0.1, 0.3, 1.0)),
        timeout_max_s=random.choice((2.0, 5.0, 8.0)),
        slow_s=1.5,
        network=NetworkProfile(
            latency_s=random.choice((0.0005, 0.002, 0.02)),
            jitter_s=random.choice((0.0, 0.005, 0.05)),
            spike_s=random.choice((0.1, 0.5, 1.0)),
            spike_share=random.choice((0.0, 0.01, 0.05)),
            pipe_messages=random.choice((3, 20, 1000)),
            reports_share=random.choice((0.0, 0.8, 1.0)),
        ),
        limits=Limits(
            queued_per_service=6,
            accepted=20,
            accepted_per_client=8,
            outcomes=30,
            dead_letters=3,
            strangers=4,
            error_clients=3,
            sessions=20,
            joined_bytes=40,
        )
        if is_tight
        else Limits(),
        is_managed=random.random() < 0.5,
    )
