"""Worlds with pairs: brokers that have a fallback broker (rule 31).

Of the networks four in ten have one or two pairs beside their other brokers. From `PAIRS` on every world has at least
one: alone, in half of them, for then nobody else can help; or within a group, or where groups fall back on one another.
"""

from __future__ import annotations

from random import Random

import msgspec

from scale0.simulator.profiles import PAIRS, Profile
from scale0.simulator.shapes import BrokerShape, Shape

PAIRED_SHARE = 0.4  # of the networks below `PAIRS`
ALONE_SHARE = 0.5  # of the worlds from there on
SECOND_SHARE = 0.3  # of those that have a pair and could have two
TAKEOVER_INTERVALS = (None, None, 1.5, 2.0, 5.0)


def with_pairs(seed: int, profile: Profile) -> Profile:
    """The same network, in which this seed gives some brokers a fallback, or none."""
    assert profile.shape is not None, "only a network has pairs"
    random = Random(f"{seed}/pairs")
    if seed < PAIRS and random.random() >= PAIRED_SHARE:
        return profile
    is_alone = seed >= PAIRS and random.random() < ALONE_SHARE
    shape = _alone(profile.shape) if is_alone else profile.shape
    return paired(random, msgspec.structs.replace(profile, shape=shape), 2 if random.random() < SECOND_SHARE else 1)


def paired(random: Random, profile: Profile, number: int = 1) -> Profile:
    """`number` of its listed brokers have a fallback, or as many as there are."""
    assert profile.shape is not None, "only a network has pairs"
    shape, brokers = profile.shape, list(profile.shape.brokers)
    candidates = shape.listed
    primaries = random.sample(candidates, min(number, len(candidates)))
    for primary in primaries:
        fallback = msgspec.structs.replace(primary, number=len(brokers))
        brokers[primary.number] = msgspec.structs.replace(primary, fallback_broker=fallback.name)
        brokers.append(fallback)
    intervals = random.choice(TAKEOVER_INTERVALS)
    takeover_s = None if intervals is None else intervals * profile.interval_s
    shape = msgspec.structs.replace(shape, brokers=tuple(brokers), takeover_timeout_s=takeover_s)
    return msgspec.structs.replace(profile, shape=shape, brokers=profile.brokers + len(primaries))


def _alone(shape: Shape) -> Shape:
    """One broker, which is yet to get its fallback."""
    return msgspec.structs.replace(shape, brokers=(BrokerShape(0, "eu"),), joins=False, fallback={}, config_brokers=())
