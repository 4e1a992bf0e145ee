"""Who did what, or was denied it: a file of JSON lines in which each line holds the hash of the one before.

    {"seq":2,"at":"…","user":"ann","role":"operate",…,"prev":"<hash of seq 1>","hash":"<of this line>"}

A line that was changed, taken out or moved breaks the chain, and `verify` says where. A record is on disk when `write`
returns: a command is not carried out before, and not answered before its end is written as well. What cannot be written
leaves the file as it was. A file that has grown large is set aside under a name with its first number, and the next one
goes on with the chain; so `verify` reads them all. Cutting off the end leaves a good chain: who wants to notice that
keeps a copy of the last hash elsewhere, or compares with the event log.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from scale0.errors import ProtocolError
from scale0.protocol.codes import Code

FILE_BYTES_MAX: Final = 16 * 1024 * 1024  # then the next file
FILES_MAX: Final = 64  # set aside; the oldest go
ROWS_MAX: Final = 1_000  # shown
LINE_BYTES_MAX: Final = 64 * 1024
TAIL_BYTES: Final = 1024 * 1024  # read at the start
NOTHING: Final = "0" * 64  # the hash before the first


class Record(msgspec.Struct, kw_only=True):
    """One line, but for its hash."""

    seq: int = 0
    at: str
    user: str
    role: str
    door: str
    source: str
    command: str
    target: str = ""
    outcome: str  # begun, done, failed, denied, mended
    code: int = 0
    text: str = ""
    command_id: str = ""
    arguments: str = ""
    count: int = 1  # how many the record stands for
    prev: str = NOTHING


class Problem(msgspec.Struct, frozen=True):
    file: str
    line: int
    text: str


class Verdict(msgspec.Struct):
    """What `verify` found. `last_hash` is worth a copy elsewhere."""

    files: list[str] = []
    records: int = 0
    first_seq: int = 0
    last_seq: int = 0
    last_hash: str = NOTHING
    problems: list[Problem] = []

    @property
    def is_good(self) -> bool:
        return not self.problems


class Audit:
    """The log of one broker. From any thread; `why` says why it cannot be written, if it cannot."""

    def __init__(self, path: Path, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        self.path = path
        self.why = ""
        self.rows: deque[dict[str, Any]] = deque(maxlen=ROWS_MAX)  # the newest first
        self._bytes_max = bytes_max
        self._descriptor = -1
        self._seq, self._prev = 0, NOTHING
        self._is_read = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Know what was written before, if something was. What cannot be read is told when something is written."""
        with self._lock, contextlib.suppress(OSError):
            if self.path.exists():
                self._open()

    def write(self, records: Sequence[Record]) -> None:
        """Add these, in order; they are on disk when this returns. `ProtocolError` 503 if they cannot be."""
        with self._lock:
            try:
                self._open()
                self._append(records)
            except BlockingIOError:
                self.why = f"{self.path}: another broker writes it; give each its own with management.audit"
                raise ProtocolError(Code.NOT_ACCEPTING, f"the audit log cannot be written: {self.why}") from None
            except OSError as error:
                self._close()
                self.why = f"{self.path}: {error.strerror or error}"
                raise ProtocolError(Code.NOT_ACCEPTING, f"the audit log cannot be written: {self.why}") from None
            self.why = ""

    def close(self) -> None:
        with self._lock:
            self._close()

    # --- the file ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Have the file open, and know where its chain stands. One that was moved away or deleted is made anew."""
        if self._descriptor >= 0 and not _is_at(self.path, self._descriptor):
            self._close()
        if self._descriptor >= 0:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_read:
                self._read_end(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self._is_read = descriptor, True

    def _read_end(self, descriptor: int) -> None:
        """Go on where the last process ended. What it was writing when it died was never answered, and is taken off."""
        size = os.fstat(descriptor).st_size
        start = max(0, size - TAIL_BYTES)
        tail = os.pread(descriptor, size - start, start)
        whole = tail.rfind(b"\n") + 1
        lines = tail[:whole].splitlines()[1 if start else 0 :]
        if not lines:
            older = set_aside(self.path)
            lines = older[-1].read_bytes()[-TAIL_BYTES:].splitlines()[-ROWS_MAX:] if older else []
        if whole < len(tail):
            os.ftruncate(descriptor, start + whole)
        read = [found for line in lines[-ROWS_MAX:] if (found := _read(line)) is not None]
        for record, digest in read:
            self.rows.appendleft(_row(record, digest))
        if read and lines and _read(lines[-1]) is not None:
            self._seq, self._prev = read[-1][0].seq, read[-1][1]
        elif lines:  # somebody wrote into it: the chain goes on, and `verify` says where it is broken
            self._seq, self._prev = (read[-1][0].seq + 1 if read else 0), hashlib.sha256(lines[-1]).hexdigest()

    def _append(self, records: Sequence[Record]) -> None:
        if os.fstat(self._descriptor).st_size >= self._bytes_max:
            self._set_aside()
        size = os.fstat(self._descriptor).st_size
        seq, prev, lines, rows = self._seq, self._prev, [], []
        for record in records:
            seq += 1
            record.seq, record.prev = seq, prev
            line, prev = _write(record)
            lines.append(line)
            rows.append(_row(record, prev))
        data = memoryview(b"".join(lines))
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise
        self._seq, self._prev = seq, prev
        self.rows.extendleft(rows)

    def _set_aside(self) -> None:
        first = _first_seq(self.path)
        self.path.rename(self.path.with_name(f"{self.path.name}.{first:012d}"))
        self._close()
        for old in set_aside(self.path)[:-FILES_MAX]:
            old.unlink()
        self._open()
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


# --- reading ----------------------------------------------------------------------------------------------------------


def verify(path: Path) -> Verdict:
    """Read the whole chain: the files that were set aside, then the present one. `OSError` if one cannot be read."""
    found = Verdict()
    for file in [*set_aside(path), *([path] if path.exists() else [])]:
        found.files.append(file.name)
        _verify_file(file, found)
    if not found.files:
        raise FileNotFoundError(2, "no such file", str(path))
    return found


def _verify_file(file: Path, found: Verdict) -> None:
    with file.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(LINE_BYTES_MAX + 1), b""), 1):
            read = _read(line.rstrip(b"\n"))
            if read is None:
                found.problems.append(Problem(file.name, number, "this line was changed: its hash is not its own"))
                continue
            record, digest = read
            is_first = found.records == 0
            if not is_first and record.seq != found.last_seq + 1:
                text = f"record {record.seq} follows {found.last_seq}: lines are missing, or were moved"
                found.problems.append(Problem(file.name, number, text))
            elif record.prev != (found.last_hash if not is_first else record.prev if record.seq > 1 else NOTHING):
                text = f"record {record.seq} does not follow the one before it: that was changed, or is another one"
                found.problems.append(Problem(file.name, number, text))
            found.first_seq = found.first_seq or record.seq
            found.last_seq, found.last_hash = record.seq, digest
            found.records += 1


def set_aside(path: Path) -> list[Path]:
    """The files that were full, the oldest first."""
    return sorted(file for file in path.parent.glob(f"{path.name}.*") if file.suffix[1:].isdigit())


def _first_seq(path: Path) -> int:
    with path.open("rb") as lines:
        read = _read(lines.readline(LINE_BYTES_MAX).rstrip(b"\n"))
    return read[0].seq if read is not None else 0


def _write(record: Record) -> tuple[bytes, str]:
    """The line, and its hash: of everything in it but the hash."""
    body = msgspec.json.encode(record)
    digest = hashlib.sha256(body).hexdigest()
    return b'%s,"hash":"%s"}\n' % (body[:-1], digest.encode()), digest


def _read(line: bytes) -> tuple[Record, str] | None:
    """The record and its hash, if that is its own."""
    body, mark, end = line.rpartition(b',"hash":"')
    digest = end[:64].decode(errors="replace")
    if not mark or end[64:] != b'"}' or hashlib.sha256(body + b"}").hexdigest() != digest:
        return None
    try:
        return msgspec.json.decode(body + b"}", type=Record), digest
    except msgspec.MsgspecError:
        return None


def _row(record: Record, digest: str) -> dict[str, Any]:
    return {**msgspec.structs.asdict(record), "hash": digest}


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        there, ours = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)
