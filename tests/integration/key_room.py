"""Keys for tests: files of brokers, workers and clients in one directory, and the list that all its brokers share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scale0 import Client, Worker
from scale0.core.permissions import Permission
from scale0.testing import ANY_PORT, TestBroker
from scale0.transport import allowed_file, key_files
from scale0.transport.security import Security
from scale0.transport.settings_file import from_keywords

INTERVAL_S = 0.3
CLIENT, WORKER = "client", "worker"


class KeyRoom:
    """A client and a worker are allowed, whoever else the test says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.allowed = directory / "allowed.json"
        self.allow(CLIENT, kind="client")
        self.allow(WORKER, kind="worker")

    def path(self, name: str) -> Path:
        """The file of this key; it is made when it is first asked for."""
        path = self.directory / f"{name}.key"
        if not path.exists():
            key_files.save(path, key_files.make(name, "peer" if name.startswith("broker") else "any"))
        return path

    def public(self, name: str) -> str:
        return key_files.load(self.path(name)).public

    def allow(self, name: str, **how: Any) -> None:
        """Allow this key, in place of what it was allowed before."""
        entry = Permission(key=self.public(name), name=name, **how)
        allowed_file.change(self.allowed, lambda all_: [*(e for e in all_ if e.key != entry.key), entry])

    def revoke(self, name: str) -> None:
        gone = self.public(name)
        allowed_file.change(self.allowed, lambda entries: [entry for entry in entries if entry.key != gone])

    def security(self, name: str, joins: str = "") -> Security:
        server_key = self.public(joins) if joins else ""
        return Security(str(self.path(name)), str(self.allowed), server_key)

    def broker(self, name: str, *, joins: TestBroker | None = None, **how: Any) -> TestBroker:
        """A broker with a key of its own, not yet started. It may join by one that runs."""
        settings = {"identity": name, "default_heartbeat_interval_s": INTERVAL_S, **how.pop("settings", {})}
        return TestBroker(
            from_keywords(settings),
            publish=ANY_PORT,
            seeds=[joins.endpoint] if joins is not None else [],
            security=self.security(name, joins.identity if joins is not None else ""),
            **how,
        )

    def client(self, *brokers: TestBroker, name: str = CLIENT, **how: Any) -> Client:
        return Client([broker.endpoint for broker in brokers], **self.keys(*brokers, name=name), **how)

    def worker(self, *brokers: TestBroker, name: str = WORKER, **how: Any) -> Worker:
        """A worker that offers `double`."""
        made = Worker([broker.endpoint for broker in brokers], **self.keys(*brokers, name=name), **how)
        made.add_service("double", double, idempotent=True)
        return made

    def keys(self, *brokers: TestBroker, name: str = CLIENT) -> dict[str, Any]:
        return {"key": self.path(name), "server_key": ",".join(self.public(broker.identity) for broker in brokers)}


def double(number: int) -> int:
    return 2 * number


@contextlib.contextmanager
def started(*brokers: TestBroker) -> Iterator[None]:
    """These run while the block does, and whatever else becomes of them, they end with it."""
    with contextlib.ExitStack() as ends:
        for broker in brokers:
            broker.start()
            ends.callback(broker.stop)
        yield
