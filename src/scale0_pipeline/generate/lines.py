"""JSON lines as people bring them for `import`: events of another system, with the mistakes that such files have.

One line in ten is no event: it is cut off, is no object, lacks what every event has, or holds text where a number
belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from scale0_pipeline.generate.world import SERVICES
from scale0_pipeline.units import SECOND_US

BAD_EVERY: Final = 10
BAD: Final = (
    b'{"kind": "task", "ts_us": 17725',
    b'["task", 1772500000000000]',
    b'{"service": "score", "client": "client-01"}',
    b'{"kind": "task", "ts_us": "noon", "service": "score"}',
    b"not JSON at all",
)


def lines(count: int, seed: int, from_us: int) -> Iterator[bytes]:
    """So many lines, a second apart, without their line ends."""
    rng = np.random.default_rng([seed, 4])
    services = rng.integers(0, len(SERVICES), count).tolist()
    latencies = rng.integers(1_000, 50_000, count).tolist()
    for place in range(count):
        if place % BAD_EVERY == BAD_EVERY - 1:
            yield BAD[place // BAD_EVERY % len(BAD)]
            continue
        ts_us = from_us + place * SECOND_US
        event = {
            "kind": "task",
            "broker": "elsewhere",
            "ts_us": ts_us,
            "role": "origin",
            "service": SERVICES[services[place]].name,
            "client": "imported",
            "nonce": f"{seed:016x}",
            "sequence": place + 1,
            "outcome": "replied",
            "code": 200,
            "received_us": ts_us - latencies[place],
            "weight": 1,
        }
        yield msgspec.json.encode(event)
