"""Recovery: logs that a recorder left behind are sealed by the next one.

Whatever ended it, the whole chunks of its log are there. They are sealed as they would have been, without the rows that
were sealed before. A run of another process is over by now, and gets its last row; the run that goes on gets none.

While a log cannot be sealed because there is no room, nothing can be recorded, and rows wait in the broker. While that
of the run that goes on cannot be sealed for any reason, nothing may be: what is in it would be told again, or as lost.
Any other log that cannot be sealed waits for the next start.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from scale0.telemetry import frames, log
from scale0.telemetry.frames import Goodbye, Kind
from scale0.telemetry.recorder import PIECE_BYTES
from scale0.telemetry.segments import Sealing
from scale0.telemetry.shipping import Say
from scale0.telemetry.spool import Spool
from scale0.telemetry.unpack import Unpacker

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})  # it passes, and concerns every file


def recover(directory: Path, spool: Spool, boot: str, rates: Mapping[str, int], say: Say) -> int:
    """Seal all logs in `directory`. Returns the last row of the run `boot` that is known, 0 if none is.

    Raises `OSError` if there is no room, or what is there of that run cannot be sealed.
    """
    last_seq = spool.last_seq(boot)
    for run, found in groupby(log.logs(directory), key=lambda one: one[0]):
        paths = [path for _, _, path in found]
        try:
            unpacker = _seal(paths, spool, run, rates, is_over=run != boot)
        except OSError as error:
            if run == boot or error.errno in NO_ROOM:
                raise
            say(f"the log of a former run waits for the next start: {error}")
            continue
        if unpacker is not None and run == boot:
            last_seq = max(last_seq, unpacker.seq)
        for path in paths:
            log.delete(path)
    return last_seq


def _seal(paths: list[Path], spool: Spool, boot: str, rates: Mapping[str, int], *, is_over: bool) -> Unpacker | None:
    """All logs of one run into one segment; what the reader knew at the end, or None if there was nothing whole."""
    unpacker: Unpacker | None = None
    sealing: Sealing | None = None
    for piece in _pieces(paths):
        if unpacker is None or sealing is None:
            kind, payload = next(frames.split(piece[0]))
            if kind is not Kind.HELLO:
                return None
            hello = frames.read_hello(payload)
            hello = msgspec.structs.replace(hello, seq=max(hello.seq, spool.last_seq(boot)))
            unpacker, sealing = Unpacker(hello, rates), Sealing(hello.broker, boot, "recorder")
        _add(unpacker, sealing, piece)
    if unpacker is None or sealing is None:
        return None
    if is_over and not unpacker.is_over:
        goodbye = frames.frame(Kind.GOODBYE, Goodbye(unpacker.seq, unpacker.at_s, clean=False))
        log.append_to(paths[-1], goodbye)  # a recovery that is interrupted finds the same end again
        _add(unpacker, sealing, [goodbye])
    if sealing.rows:
        spool.add(*sealing.finish())
    return unpacker


def _add(unpacker: Unpacker, sealing: Sealing, piece: list[bytes]) -> None:
    table = unpacker.table(piece)
    if table is not None:
        sealing.add(table)


def _pieces(paths: list[Path]) -> Iterator[list[bytes]]:
    """The chunks of the logs, a few megabytes at a time."""
    piece: list[bytes] = []
    size = 0
    for path in paths:
        for chunk in log.read(path):
            piece.append(chunk)
            size += len(chunk)
            if size >= PIECE_BYTES:
                yield piece
                piece, size = [], 0
    if piece:
        yield piece
