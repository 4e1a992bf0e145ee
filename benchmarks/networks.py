"""Networks of brokers for benchmarks: several `scale0 broker` processes on loopback that joined one another.

Brokers are asked and told by MANAGEMENTREQ, as an operator would, outside of the measured windows. They keep nothing on
disk, and they form one group.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import peers
from measure import wait_until
from peers import Running
from scale0.client.manager import manage
from scale0.core.groups import BALANCE_INTERVALS
from scale0.errors import Scale0Error
from scale0.testing import managed_by

_OPERATOR: Final = "bench"
_PASSWORD: Final = "only on loopback"
_JOINING_INTERVAL_S: Final = 0.3
_LOOK_S: Final = 0.05
_ANY_PORT: Final = "tcp://127.0.0.1:0"


class Network:
    """Brokers of one group, called b1, b2 and so on; b1 came first and sequences changes of the config."""

    def __init__(self, stack: contextlib.ExitStack, directory: Path, keys: dict[str, Any]) -> None:
        self.brokers: list[Running] = []
        self.keys = keys  # of its document
        self._stack = stack
        self._directory = directory

    @property
    def endpoints(self) -> list[str]:
        return [broker.frontend for broker in self.brokers]

    @property
    def pids(self) -> dict[str, int]:
        return {f"b{number}": broker.child.pid for number, broker in enumerate(self.brokers, 1)}

    def add(self) -> None:
        """Start one more broker, which joins by the first. It listens when this returns; it may still be joining."""
        self.brokers.append(self._start(len(self.brokers) + 1, seeds=self.endpoints[:1]))

    def restart(self, number: int) -> None:
        """Start a broker again that was killed, at its old address; it joins by any of the others."""
        seeds = [endpoint for other, endpoint in enumerate(self.endpoints, 1) if other != number]
        self.brokers[number - 1] = self._start(number, seeds=seeds[:1], bind=self.endpoints[number - 1])

    def _start(self, number: int, *, seeds: list[str], bind: str = _ANY_PORT) -> Running:
        management = managed_by(self._directory, {_OPERATOR: _PASSWORD})
        scale0 = peers.Scale0(**self.keys, management=management)
        arguments = ["--identity", f"b{number}", "--no-state", *(word for seed in seeds for word in ("--join", seed))]
        return self._stack.enter_context(scale0.started(self._directory, bind=bind, arguments=arguments))

    def await_complete(self) -> None:
        """Until all are active, linked with one another, and have one config."""
        wait_until(self._is_complete, f"{len(self.brokers)} brokers to find one another", look_s=_LOOK_S)

    def apply(self, keys: dict[str, Any]) -> None:
        """Change the document. The last broker is told, so that the change takes the longest way: by the sequencer."""
        self.keys = {**self.keys, **keys}
        self._manage(self.endpoints[-1], "config_apply", document=json.dumps(self.keys))

    def pair(self) -> None:
        """Make b2 the fallback broker of b1, and wait until it follows."""
        entries = [{"identity": f"b{at}", "endpoints": [endpoint]} for at, endpoint in enumerate(self.endpoints, 1)]
        document = {**self.keys, "brokers": [{**entries[0], "fallback_broker": "b2"}, *entries[1:]]}
        self._manage(self.endpoints[-1], "config_apply", document=json.dumps(document))
        self.await_followed(1)

    def await_followed(self, number: int) -> None:
        """Until this broker serves, and its partner holds a copy of its state."""
        wait_until(lambda: self.is_followed(number), f"b{number} to be followed", look_s=_LOOK_S)

    def is_followed(self, number: int) -> bool:
        row = next((row for row in self._look(self.endpoints[number - 1]) if row["is_self"]), {})
        return bool(row.get("state") == "active" and row.get("fallback") == "in sync")

    def rows(self, endpoint: str) -> dict[str, dict[str, Any]]:
        """The network as one of its brokers sees it."""
        return {row["identity"]: row for row in self._manage(endpoint, "list", what="network")["rows"]}

    def workers(self) -> list[int]:
        """How many workers each broker says that it has."""
        return [self.rows(endpoint)[f"b{number}"]["workers"] for number, endpoint in enumerate(self.endpoints, 1)]

    def _is_complete(self) -> bool:
        seen = [row for endpoint in self.endpoints for row in self._look(endpoint)]
        is_linked = all(row["state"] == "active" and row["link"] in ("self", "up") for row in seen)
        is_known = len(seen) == len(self.brokers) ** 2
        return is_linked and is_known and len({row["config_version"] for row in seen}) == 1

    def _look(self, endpoint: str) -> list[dict[str, Any]]:
        """As `rows`; nothing while the broker does not answer."""
        with contextlib.suppress(Scale0Error):
            return list(self.rows(endpoint).values())
        return []

    def _manage(self, endpoint: str, command: str, **arguments: Any) -> Any:
        return manage(endpoint, command, arguments, auth_id=_OPERATOR, auth_password=_PASSWORD, timeout_s=10)


@contextlib.contextmanager
def started(count: int, directory: Path, **keys: Any) -> Iterator[Network]:
    """A network of `count` brokers that know one another; `keys` are those of its document."""
    with contextlib.ExitStack() as stack:
        network = Network(stack, directory, {"network": "bench", **keys})
        for _ in range(count):
            network.add()
        network.await_complete()
        yield network


@contextlib.contextmanager
def settled(count: int, directory: Path, interval_s: float) -> Iterator[Network]:
    """The same, when nobody looks at shares any more, so that all workers stay where they are put.

    Shares are looked at for some intervals after a join. So brokers join with a short one, and `interval_s` is applied
    when that is over.
    """
    with started(count, directory, default_heartbeat_interval=_JOINING_INTERVAL_S) as network:
        over_s = time.monotonic() + BALANCE_INTERVALS * _JOINING_INTERVAL_S
        wait_until(lambda: time.monotonic() > over_s, "the shares to be settled")
        network.apply({"default_heartbeat_interval": interval_s})
        network.await_complete()
        yield network
