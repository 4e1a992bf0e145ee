"""The brokers that are compared, each started as its own process on loopback, one class a broker.

A peer that is not installed is left out, and its row says how to install it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

import load
from load import Load
from measure import Page, wait_until_ready
from processes import Child, child, free_port, script, wait_for_port


class Running(msgspec.Struct):
    """A broker that listens."""

    child: Child
    frontend: str
    backend: str

    @property
    def port(self) -> int:
        return int(self.frontend.rpartition(":")[2])


class Peer:
    """What every broker under test can do."""

    name: ClassVar[str]
    install: ClassVar[str] = ""

    def is_installed(self) -> bool:
        return True

    def started(self, directory: Path) -> contextlib.AbstractContextManager[Running]:
        raise NotImplementedError

    def loaded(self, running: Running, work: Load, directory: Path) -> contextlib.AbstractContextManager[Page]:
        raise NotImplementedError


class Scale0(Peer):
    """Scale0's broker, as its command starts it."""

    name = "scale0"

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    @contextlib.contextmanager
    def started(
        self, directory: Path, *, bind: str = "tcp://127.0.0.1:0", arguments: Sequence[str] = ()
    ) -> Iterator[Running]:
        config = directory / f"broker-{time.monotonic_ns()}.json"
        config.write_text(json.dumps(self.settings))
        command = [sys.executable, "-m", "scale0", "broker", "--bind", bind, "--config", str(config), *arguments]
        with child("scale0", command, directory, limit_s=0.3) as process:  # it would wait for what is in flight
            endpoint = process.wait_for_line(" ready on ").split(" ready on ")[1].split()[0].rstrip(",")
            yield Running(process, endpoint, endpoint)

    @contextlib.contextmanager
    def loaded(self, running: Running, work: Load, directory: Path) -> Iterator[Page]:
        with load.running(work, running.frontend, running.backend, directory, is_native=True) as generator:
            yield generator.page


class ZmqProxy(Peer):
    """The limit: frames passed on without looking at them."""

    name = "zmq.proxy"

    @contextlib.contextmanager
    def started(self, directory: Path) -> Iterator[Running]:
        with script("proxy", [], directory) as process:
            _, frontend, backend = process.wait_for_line("ready").split()
            yield Running(process, frontend, backend)

    @contextlib.contextmanager
    def loaded(self, running: Running, work: Load, directory: Path) -> Iterator[Page]:
        with load.running(work, running.frontend, running.backend, directory, is_native=False) as generator:
            yield generator.page


class Bare(Peer):
    """What Python itself costs: the frames and the loop of Scale0 without its rules."""

    name = "bare Python loop"

    @contextlib.contextmanager
    def started(self, directory: Path) -> Iterator[Running]:
        with script("bare", [], directory) as process:
            _, frontend, backend = process.wait_for_line("ready").split()
            yield Running(process, frontend, backend)

    @contextlib.contextmanager
    def loaded(self, running: Running, work: Load, directory: Path) -> Iterator[Page]:
        with load.running(work, running.frontend, running.backend, directory, is_native=True) as generator:
            yield generator.page


class Nats(Peer):
    """Debian's nats-server, core NATS: no queue, no deadline, no slots."""

    name = "NATS"
    install = "apt-get install nats-server"

    def is_installed(self) -> bool:
        return shutil.which("nats-server") is not None

    def has_client(self) -> bool:
        return self.is_installed() and importlib.util.find_spec("nats") is not None

    @contextlib.contextmanager
    def started(self, directory: Path) -> Iterator[Running]:
        port = free_port()
        command = [shutil.which("nats-server") or "nats-server", "-a", "127.0.0.1", "-p", str(port)]
        with child("nats", command, directory) as process:
            wait_for_port(port, process)
            endpoint = f"nats://127.0.0.1:{port}"
            yield Running(process, endpoint, endpoint)

    @contextlib.contextmanager
    def loaded(self, running: Running, work: Load, directory: Path) -> Iterator[Page]:
        arguments = [running.port, work.workers, work.in_flight, work.body_bytes]
        with _scripted("load_nats", arguments, work, directory) as page:
            yield page


class Gearmand(Peer):
    """Debian's gearmand, jobs kept in memory."""

    name = "gearmand"
    install = "apt-get install gearman-job-server"

    def is_installed(self) -> bool:
        return shutil.which("gearmand") is not None

    @contextlib.contextmanager
    def started(self, directory: Path) -> Iterator[Running]:
        port = free_port()
        command = [shutil.which("gearmand") or "gearmand", "--listen=127.0.0.1", f"--port={port}", "--log-file=stderr"]
        with child("gearmand", command, directory) as process:
            wait_for_port(port, process)
            endpoint = f"tcp://127.0.0.1:{port}"
            yield Running(process, endpoint, endpoint)

    @contextlib.contextmanager
    def loaded(self, running: Running, work: Load, directory: Path) -> Iterator[Page]:
        arguments = [running.port, work.workers, work.in_flight, work.body_bytes, work.capacity]
        with _scripted("load_gearman", arguments, work, directory) as page:
            yield page


@contextlib.contextmanager
def _scripted(name: str, arguments: list[int], work: Load, directory: Path) -> Iterator[Page]:
    """A generator of this folder, once it has its connections."""
    page = Page(directory / f"{name}-{time.monotonic_ns()}.page", create=True)
    with script(name, [page.path, *arguments], directory) as process:
        wait_until_ready(page, work.workers, 30, [process])
        yield page
    page.close()
    page.path.unlink()
