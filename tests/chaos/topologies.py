"""The networks that faults are tried on.

`group`: three brokers that stand in for one another. The first is never killed, though anything else may happen to it,
so that its memory can be watched over the whole run; it takes its share of every task that crosses.

`pair`: a broker and its fallback broker. Either may be killed at any time; whoever is active then, the other one takes
over, and who comes back stands by.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import msgspec

from tests.chaos.services import BIG, SERVICES

INTERVAL_S = 0.2  # of heartbeats, if nothing else is said: short, so that silence is noticed soon
LIVENESS = 3
CONFIG_HISTORY = 10  # versions kept: a run makes hundreds, and memory is watched
UNDELIVERED_BYTES = 2 * 1024 * 1024  # for a client that does not read; less than a stalled one asks for


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Who is there. Workers are given by their homes, each with the numbers of the shares that its workers offer."""

    name: str
    brokers: tuple[str, ...]
    mortal: tuple[str, ...]  # those that may be killed
    fallbacks: dict[str, str] = {}  # broker → its fallback broker
    workers: dict[str, tuple[int, ...]]
    clients: dict[str, tuple[str, ...]]  # home → kinds
    weight: int = 1  # its part of the cycles

    @property
    def is_pair(self) -> bool:
        return bool(self.fallbacks)

    def document(self, endpoints: dict[str, str], interval_s: float) -> dict[str, Any]:
        """The keys of the network's document."""
        brokers = [
            {
                "identity": identity,
                "group": "eu",
                "endpoints": [endpoints[identity]],
                **({"fallback_broker": self.fallbacks[identity]} if identity in self.fallbacks else {}),
            }
            for identity in self.brokers
        ]
        return {
            "network": f"chaos-{self.name}",
            "default_heartbeat_interval": interval_s,
            "liveness": LIVENESS,
            "takeover_timeout": LIVENESS * interval_s,
            "failback": "automatic",
            "failback_after": 3 * interval_s,
            "brokers": brokers,
            "service": [{"name": name} for name in (*SERVICES, BIG)],  # known from the start: no 404 before a worker
            "limits": {"config_history": CONFIG_HISTORY, "undelivered_bytes_per_client": UNDELIVERED_BYTES},
        }


GROUP = Topology(
    name="group",
    brokers=("b1", "b2", "b3"),
    mortal=("b2", "b3"),
    workers={"b1": (0, 0), "b2": (1, 1), "b3": (0, 1)},
    clients={"b2": ("sync",), "b3": ("async",)},
    weight=3,
)

PAIR = Topology(
    name="pair",
    brokers=("b1", "b1b"),
    mortal=("b1", "b1b"),
    fallbacks={"b1": "b1b"},
    workers={"b1": (0, 1, 0, 1)},
    clients={"b1": ("sync", "async")},
    weight=2,
)


def available() -> dict[str, Topology]:
    """Those that this version of Scale0 can run."""
    has_fallbacks = find_spec("scale0.core.binary_star") is not None
    return {topology.name: topology for topology in (GROUP, PAIR) if has_fallbacks or not topology.is_pair}
