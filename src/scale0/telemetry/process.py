"""A recorder as a process of its own: it reads frames from stdin, and outlives the broker that it belongs to.

It has a session of its own, so neither a key pressed in the broker's terminal nor the broker's death reaches it. The
pipe's end is the broker's end: what is there is sealed and shipped, and the process ends. What an operator must know it
says in lines on stdout, which the broker puts into its log. SIGTERM makes it seal and leave; a broker that still lives
starts another one. It holds the directory's lock, which it has inherited, until it ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from scale0.telemetry import frames
from scale0.telemetry.frames import Hello, Kind, Malformed, Order
from scale0.telemetry.recorder import Recorder
from scale0.telemetry.recovery import recover
from scale0.telemetry.shipping import Shipper

READ_BYTES: Final = 1024 * 1024
SHIP_AT_END_S: Final = 5.0  # how long the last segments may take; what stays waits for the next recorder
NICENESS: Final = 5  # serving goes before recording


def run(pipe: int = 0) -> int:
    """Record what comes through `pipe` until it ends. Returns the exit code."""
    woken, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # it only wakes: the loop looks at `woken`
    os.set_blocking(1, False)  # who listens there may be busy, or gone
    os.nice(NICENESS)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    begun = _read_beginning(pipe)
    if begun is None:
        return 0  # the broker ended before it said anything
    order, hello, rest = begun
    directory = Path(order.directory)
    shipper = Shipper(order, hello.broker, say)
    try:
        hello = msgspec.structs.replace(hello, seq=recover(directory, shipper.spool, hello.boot, order.rates, say))
    except OSError as error:
        say(f"rows wait in the broker, for the log in {directory} cannot be sealed: {error}; make room or give rights")
        return 1
    shipper.start()
    recorder = Recorder(order, hello, say, on_sealed=shipper.wake, is_followed=lambda: shipper.is_followed)
    _record(recorder, pipe, woken, rest)
    shipper.end(SHIP_AT_END_S)
    return 0


def say(text: str) -> None:
    """To the broker's log; if there is no broker any more, to nobody."""
    with contextlib.suppress(OSError):
        os.write(1, text.replace("\n", "; ").encode() + b"\n")


def _read_beginning(pipe: int) -> tuple[Order, Hello, bytes] | None:
    """The first two frames of a pipe, and what came after them."""
    buffer = b""
    while True:
        data = os.read(pipe, READ_BYTES)
        if not data:
            return None
        buffer += data
        found = list(frames.split(buffer[: frames.whole(buffer)]))
        if len(found) >= 2:
            (first, order), (second, hello) = found[:2]
            if (first, second) != (Kind.ORDER, Kind.HELLO):
                raise Malformed(f"a pipe begins with ORDER and HELLO, not with {first.name} and {second.name}")
            size = sum(len(payload) + frames.HEAD_BYTES for payload in (order, hello))
            return frames.read_order(order), frames.read_hello(hello), buffer[size:]


def _record(recorder: Recorder, pipe: int, woken: int, rest: bytes) -> None:
    """Until the pipe ends, or a signal says to leave. Leaving, only what is in the log is sealed: the run goes on."""
    recorder.receive(rest)
    while True:
        ready, _, _ = select.select([pipe, woken], [], [], recorder.step())
        if woken in ready:
            recorder.seal()
            return
        if pipe in ready:
            data = os.read(pipe, READ_BYTES)
            if not data:
                recorder.end()
                return
            recorder.receive(data)


def main() -> None:
    try:
        sys.exit(run())
    except Exception as error:
        say(f"the recorder failed: {type(error).__name__}: {error}")
        raise
