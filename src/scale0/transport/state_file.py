"""What a broker keeps over restarts: its state and its epoch, in one small file.

A disabled broker must not come back as active (rule 25). The file is replaced as a whole: after a crash at any moment
it holds either the old content or the new one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final, Literal

import msgspec

from scale0.errors import SettingsError

FILE_NAME: Final = "broker-state.json"


class Kept(msgspec.Struct, frozen=True):
    """The file's content."""

    state: Literal["active", "disabled"] = "active"
    epoch: int = 1


class StateFile:
    """The file in `directory`; without a directory nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self.path = directory / FILE_NAME if directory is not None else None
        self.kept = self._read()

    def keep(self, state: str) -> None:
        """Write `state`; it is on disk when this returns."""
        self.kept = msgspec.convert({"state": state, "epoch": self.kept.epoch}, Kept)
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(self.kept) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_directory(self.path.parent)

    def _read(self) -> Kept:
        if self.path is None or not self.path.exists():
            return Kept()
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Kept)
        except (OSError, msgspec.MsgspecError) as error:
            # Starting as active could bring a disabled broker back, so this is not ours to guess.
            raise SettingsError(
                f"{self.path}: cannot be read: {error}; repair it, or delete it to start as active"
            ) from None


def _sync_directory(directory: Path) -> None:
    """The new name is on disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
