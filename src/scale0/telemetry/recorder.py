"""The recorder: takes a broker's rows from the pipe into the log, and seals the log into segments.

What comes is written to the log at once and flushed five times a second. In pieces of a few megabytes it is turned into
columns and compressed while it waits for its segment to be full, or old enough, so that sealing holds up nothing. When
the disk has no room rows are let go: names and the clock are remembered, so that later rows can be read, and the hole
in the numbers tells how many there were.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scale0.telemetry import frames, log
from scale0.telemetry.catalogue import Entry
from scale0.telemetry.frames import Goodbye, Hello, Kind, Order
from scale0.telemetry.segments import Sealing
from scale0.telemetry.shipping import Say
from scale0.telemetry.spool import Spool
from scale0.telemetry.unpack import Unpacker

PIECE_BYTES: Final = 8 * 1024 * 1024  # of frames that are turned into columns together
LOG_BYTES_MAX: Final = 256 * 1024 * 1024  # of a log, and so of what a recovery has to read
SEGMENT_BYTES_MAX: Final = 64 * 1024 * 1024
SYNC_S: Final = 0.2
SEAL_S: Final = 30.0
SEAL_FOLLOWED_S: Final = 5.0  # while somebody reads segments as they come
MEND_S: Final = 5.0  # between two tries on a disk that has no room


class Recorder:
    """One run of a broker, from its frames to the spool. `say` is for what an operator must know."""

    def __init__(
        self,
        order: Order,
        hello: Hello,
        say: Say,
        *,
        on_sealed: Callable[[], None] = lambda: None,
        is_followed: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._spool = Path(order.directory), Spool(Path(order.directory), order.cap_bytes)
        self._say, self._on_sealed, self._is_followed, self._now = say, on_sealed, is_followed, now
        self._unpacker = Unpacker(hello, order.rates)
        self._log: log.Log | None = None
        self._log_number = 0
        self._rest = b""  # of a frame that is not whole yet; at most frames.FRAME_BYTES_MAX
        self._piece: list[bytes] = []  # chunks that are in the log and not in the segment yet
        self._piece_bytes = 0
        self._carried = b""  # what later rows need of those that were let go
        self._gone_seq = 0  # the last of these
        self._sealing = Sealing(hello.broker, hello.boot, "recorder")
        self._sealed: tuple[Entry, bytes] | None = None  # a segment for which there is no room yet
        self._sealed_at_s = self._synced_at_s = now()
        self._is_failing = False
        self._mend_at_s = 0.0  # a disk without room is not tried before

    @property
    def is_over(self) -> bool:
        """The run has had its last row."""
        return self._unpacker.is_over

    # --- what comes ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes from the pipe, cut anywhere. Raises `Malformed`."""
        data = self._rest + data if self._rest else data
        size = frames.whole(data)
        self._rest = data[size:]
        if size:
            self._keep(data if size == len(data) else data[:size])

    def step(self) -> float:
        """Do what is due, and say in how many seconds to come again."""
        now = self._now()
        if self._log is not None and now - self._synced_at_s >= SYNC_S:
            self._synced_at_s = now
            self._attempt(self._log.sync, is_proof=False)  # it may have had nothing to write
        seal_s = SEAL_FOLLOWED_S if self._is_followed() else SEAL_S
        if now - self._sealed_at_s >= seal_s:
            self.seal()
        due_s = self._sealed_at_s + seal_s
        if self._log is not None and not self._log.is_synced:
            due_s = min(due_s, self._synced_at_s + SYNC_S)
        return max(due_s - now, 0.0)

    def end(self) -> None:
        """The pipe has ended: seal all there is. If the broker did not say goodbye, it is said for it."""
        self._mend_at_s = 0.0  # this is the last chance, whatever the disk was like
        if self._carried:  # the broker's goodbye may be in it
            carried, self._carried = self._carried, b""
            self._keep(carried)
        self._take_in()
        if not self.is_over:
            last_seq = max(self._unpacker.seq, self._gone_seq)
            self._keep(frames.frame(Kind.GOODBYE, Goodbye(last_seq, self._unpacker.at_s, clean=False)))
        self.seal()

    def _keep(self, chunk: bytes) -> None:
        """Into the log; or, while there is no room, only what later rows need."""
        if self._sealed is not None and self._now() >= self._mend_at_s:
            self.seal()
        if self._sealed is not None or self._now() < self._mend_at_s or not self._attempt(lambda: self._write(chunk)):
            self._carried = frames.without_rows(self._carried + chunk)
            self._gone_seq = max(self._gone_seq, frames.last_seq(chunk))
            self._unpacker.why_lost = "disk"
            return
        self._piece.append(chunk)
        self._piece_bytes += len(chunk)
        if self._piece_bytes >= PIECE_BYTES:
            self._take_in()
        is_long = self._log is not None and self._log.size >= LOG_BYTES_MAX
        if is_long or self._sealing.size >= SEGMENT_BYTES_MAX:
            self.seal()

    def _write(self, chunk: bytes) -> None:
        if self._log is None:
            self._open_log()
        assert self._log is not None, "it is open"
        if self._carried:
            self._log.append(self._carried)
            self._piece.append(self._carried)
            self._carried = b""
        self._log.append(chunk)

    def _take_in(self) -> None:
        """Turn what waits into columns."""
        table = self._unpacker.table(self._piece)
        self._piece, self._piece_bytes = [], 0
        if table is not None:
            self._sealing.add(table)
            self._unpacker.why_lost = "dropped"

    # --- sealing ------------------------------------------------------------------------------------------------------

    def seal(self) -> None:
        """Close the segment, if it has rows, and begin a new log. While there is no room it is kept here."""
        self._take_in()
        self._sealed_at_s = self._now()
        if self._sealed is None and self._sealing.rows:
            self._sealed = self._sealing.finish()
            self._sealing = Sealing(self._unpacker.hello.broker, self._unpacker.hello.boot, "recorder")
        sealed = self._sealed
        if sealed is None or not self._attempt(lambda: self._spool.add(*sealed)):
            return
        self._sealed = None
        former, self._log = self._log, None
        if not self.is_over:  # the new log is there before the old one goes: one of them knows which rows are sealed
            self._attempt(self._open_log)
        if former is not None:
            former.delete()
        self._on_sealed()

    def _open_log(self) -> None:
        """A log that can be read by itself. It follows all that there are of its run."""
        boot = self._unpacker.hello.boot
        taken = [number for run, number, _ in log.logs(self._directory) if run == boot]
        self._log_number = max([self._log_number, *taken]) + 1
        opened = log.Log(log.log_path(self._directory, boot, self._log_number))
        try:
            opened.append(self._unpacker.preamble())
        except OSError:
            opened.delete()
            raise
        self._log = opened

    def _attempt(self, action: Callable[[], object], *, is_proof: bool = True) -> bool:
        """Do something with the disk. That it fails is said once, and that it works again if this is proof of it."""
        try:
            action()
        except OSError as error:
            if not self._is_failing:
                text = f"rows are lost, for they cannot be written to {self._directory}: {error}"
                self._say(f"{text}; the broker goes on serving, make room or give rights")
            self._is_failing = True
            self._mend_at_s = self._now() + MEND_S
            return False
        if self._is_failing and is_proof:
            self._is_failing = False
            self._mend_at_s = 0.0
            self._say(f"rows are written to {self._directory} again")
        return True
