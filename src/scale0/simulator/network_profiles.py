"""Worlds that are networks of two to five brokers.

Of ten seeds one is *calm* (brokers join, drain and start again, shares are balanced, the config changes, and every task
must end in a reply), one is about *shares* (a broker joins a network at rest, and takes its share of the workers); the
others are rough: brokers are killed, cut off from one another, disabled and drained, while the config is changed at
several of them at once. Some have pairs, a broker and its fallback (`star_profiles`).
"""

from __future__ import annotations

from random import Random

import msgspec

from scale0.core.settings import BrokerSettings, Limits
from scale0.protocol.network import Document
from scale0.simulator.network import NetworkProfile
from scale0.simulator.profiles import NETWORKS, PAIRS, SERVICES, Profile, profile_for
from scale0.simulator.shapes import BrokerShape, Shape, one_group, two_groups, two_halves
from scale0.simulator.star_profiles import with_pairs


def any_profile(seed: int) -> Profile:
    """The world that this seed makes."""
    return profile_for(seed) if seed < NETWORKS else network_profile(seed)


def network_profile(seed: int) -> Profile:
    """A world whose brokers know one another."""
    random = Random(f"{seed}/profile")
    is_shares = seed % 10 == 1 and seed < PAIRS
    make = _calm if seed % 10 == 0 else _shares if is_shares else _rough
    return with_pairs(seed, make(random))


def local_settings(profile: Profile, broker: BrokerShape) -> BrokerSettings:
    """What the broker's process is told beside the document."""
    assert profile.shape is not None, "only a network's brokers have a shape"
    return msgspec.structs.replace(
        profile.broker_settings(broker.name, broker.endpoint),
        group=broker.group,
        services=list(broker.services) or None,
        config_pub=broker.publisher,
        network="simulated",
    )


def document_of(profile: Profile) -> Document:
    """What the operator writes for the whole network."""
    assert profile.shape is not None, "only a network has a document"
    settings = local_settings(profile, profile.shape.brokers[0])
    shared = {
        "default_heartbeat_interval_s": settings.default_heartbeat_interval_s,
        "liveness": settings.liveness,
        "grace_s": settings.grace_s,
        "default_timeout_s": settings.default_timeout_s,
        "limits": settings.limits,
    }
    return profile.shape.document(settings, shared)


def _shape(random: Random, brokers: int, late: int) -> Shape:
    kind = random.choice(("one", "one", "two groups", "halves"))
    if kind == "two groups":
        return two_groups(random, brokers, late)
    if kind == "halves" and brokers >= 3:
        return two_halves(random, brokers, late, [service.name for service in SERVICES])
    return one_group(random, brokers, late)


def _calm(random: Random) -> Profile:
    brokers, late = random.choice(((2, 1), (2, 2), (3, 0), (3, 1), (4, 1)))
    return Profile(
        kind="calm",
        services=SERVICES,
        interval_s=random.choice((0.5, 1.0)),
        liveness=3,
        clients=random.randint(2, 4),
        workers=random.randint(4, 8),
        capacity_max=random.choice((1, 2, 4)),
        majordomo_clients=0,
        majordomo_workers=0,
        req_clients=0,
        req_workers=0,
        nuisances=0,
        twins=0,
        brokers=brokers,
        task_gap_s=0.1,
        fault_gap_s=0.8,
        timeout_max_s=30.0,
        slow_s=0.3,
        network=NetworkProfile(spike_s=0.1, unheard_share=0.1),
        limits=Limits(),
        shape=_shape(random, brokers, late),
    )


def _shares(random: Random) -> Profile:
    brokers, late = random.choice(((1, 1), (2, 1), (3, 1), (1, 2), (2, 2)))
    profile = _calm(random)
    return msgspec.structs.replace(
        profile,
        kind="shares",
        workers=random.randint(8, 24),
        brokers=brokers,
        task_gap_s=0.3,
        fault_gap_s=2.0,
        shape=msgspec.structs.replace(one_group(random, brokers, late), join="open"),
    )


def _rough(random: Random) -> Profile:
    brokers, late = random.choice(((2, 0), (2, 1), (3, 0), (3, 0), (3, 1), (4, 0), (4, 1), (5, 0)))
    is_tight = random.random() < 0.2
    return Profile(
        kind="rough",
        services=SERVICES,
        interval_s=random.choice((0.3, 0.5, 1.0)),
        liveness=random.choice((2, 3)),
        clients=random.randint(2, 4),
        workers=random.randint(3, 7),
        capacity_max=random.choice((1, 2, 2, 5)),
        majordomo_clients=random.choice((0, 0, 1)),
        majordomo_workers=random.choice((0, 0, 1)),
        req_clients=random.choice((0, 0, 1)),
        req_workers=random.choice((0, 0, 1)),
        nuisances=random.choice((0, 0, 1)),
        twins=random.choice((0, 0, 0, 1)),
        brokers=brokers,
        task_gap_s=random.choice((0.05, 0.1, 0.2)),
        fault_gap_s=random.choice((0.1, 0.2, 0.4)),
        timeout_max_s=random.choice((4.0, 8.0)),
        slow_s=1.5,
        network=NetworkProfile(
            latency_s=random.choice((0.0005, 0.002, 0.02)),
            jitter_s=random.choice((0.0, 0.005, 0.05)),
            spike_s=random.choice((0.1, 0.5)),
            spike_share=random.choice((0.0, 0.01)),
            pipe_messages=random.choice((5, 50, 1000)),
            reports_share=random.choice((0.0, 0.8, 1.0)),
            unheard_share=random.choice((0.1, 0.5, 1.0)),
        ),
        limits=Limits(
            queued_per_service=10, accepted=30, accepted_per_client=12, outcomes=60, sessions=30, joined_bytes=40
        )
        if is_tight
        else Limits(),
        shape=_shape(random, brokers, late),
        is_managed=random.random() < 0.5,
    )
