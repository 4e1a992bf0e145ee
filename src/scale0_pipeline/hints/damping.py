"""When a worker is held to flap, and how much may be done about it.

Each session that a worker opens adds 1 to its penalty, and an hour halves it. From `ON` on it flaps, and it flaps until
the penalty is below `OFF`: the gap between the two keeps a worker from going in and out of it. At most `SHARE_MAX` of a
service's workers are damped, the worst ones first, and at least `SPARED` of them never are. One hour in ten, chosen by
a hash that nobody can steer, a worker's hint is held out: what happens then is what the others are compared with.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

HALF_LIFE_H: Final = 1.0
ON: Final = 5.0
OFF: Final = 2.0
SHARE_MAX: Final = 0.2
SPARED: Final = 2
HELD_OUT_OF: Final = 10  # one window in so many
EVIDENCE_H: Final = 24
LIFE_H: Final = 2  # so that the next hour's hints, which come a little late, find the last ones in force
COMPLETENESS_MIN: Final = 0.9  # evidence with more holes is none
KIND: Final = "damp"


def decayed(penalty: float, hours: float) -> float:
    """What is left of a penalty after so many hours without a new session."""
    return float(penalty * 0.5 ** (hours / HALF_LIFE_H))


def is_damped(was_damped: bool, penalty: float) -> bool:
    """Hysteresis: it takes more to get in than to stay in."""
    return penalty >= (OFF if was_damped else ON)


def allowance(workers: int) -> int:
    """How many of a service's workers may be damped at once."""
    return max(0, min(int(workers * SHARE_MAX), workers - SPARED))


def hint_id(worker: str, hour_us: int) -> str:
    """The name of the hint about a worker that an hour's evidence makes."""
    return hashlib.sha256(f"{KIND}|{worker}|{hour_us}".encode()).hexdigest()[:16]


def is_held_out(name: str) -> bool:
    """Whether the hint of this name is not applied, for comparison."""
    return zlib.crc32(f"held out|{name}".encode()) % HELD_OUT_OF == 0
