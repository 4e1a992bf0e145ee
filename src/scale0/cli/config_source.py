"""Where a config document comes from: the running network, its history, or a file.

A version is written as people say it: `42`, `v42`, `1.42` or `1.42.ab12cd34`, that is epoch, number and the beginning
of the content hash. Numbers begin again in each epoch and two sides of a partition may use the same one, so a word that
fits several versions is refused; one that is lost counts only where no other fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from scale0.cli import failures, listings
from scale0.cli.history_view import document_of
from scale0.cli.views import Row
from scale0.errors import ProtocolError, UsageError
from scale0.protocol.network import Document
from scale0.transport import settings_file

FILE_ENDINGS: Final = (".toml", ".json", ".zpl", ".xml", ".zfl")
_VERSION: Final = re.compile(r"v?(?:\d+|\d+\.\d+(?:\.[0-9a-f]{1,16})?)", re.IGNORECASE)

Ask = Callable[[str], bytes]


class Source(msgspec.Struct, frozen=True):
    """A document, and what it is called."""

    name: str
    document: Document


class Running(msgspec.Struct, frozen=True):
    """What the network runs, as the broker that was asked knows it."""

    version: str
    document: Document
    network: str
    brokers: int
    behind: list[str]
    unknown: list[str]
    row: Row

    @property
    def source(self) -> Source:
        return Source(self.version, self.document)


def running(ask: Ask) -> Running:
    """The config that holds now."""
    return read_running(ask("scale0.config"))


def read_running(answer: bytes) -> Running:
    """The config in the answer of `scale0.config`."""
    listing = listings.parse(answer)
    if len(listing.rows) != 1:
        raise ProtocolError(400, "the broker's answer holds no config")
    row = listing.rows[0]
    document, brokers = document_of(row), row.get("brokers")
    return Running(
        version=str(row.get("version", "?")),
        document=document,
        network=document.network,
        brokers=brokers if isinstance(brokers, int) else len(document.brokers),
        behind=_names(row, "behind"),
        unknown=_names(row, "unknown"),
        row=row,
    )


def read_file(path: Path) -> Source:
    """The document in a file, checked. What the file says of one broker's own process concerns no other broker."""
    file = settings_file.load(path)
    own = settings_file.local_keys(file)
    if own and file.document == Document():
        concern = f"{', '.join(own)} {'concerns' if len(own) == 1 else 'concern'} one broker's process alone"
        cure = "what runs, as a file: scale0 config show"
        raise UsageError(f"{path} says nothing of the network's config: {concern}\n{cure}")
    if own:
        failures.remark(f"{path}: not looked at, for they concern one broker's process alone: {', '.join(own)}")
    return Source(str(path), file.document)


def read(word: str, ask: Ask) -> Source:
    """A file, or a version of the running network's history."""
    if is_file(word):
        return read_file(Path(word))
    row = find(listings.parse(ask("scale0.config_history")).rows, word)
    return Source(str(row["version"]), document_of(row))


def is_file(word: str) -> bool:
    """Whether `word` names a file. Raises `UsageError` if it names no version either."""
    if word.lower().endswith(FILE_ENDINGS):
        return True
    if _VERSION.fullmatch(word):
        return False
    raise UsageError(
        f"{word!r} is neither a version nor a file\n"
        f"a version looks like 42, 1.42 or 1.42.ab12cd34; a file ends in {', '.join(FILE_ENDINGS[:-1])}"
    )


def find(rows: Sequence[Row], word: str) -> Row:
    """The row of the version that `word` means."""
    wanted = word.lower().removeprefix("v").split(".")
    fitting = [row for row in rows if _fits(str(row.get("version", "")).split("."), wanted)]
    chosen = [row for row in fitting if row.get("state") != "lost"] or fitting
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        versions = ", ".join(str(row.get("version")) for row in chosen)
        raise UsageError(f"{word} may be any of {versions}\nwrite the one that is meant")
    kept = [str(row.get("version")) for row in rows]
    told = f"the history goes from {kept[-1]} to {kept[0]}" if kept else "the history is empty"
    raise UsageError(f"no version {word} is known\n{told}: scale0 config history")


def _fits(version: Sequence[str], wanted: Sequence[str]) -> bool:
    if len(version) != 3:
        return False
    epoch, number, digest = version
    match wanted:
        case [told]:
            return told == number
        case [told_epoch, told]:
            return (told_epoch, told) == (epoch, number)
        case [told_epoch, told, beginning]:
            return (told_epoch, told) == (epoch, number) and _agree(digest, beginning)
        case _:
            return False


def _agree(digest: str, beginning: str) -> bool:
    """Hashes are shown shortened, so either may be longer than the other."""
    return digest.startswith(beginning) or beginning.startswith(digest)


def _names(row: Row, key: str) -> list[str]:
    value = row.get(key)
    return [str(name) for name in value] if isinstance(value, list) else []
