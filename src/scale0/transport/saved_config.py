"""A client's or worker's last config, kept in one small file for its next start, by choice (rules 23 and 26).

With it a process finds its way even if the broker whose address it was given is down: the others are known. The file is
JSON that people can read. It is a hint and nothing depends on it: one that is damaged is ignored, one that cannot be
written is noted once, and what a broker says always counts for more.

Writing waits for the disk, and a session must not: it happens in a thread of its own, the newest content only, and the
file is replaced as a whole. Several processes may share a file; the last one wins.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from scale0.core.held_config import SavedConfig
from scale0.errors import UsageError
from scale0.protocol import limits
from scale0.transport.atomic_file import replace_file

FILE_BYTES_MAX: Final = 4 * limits.DOCUMENT_BYTES_MAX  # a config, with what JSON adds to it
WAIT_S: Final = 2.0  # how long a process that ends waits for its disk
SCHEMA: Final = "scale0.saved_config/1"


class _Content(msgspec.Struct, kw_only=True):
    """The file, as people see it."""

    schema: str
    config_version: str  # 16 bytes in hex
    config_type: str
    config: str
    endpoints: list[str] = []


class SavedConfigFile:
    """The file at `path`; without one nothing is kept. `note` is told what went wrong, from any thread."""

    def __init__(self, path: Path | None, note: Callable[[str], None]) -> None:
        self._path = path
        self._note = note
        self._lock = threading.Lock()
        self._next: SavedConfig | None = None  # what is to be written; a newer one takes its place
        self._thread: threading.Thread | None = None
        self._has_failed = False

    def read(self) -> SavedConfig:
        """What an earlier process has kept; nothing, if there is none or it cannot be read."""
        if self._path is None:
            return SavedConfig()
        try:
            with self._path.open("rb") as file:
                return decode(file.read(FILE_BYTES_MAX + 1))
        except FileNotFoundError:
            return SavedConfig()
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            self._note(f"{self._path}: the saved config is ignored, for it cannot be read: {error}")
            return SavedConfig()

    def keep(self, saved: SavedConfig) -> None:
        """Write this, soon, in place of what is there. Returns at once."""
        if self._path is None:
            return
        with self._lock:
            self._next = saved
            if self._thread is None:
                thread = threading.Thread(target=self._write_all, name="scale0-save", daemon=True)
                with contextlib.suppress(RuntimeError):  # the interpreter is ending: too late, and only a hint
                    thread.start()
                    self._thread = thread

    @property
    def is_writing(self) -> bool:
        return self._thread is not None

    def wait(self, limit_s: float = WAIT_S) -> None:
        """Until what was to be kept is on disk, but not for ever: a disk that hangs must not hold the process."""
        thread = self._thread
        if thread is not None:
            thread.join(limit_s)

    # --- in the thread --------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while True:
            with self._lock:
                saved, self._next = self._next, None
                if saved is None:
                    self._thread = None
                    return
            self._write(saved)

    def _write(self, saved: SavedConfig) -> None:
        assert self._path is not None, "without a path nothing is kept"
        try:
            replace_file(self._path, encode(saved))
        except (OSError, ValueError) as error:
            if not self._has_failed:  # the next one will most likely fail too, and is no news
                self._has_failed = True
                self._note(f"{self._path}: the config cannot be saved there: {error}")


def encode(saved: SavedConfig) -> bytes:
    """The file's content. Raises `UnicodeDecodeError` for a config that is no text."""
    content = _Content(
        schema=SCHEMA,
        config_version=saved.config_version.hex(),
        config_type=saved.config_type,
        config=saved.config.decode(),
        endpoints=saved.endpoints,
    )
    return msgspec.json.format(msgspec.json.encode(content)) + b"\n"


def decode(data: bytes) -> SavedConfig:
    """Raises `ValueError` or what msgspec raises for anything but a whole file."""
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"it has over {FILE_BYTES_MAX:,} bytes")
    content = msgspec.json.decode(data, type=_Content)
    version = bytes.fromhex(content.config_version)
    if content.schema != SCHEMA or len(version) != limits.VERSION_BYTES:
        raise ValueError(f"it is not of the form {SCHEMA}")
    return SavedConfig(content.config_type, version, content.config.encode(), content.endpoints)


def check_path(path: Path | str | None) -> Path | None:
    """Where to save, as callers give it, or an error that says what is allowed."""
    if path is None:
        return None
    if not isinstance(path, Path | str) or not str(path):
        raise UsageError(f"save_config is the path of a file, not {path!r}")
    checked = Path(path).expanduser()
    if checked.is_dir():
        raise UsageError(f"save_config is the path of a file; {checked} is a directory")
    return checked
