"""The configs that a broker keeps over restarts: `config.json` in its state directory, the current one last.

Rule 23: brokers keep their last config on disk and start from it. The file is for people to read, too: a line a
version, each with its document as JSON. A version's hash is over the document's very bytes, so these are written as
they are, and compared with the hash when they are read: a document that was changed by hand, or by a bad disk, is
refused, for it would be another one under the same name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import msgspec

from scale0.core.config import content_hash
from scale0.errors import SettingsError
from scale0.protocol import documents
from scale0.protocol.messages import ConfigVersion
from scale0.protocol.network import ConfigRecord, Document
from scale0.protocol.network_diff import diff
from scale0.transport.atomic_file import replace_file

FILE_NAME: Final = "config.json"
FILE_BYTES_MAX: Final = 256 * 1024 * 1024  # a hundred documents of the largest size take less than half of it
CURE: Final = "delete it to start from the settings file, or from the broker that is joined"

_SELF_ENTERED: Final = ("endpoints", "config_pub", "public_key", "next_public_key")  # by a broker, into its own entry
_VERSION: Final = re.compile(r"(\d{1,10})\.(\d{1,10})\.([0-9a-f]{16})")
_BEGIN: Final = b'{"records": [\n'
_BETWEEN: Final = b",\n"
_END: Final = b"\n]}\n"


class _Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A record as the file has it: the version with its whole hash, the document as it is."""

    version: str
    time_us: int = 0
    author: str = ""
    comment: str = ""
    state: Literal["past", "lost"] = "past"
    document: msgspec.Raw


class _File(msgspec.Struct):
    records: list[_Line]


class ConfigFile:
    """The file in `directory`; without a directory nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self.path = directory / FILE_NAME if directory is not None else None
        self.records = self._read()

    def check(self) -> None:
        """Raise `SettingsError` if no broker can start from the last record: another release may have written it."""
        if self.records:
            documents.decode(self.records[-1].document, "JSON", Document, f"{self.path}: cannot be used; {CURE}")

    def keep(self, records: list[ConfigRecord]) -> None:
        """Write `records`; they are on disk when this returns. Raises `OSError`, and then the old ones stay there."""
        self.records = records
        if self.path is None:
            return
        content = encode(records)
        assert decode(content) == records, "what is written can be read again"
        replace_file(self.path, content)

    def _read(self) -> list[ConfigRecord]:
        if self.path is None or not self.path.exists():
            return []
        try:
            if self.path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError(f"it has over {FILE_BYTES_MAX:,} bytes")
            return decode(self.path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            # Without it this broker could serve an older config, or join as a stranger: not ours to guess.
            raise SettingsError(f"{self.path}: cannot be read: {error}; {CURE}") from None


def encode(records: list[ConfigRecord]) -> bytes:
    """The file's content: a line a record."""
    return _BEGIN + _BETWEEN.join(msgspec.json.encode(_line(record)) for record in records) + _END


def decode(content: bytes) -> list[ConfigRecord]:
    """The records in the file's content. Raises `ValueError`, or `RecursionError`, for anything but a whole file."""
    return [_record(line) for line in msgspec.json.decode(content, type=_File).records]


def _line(record: ConfigRecord) -> _Line:
    version = ConfigVersion.unpack(record.version)
    return _Line(
        version=f"{version.epoch}.{version.number}.{version.hash.hex()}",
        time_us=record.time_us,
        author=record.author,
        comment=record.comment,
        state=record.state,
        document=msgspec.Raw(record.document),
    )


def _record(line: _Line) -> ConfigRecord:
    found = _VERSION.fullmatch(line.version)
    if found is None:
        raise ValueError(f"{line.version!r} is no version such as 1.42.0123456789abcdef")
    epoch, number = int(found[1]), int(found[2])
    if max(epoch, number) >= 1 << 32:
        raise ValueError(f"{line.version!r} has a number that is too large")
    version = ConfigVersion(epoch, number, bytes.fromhex(found[3]))
    document = bytes(line.document)
    if content_hash(document) != version.hash:
        raise ValueError(f"the document of version {version} was changed: its hash is another one")
    msgspec.json.decode(document)  # until now nobody has looked into it
    return ConfigRecord(
        version=version.pack(),
        document=document,
        author=line.author,
        comment=line.comment,
        time_us=line.time_us,
        state=line.state,
    )


def passed_over(told: Document | None, running: Document) -> str:
    """What a settings file says otherwise than the config that holds, in short; empty if nothing."""
    if told is None or told == Document():
        return ""
    changes = [one for one in diff(running, told.over(running)) if one.key.rpartition(".")[2] not in _SELF_ENTERED]
    if not changes:
        return ""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{changes[0].key} {changes[0].text}{more}"
