"""What a broker keeps over restarts: its state and its epoch, in one small file.

A disabled broker must not come back as active (rule 25).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from scale0.errors import SettingsError
from scale0.protocol import limits
from scale0.transport.atomic_file import replace_file

FILE_NAME: Final = "broker-state.json"


class Kept(msgspec.Struct, frozen=True):
    """The file's content. `is_serving`: as the active one of a pair, whose epoch this is."""

    state: Literal["active", "disabled"] = "active"
    epoch: Annotated[int, msgspec.Meta(ge=1, le=limits.EPOCH_MAX)] = 1  # what messages can carry
    is_serving: bool = False


class StateFile:
    """The file in `directory`; without a directory nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self.path = directory / FILE_NAME if directory is not None else None
        self.kept = self._read()

    def keep(self, state: str, epoch: int = 1, is_serving: bool = False) -> None:
        """Write this; it is on disk when this returns. An epoch never goes back."""
        epoch = max(epoch, self.kept.epoch)
        self.kept = msgspec.convert({"state": state, "epoch": epoch, "is_serving": is_serving}, Kept)
        if self.path is not None:
            replace_file(self.path, msgspec.json.encode(self.kept) + b"\n")

    def _read(self) -> Kept:
        if self.path is None or not self.path.exists():
            return Kept()
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Kept)
        except (OSError, ValueError, RecursionError) as error:  # bytes that are no text raise a plain ValueError
            # Starting as active could bring a disabled broker back, so this is not ours to guess.
            raise SettingsError(
                f"{self.path}: cannot be read: {error}; repair it, or delete it to start as active"
            ) from None
