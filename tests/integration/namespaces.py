"""Hosts in network namespaces, joined by a bridge: each can be parted from the others, and nobody is told.

The namespaces have no way out to any other network. Tests reach the brokers through sockets in the file system, which
all namespaces share; what goes from broker to broker goes over the bridge. An unplugged host's packets are lost without
a word, as when a cable is cut: only silence tells. It takes the rights of an administrator; without them the tests are
skipped, and `proxies.py` shows the same from user space.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.networks import BrokerNetwork, document

PORT = 5555
SUBNET = "198.18.0"  # reserved for tests of networks (RFC 2544)


class Hosts:
    """One namespace a host, and one for the bridge between them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        mark = f"scale0-{secrets.token_hex(3)}"
        self._bridge = f"{mark}-bridge"
        self._spaces = {name: f"{mark}-{name}" for name in names}
        self._ports = {name: f"port{number}" for number, name in enumerate(names, 1)}
        self.addresses = {name: f"{SUBNET}.{number}" for number, name in enumerate(names, 1)}

    def build(self) -> None:
        _ip("netns", "add", self._bridge)
        _ip("-n", self._bridge, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._bridge, "link", "set", "bridge", "up")
        for name, space in self._spaces.items():
            _ip("netns", "add", space)
            ends = [self._ports[name], "type", "veth", "peer", "name", "eth0", "netns", space]
            _ip("-n", self._bridge, "link", "add", *ends)
            _ip("-n", self._bridge, "link", "set", self._ports[name], "up")
            _ip("-n", space, "address", "add", f"{self.addresses[name]}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
            self.plug_in(name)

    def unplug(self, name: str) -> None:
        _ip("-n", self._bridge, "link", "set", self._ports[name], "nomaster")

    def plug_in(self, name: str) -> None:
        _ip("-n", self._bridge, "link", "set", self._ports[name], "master", "bridge")

    def command(self, name: str) -> list[str]:
        """What runs a command on that host."""
        return ["ip", "netns", "exec", self._spaces[name]]

    def remove(self) -> None:
        for space in (*self._spaces.values(), self._bridge):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", space)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@contextlib.contextmanager
def network_of_hosts(directory: Path, *names: str, **keys: Any) -> Iterator[tuple[BrokerNetwork, Hosts]]:
    """A broker on each host, linked over the bridge."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the command ip: apt install iproute2")
    hosts = Hosts(names)
    made = BrokerNetwork(directory, document(**keys))
    try:
        try:
            hosts.build()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
        for name in names:
            door = f"ipc://{directory / name}.sock"
            made.add(
                name,
                bind=f"tcp://{hosts.addresses[name]}:{PORT}",
                door=door,
                options=["--backend", door, "--insecure-bind"],
                command=hosts.command(name),
            )
        made.await_complete()
        yield made, hosts
    finally:
        made.end()
        hosts.remove()
