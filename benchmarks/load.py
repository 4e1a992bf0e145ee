"""The load on ZeroMQ brokers: one client with many tasks in flight, and raw workers that echo, in one process.

It must not be the bottleneck, so it is a small C program, compiled when needed with the machine's compiler against the
libzmq that pyzmq brings; where there is no compiler, `load_python.py` does the same and the table says so. A benchmark
that asks how much a broker costs under a load that Python can make asks for that one. Both speak bundles to who takes
them, as our libraries do. Frames that need msgpack are made here, with the codec's own functions, and handed over in a
file.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import zmq

from measure import Page, wait_until_ready
from processes import HERE, Child, child
from scale0.protocol import codec, dialects, limits
from scale0.protocol.bundles import bundle
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Config, Connect, Message, Ping, Ready, ServiceOffer, Task, TaskId

SERVICE = "echo"
OTHER_SERVICE = "other"
is_compiler_used = True


class Load(msgspec.Struct, frozen=True):
    """What to press the broker with."""

    workers: int
    serving: int = -1  # so many of them offer the service that is asked for; -1: all
    capacity: int = 64
    in_flight: int = 500  # 0: no client at all
    body_bytes: int = 100
    ping_ms: int = 2_000
    rate: int = 0  # tasks a second, whose latencies are noted; 0: the next one as soon as one is answered
    is_even: bool = False  # heartbeats are spread over the interval; else each counts from when its worker was ready
    name: str = "bench"  # how the identities begin; loads on one network need different ones
    is_compiled: bool = True  # where there is a compiler; else it is written in Python


class Generator(msgspec.Struct):
    """A running load generator."""

    page: Page
    process: Child
    is_compiled: bool


@contextlib.contextmanager
def running(
    load: Load, frontend: str, backend: str, directory: Path, *, is_native: bool, limit_s: float = 60.0
) -> Iterator[Generator]:
    """The load, once all its workers have their sessions."""
    stamp = time.monotonic_ns()
    page = Page(directory / f"load-{stamp}.page", create=True)
    records = directory / f"load-{stamp}.records"
    program = compiled(directory) if load.is_compiled else None
    records.write_bytes(_records(load))
    command = [str(program)] if program else [sys.executable, str(HERE / "load_python.py")]
    serving = load.workers if load.serving < 0 else load.serving
    command += [str(page.path), str(records), frontend, backend, "native" if is_native else "plain"]
    numbers = (load.workers, serving, load.in_flight, load.body_bytes, load.ping_ms, load.rate, int(load.is_even))
    command += [str(number) for number in numbers]
    with child("load", command, directory, limit_s=0.5) as process:
        wait_until_ready(page, load.workers, limit_s, [process])
        yield Generator(page, process, program is not None)
    page.close()
    page.path.unlink()
    records.unlink()


@functools.cache
def compiled(directory: Path) -> Path | None:
    """The C generator, compiled; None where the machine cannot."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not is_compiler_used:
        return None
    program = directory / "load"
    bundled = sorted(Path(zmq.__file__).parent.parent.glob("pyzmq.libs/libzmq*.so*"))
    library = [str(bundled[0]), f"-Wl,-rpath,{bundled[0].parent}"] if bundled else ["-lzmq"]
    command = [compiler, "-O2", "-std=gnu11", str(HERE / "load.c"), "-o", str(program), *library]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return program if result.returncode == 0 else None


def _records(load: Load) -> bytes:
    """The frames that the generator copies and patches, each after its length; the order is that of `load.c`."""
    client_nonce = bytes(range(8))
    task_id = make_id(id_prefix(f"{load.name}-client", client_nonce), 0)
    offer, other = ServiceOffer(SERVICE), ServiceOffer(OTHER_SERVICE)
    messages: list[tuple[dialects.Dialect, Message]] = [
        (dialects.CLIENT, Task(task_id, SERVICE, (b"x" * load.body_bytes,), remaining_ms=60_000)),
        (dialects.CLIENT, Connect(identity=f"{load.name}-client", nonce=client_nonce, bundles=True)),
        (dialects.CLIENT, Ping(0)),
        (dialects.WORKER, _ready(offer, load)),
        (dialects.WORKER, _ready(other, load)),
        (dialects.WORKER, Ping(0, heartbeat_interval_ms=load.ping_ms)),
    ]
    for index in range(load.workers):
        service = SERVICE if load.serving < 0 or index < load.serving else OTHER_SERVICE
        nonce = index.to_bytes(8, "big")
        connect = Connect(identity=f"{load.name}-w{index}", nonce=nonce, services=[service], bundles=True)
        messages.append((dialects.WORKER, connect))
    _check_layout()
    frames = [codec.encode(dialect, message)[0] for dialect, message in messages]
    return b"".join(struct.pack("=I", len(frame)) + frame for frame in frames)


def _ready(offer: ServiceOffer, load: Load) -> Ready:
    now_us = time.time_ns() // 1000
    return Ready(services=[offer], capacity=load.capacity, heartbeat_interval_ms=load.ping_ms, time_us=now_us)


def _check_layout() -> None:
    """The offsets that `load.c` patches are those of the codec."""
    task_id = TaskId(b"n" * 8 + b"who" + b"s" * 8)
    frames = codec.encode(dialects.CLIENT, Task(task_id, "echo", (b"body",), 1, attempt=7, behind=0x01020304))
    task = frames[0]
    assert (task[7], task[10], task[18:22], task[54 : 54 + 19]) == (7, 19, b"\1\2\3\4", task_id)
    assert (len(frames), task[9], task[-4:]) == (1, 0x80, b"body"), "a small body stands in the header frame"
    ping = codec.encode(dialects.CLIENT, Ping(0x0102030405060708, oldest_unanswered=9))[0]
    assert (ping[7:15], ping[28:36]) == (bytes(range(1, 9)), (9).to_bytes(8, "big"))
    version = bytes(range(16))
    assert codec.encode(dialects.WORKER, Ping(0, config_version=version))[0][36:52] == version
    config = codec.encode(dialects.WORKER, Config(config_type="JSON", config_version=version, config=b"{}"))[0]
    assert b"config_version\xc4\x10" + version in config, "16 bytes follow the key"
    config = codec.encode(
        dialects.WORKER, Config(config_type="JSON", config_version=version, config=b"{}", bundles=True)
    )[0]
    assert b"\xa7bundles\xc3" in config, "the broker takes bundles"
    sizes = (limits.BUNDLE_MESSAGES_MAX, limits.BUNDLED_BYTES_MAX, limits.BUNDLE_BYTES_MAX)
    assert sizes == (64, 2048, 16384), "those of load.c"
    assert bundle([ping, task])[6:17] == b"\x1a\0\2" + struct.pack(">II", len(ping), len(task))
