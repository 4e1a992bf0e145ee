"""What a broker keeps over restarts: its state and its epoch, in one small file.

A disabled broker must not come back as active (rule 25).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from scale0.errors import SettingsError
from scale0.transport.atomic_file import replace_file

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
        if self.path is not None:
            replace_file(self.path, msgspec.json.encode(self.kept) + b"\n")

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
