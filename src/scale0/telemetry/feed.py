"""The broker's end of the pipe: rows leave for the recorder, and the broker never waits.

A write takes what the pipe has room for; the rest waits in a buffer with a limit. What does not fit is dropped whole.
Nothing has to be said of it, for its rows have numbers, and the recorder sees which are missing; but names that came
with it are told with the next rows, and so is the clock if it was set.

The recorder is a process of its own, and when it dies another one is started, after a pause that grows. What was sent
last is kept here for a while and told to the new one again, from the names on: so that nothing is lost that was still
in the pipe. The recorder leaves out what it finds in the dead one's log.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from scale0.events import Records
from scale0.telemetry import frames, lock
from scale0.telemetry.frames import Goodbye, Hello, Kind, Order

PIPE_BYTES: Final = 1024 * 1024
BUFFER_BYTES_MAX: Final = 16 * 1024 * 1024  # rows that wait for the pipe; beyond it they are dropped
KEPT_BYTES: Final = 3 * 1024 * 1024  # of rows that were sent: what the pipe and a dying recorder may hold, and more
BLOCK_BYTES: Final = 16 * 1024  # smaller chunks that were sent are kept joined, for one costs more than its rows
PAUSE_S: Final = 0.5  # before a recorder that died is started again; it doubles
PAUSE_S_MAX: Final = 30.0
PROVEN_S: Final = 60.0  # one that lived so long is started again at once
LOCK_LOOK_S: Final = 0.1  # between two looks whether a former recorder is done
LOCK_S: Final = 30.0  # how long that may take before it is said
FAREWELL_S: Final = 2.0  # how long the last rows may take to leave when the broker ends
SAY_S: Final = 60.0  # that rows are dropped is said so often
LINES_BYTES_MAX: Final = 64 * 1024  # of what a recorder says in one look


class Chunk(msgspec.Struct, gc=False):
    """Frames that go together, and what a reader knows after them that it did not know before."""

    data: bytes | bytearray
    names: list[tuple[int, str]]
    anchor_us: int
    is_fresh: bool = False  # numbers that were told before are void in it
    is_forgetting: bool = False  # all numbers are void after it


class Feed:
    """Brings one broker's rows to its recorder. `say` is for what an operator must know."""

    def __init__(
        self,
        order: Order,
        hello: Hello,
        say: Callable[[str], None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order, self._hello, self._say, self._now = order, hello, say, now
        self._recorder: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._head = memoryview(b"")  # what must leave first: the beginning of a pipe, or the rest of a chunk
        self._waiting: deque[Chunk] = deque()
        self._kept: deque[Chunk] = deque()
        self._waiting_bytes = self._kept_bytes = 0
        self._names: dict[int, str] = {}  # as they were before the first chunk that is kept
        self._anchor_us = hello.anchor_us  # in the last chunk that was put
        self._owed_names: list[tuple[int, str]] = []  # of dropped rows; the core limits them
        self._owes_forgetting = self._owes_clock = False
        self._pause_s = 0.0
        self._started_at_s = self._start_at_s = self._asked_at_s = now()
        self._say_dropping_at_s = -math.inf
        self._is_closed = False
        self.dropped_bytes = 0
        self.pump()

    @property
    def pid(self) -> int:
        """The recorder's process; 0 while there is none."""
        return self._recorder.pid if self._recorder is not None else 0

    def put(self, records: Records) -> None:
        """Send these rows, or keep them until they can be sent, or drop them. It never waits.

        It does not look after the recorder either: `pump` does, and must be called now and then.
        """
        before_us = self._anchor_us
        self._anchor_us += sum(note.value or 0 for note in records.notes if note.kind == "anchor")
        chunk = self._chunk(records, before_us)
        if self._waiting_bytes + len(chunk.data) > BUFFER_BYTES_MAX:
            self.pump()
        if self._waiting_bytes + len(chunk.data) > BUFFER_BYTES_MAX:
            self._drop(records, chunk)
            return
        self._owed_names, self._owes_forgetting, self._owes_clock = [], False, False
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk.data)
        if self._recorder is not None:
            self._write()

    def pump(self) -> None:
        """Send what the pipe has room for, and look after the recorder."""
        self._look_at_recorder()
        if self._recorder is not None:
            self._listen()
            self._write()

    def close(self, last_seq: int, at_s: float) -> None:
        """The broker ends, and says so. The last rows have a moment to leave; the recorder ends by itself."""
        farewell = frames.frame(Kind.GOODBYE, Goodbye(last_seq, at_s))
        self._waiting.append(Chunk(farewell, [], self._anchor_us))
        self._waiting_bytes += len(farewell)
        end_s = self._now() + FAREWELL_S
        self._start_at_s = min(self._start_at_s, self._now())  # there is no time for a pause any more
        self.pump()
        while (self._head or self._waiting) and (left_s := end_s - self._now()) > 0:
            select.select([], [self._pipe] if self._pipe >= 0 else [], [], min(left_s, LOCK_LOOK_S))
            self.pump()
        self.abandon()

    def abandon(self) -> None:
        """Close the pipe without a word, as the broker's death would."""
        self._is_closed = True
        self._close_pipe()
        if self._recorder is not None and self._recorder.stdout is not None:
            self._listen()
            self._recorder.stdout.close()
            # It lives on while it seals; a process that goes on without a broker must not leave it as a zombie.
            threading.Thread(target=self._recorder.wait, name="recorder-ends", daemon=True).start()
            self._recorder = None

    # --- what waits ---------------------------------------------------------------------------------------------------

    def _chunk(self, records: Records, before_us: int) -> Chunk:
        """The rows, behind what is owed of those that were dropped."""
        ahead = b""
        if self._owes_clock:
            ahead += frames.frame(Kind.HELLO, self._hello_now(before_us))
        if self._owes_forgetting:
            ahead += frames.frame(Kind.FORGET)
        if self._owed_names:
            ahead += frames.frame(Kind.NAMES, self._owed_names)
        names = [*self._owed_names, *records.names] if self._owed_names else records.names
        data = ahead + frames.encode(records) if ahead else frames.encode(records)
        return Chunk(data, names, self._anchor_us, self._owes_forgetting, records.is_forgetting)

    def _drop(self, records: Records, chunk: Chunk) -> None:
        self.dropped_bytes += len(chunk.data)
        self._owed_names = [] if records.is_forgetting else chunk.names
        self._owes_forgetting |= records.is_forgetting
        self._owes_clock |= any(note.kind == "anchor" for note in records.notes)
        if self._now() >= self._say_dropping_at_s:
            self._say_dropping_at_s = self._now() + SAY_S
            self._say("rows are dropped, for the recorder does not take them as fast as they come; they are counted")

    def _keep(self, chunk: Chunk) -> None:
        """It was sent: remember it for a recorder that dies, and of older ones only what they told."""
        last = self._kept[-1] if self._kept else None
        if last is None or len(last.data) >= BLOCK_BYTES or last.is_forgetting or chunk.is_fresh:
            data = chunk.data if len(chunk.data) >= BLOCK_BYTES else bytearray(chunk.data)
            block = Chunk(data, list(chunk.names), chunk.anchor_us, chunk.is_fresh, chunk.is_forgetting)
            self._kept.append(block)
        else:
            last.data += chunk.data  # a bytearray of our own, for it is shorter than a block
            last.names += chunk.names
            last.anchor_us, last.is_forgetting = chunk.anchor_us, chunk.is_forgetting
        self._kept_bytes += len(chunk.data)
        while self._kept_bytes - len(self._kept[0].data) >= KEPT_BYTES:
            old = self._kept.popleft()
            self._kept_bytes -= len(old.data)
            if old.is_fresh:
                self._names.clear()
            self._names.update(old.names)
            if old.is_forgetting:
                self._names.clear()
            self._hello = self._hello_now(old.anchor_us)

    def _hello_now(self, anchor_us: int) -> Hello:
        return msgspec.structs.replace(self._hello, anchor_us=anchor_us)

    # --- the pipe -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        try:
            while self._head or self._waiting:
                if not self._head:
                    chunk = self._waiting.popleft()
                    self._waiting_bytes -= len(chunk.data)
                    self._keep(chunk)
                    self._head = memoryview(chunk.data)
                self._head = self._head[os.write(self._pipe, self._head) :]
        except BlockingIOError:
            pass
        except OSError:
            self._lost()

    def _listen(self) -> None:
        """What the recorder has to say goes to the broker's log."""
        assert self._recorder is not None, "there is one"
        assert self._recorder.stdout is not None, "it was started so"
        with contextlib.suppress(BlockingIOError):
            for line in os.read(self._recorder.stdout.fileno(), LINES_BYTES_MAX).decode(errors="replace").splitlines():
                self._say(line)

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    # --- the recorder -------------------------------------------------------------------------------------------------

    def _look_at_recorder(self) -> None:
        if self._recorder is not None and self._recorder.poll() is not None:
            self._lost()
        if self._recorder is None and not self._is_closed and self._now() >= self._start_at_s:
            try:
                self._start()
            except OSError as error:
                self._pause(f"no recorder can be started: {error}")

    def _pause(self, why: str) -> None:
        """Say what happened, and let a growing time pass before the next start."""
        now = self._now()
        is_proven = now - self._started_at_s >= PROVEN_S
        self._pause_s = PAUSE_S if is_proven else min(max(self._pause_s * 2, PAUSE_S), PAUSE_S_MAX)
        self._start_at_s = self._asked_at_s = now + self._pause_s
        self._say(f"{why}; another one is started in {self._pause_s:g} s")

    def _lost(self) -> None:
        """It died, or closed the pipe. Its last words may say why."""
        assert self._recorder is not None, "there was one"
        code = self._recorder.poll()
        if code is None:
            self._recorder.kill()
            self._recorder.wait()
        self._listen()
        self._pause(f"the recorder ended (exit code {code})")
        self._close_pipe()
        if self._recorder.stdout is not None:
            self._recorder.stdout.close()
        self._recorder = None

    def _start(self) -> None:
        """A new process, and a new pipe, which begins with all that a reader must know."""
        held = lock.take(Path(self._order.directory))
        if held is None:
            self._wait_for_lock()
            return
        reading, self._pipe = os.pipe()
        try:
            os.set_blocking(self._pipe, False)
            with contextlib.suppress(OSError, AttributeError):  # it stays smaller where the system says so
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._recorder = subprocess.Popen(
                [sys.executable, "-m", "scale0.telemetry"],
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(held,),
            )
        except OSError:
            self._close_pipe()
            raise
        finally:
            os.close(reading)
            os.close(held)
        assert self._recorder.stdout is not None, "it was asked for"
        os.set_blocking(self._recorder.stdout.fileno(), False)
        self._tell_from_the_beginning()

    def _wait_for_lock(self) -> None:
        """A former recorder finishes; if it takes long it is another broker's, and somebody must be told."""
        self._start_at_s = self._now() + LOCK_LOOK_S
        if self._now() - self._asked_at_s >= LOCK_S:
            directory = self._order.directory
            self._asked_at_s = math.inf
            self._say(f"nothing is recorded, for another recorder works in {directory}: name one with --telemetry-dir")

    def _tell_from_the_beginning(self) -> None:
        self._started_at_s = self._now()
        beginning = frames.frame(Kind.ORDER, self._order) + frames.frame(Kind.HELLO, self._hello)
        if self._names:
            beginning += frames.frame(Kind.NAMES, list(self._names.items()))
        self._head = memoryview(beginning)
        self._waiting.extendleft(reversed(self._kept))
        self._waiting_bytes += self._kept_bytes
        self._kept.clear()
        self._kept_bytes = 0


def new_boot(wall_s: float) -> str:
    """A name for one run of a process: a UUID of version 7, so that names rise with time."""
    number = int(wall_s * 1000) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
