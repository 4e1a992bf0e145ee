"""`scale0 config check` and `convert`: a file is good or all its mistakes are told; and it says the same in any format.

Neither asks a broker. What a file says of one broker's own process (who may manage it, above all) is checked with the
rest, and is never converted: the result is the network's document, which may be shown to anybody.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scale0.cli import render
from scale0.cli.config_command import text_of
from scale0.cli.failures import Exit, complain, remark
from scale0.cli.views import count
from scale0.errors import SettingsError, UsageError
from scale0.protocol import documents
from scale0.protocol.network import Document
from scale0.transport import settings_file
from scale0.transport.settings_file import BrokerFile


def check(path: Path) -> Exit:
    """Say that a file is good and what it describes, or all that is wrong with it."""
    file = _read(path)
    if file is None:
        return Exit.BAD_ANSWER
    page = render.Page()
    page.line(f"{render.safe(path)}: good: {render.safe(summary(file.document))}")
    return Exit.GOOD


def convert(path: Path, to: str, out: Path | None) -> Exit:
    """Write a file's document in the format `to`, to `out` or to stdout."""
    file_type = documents.todays(to)
    if file_type not in documents.FILE_TYPES:
        allowed = ", ".join(name.lower() for name in documents.FILE_TYPES)
        raise UsageError(f"{to!r} is no format of a document; there are {allowed}")
    if out is not None and settings_file.type_of(out) != file_type:
        raise UsageError(f"{out} would hold {file_type}, and its name says otherwise\nend it in .{file_type.lower()}")
    file = _read(path)
    if file is None:
        return Exit.BAD_ANSWER
    try:
        text = text_of(file.document, to)
    except SettingsError as error:  # a value that the format has no way to say
        complain(f"{path}: {error}")
        return Exit.BAD_ANSWER
    left_out = settings_file.local_keys(file)
    if left_out:
        remark(f"{path}: left out, for they concern one broker's process alone: {', '.join(left_out)}")
    _write(text if text.endswith("\n") else f"{text}\n", out)
    return Exit.GOOD


def summary(document: Document) -> str:
    """`network prod, 3 brokers in 2 groups, 4 services`."""
    groups = {entry.group for entry in document.brokers if entry.group} | {entry.name for entry in document.groups}
    brokers = count(len(document.brokers), "broker")
    where = f" in {count(len(groups), 'group')}" if groups else ""
    return f"network {document.network}, {brokers}{where}, {count(len(document.service), 'service')}"


def _read(path: Path) -> BrokerFile | None:
    """The file's content; `None` after its mistakes were told. What is no settings file at all is wrong usage."""
    data, file_type = settings_file.read(path)
    try:
        return settings_file.parse(data, file_type, str(path))
    except SettingsError as error:
        for line in str(error).splitlines():
            complain(line)
        return None


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from None
