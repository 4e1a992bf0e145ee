"""`scale0 config show` and `diff`: what runs, what ran, and what differs.

`show` without `--as` prints TOML whose first lines, as comments, say who runs it; so what a person reads is at once a
file that can be kept, edited and applied. In a terminal every line goes through `safe`; into a file it goes as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from scale0.cli import config_diff, config_source, listings, render
from scale0.cli.config_source import Ask, Running, Source
from scale0.cli.failures import Exit
from scale0.cli.history_view import document_of
from scale0.cli.render import Page
from scale0.cli.views import Row, count, moment
from scale0.errors import UsageError
from scale0.protocol import documents
from scale0.protocol.network import Document
from scale0.protocol.network_diff import diff as differences


def show(ask: Ask, to: str | None, version: str | None, is_json: bool, file: TextIO | None = None) -> Exit:
    """Print the document that runs, or one of the history."""
    file = file or sys.stdout
    if is_json and to is not None:
        raise UsageError("--json is the broker's whole answer, and --as the document alone; give one of them")
    answer = ask("scale0.config" if version is None else "scale0.config_history")
    if version is None:
        now = config_source.read_running(answer)
        row, document, standing = now.row, now.document, f"{now.network} {now.version}: {who_runs(now)}"
    else:
        row = config_source.find(listings.parse(answer).rows, version)
        document = document_of(row)
        standing = f"{document.network} {row.get('version')}: {row.get('state')}"
    if is_json:
        file.write(json.dumps({**json.loads(answer), "rows": [row]}, separators=(",", ":")) + "\n")
        return Exit.GOOD
    remarks = [f"# {render.safe(remark)}" for remark in (standing, _origin(row)) if remark and to is None]
    _write("\n".join([*remarks, text_of(document, to or "toml")]), file)
    return Exit.GOOD


def text_of(document: Document, to: str) -> str:
    """The document in a format of files; JSON is laid out for people."""
    data = documents.encode(document, documents.todays(to))
    return (msgspec.json.format(data, indent=2) if to == "json" else data).decode()


def who_runs(now: Running) -> str:
    """`2 brokers run it, eu-3 is behind`."""
    here = max(now.brokers - len(now.behind) - len(now.unknown), 0)
    told = [f"{count(here, 'broker')} {'runs' if here == 1 else 'run'} it"]
    if now.behind:
        told.append(f"{', '.join(now.behind)} {'is' if len(now.behind) == 1 else 'are'} behind")
    if now.unknown:
        told.append(f"{', '.join(now.unknown)} cannot be asked")
    return ", ".join(told)


def _origin(row: Row) -> str:
    """`by ops at 2024-05-01 12:00:00 UTC: why`, as far as it is known."""
    author, comment, time_us = row.get("author"), row.get("comment"), row.get("time_us")
    parts = [f"by {author}"] if author else []
    if isinstance(time_us, int) and time_us > 0:
        parts.append(f"at {moment(time_us)} UTC")
    return f"{' '.join(parts)}{': ' if parts and comment else ''}{comment or ''}"


def _write(text: str, file: TextIO) -> None:
    """To people what they can see, to files and programs UTF-8, whatever the terminal would show."""
    whole = text if text.endswith("\n") else f"{text}\n"
    if file.isatty():
        Page(file).lines(render.safe(line) for line in whole.splitlines())
        return
    binary = getattr(file, "buffer", None)
    file.flush()
    if binary is None:
        file.write(whole)
    else:
        binary.write(whole.encode())
        binary.flush()


# --- what differs -------------------------------------------------------------------------------------------------


def diff(ask: Ask, before: str, after: str | None, is_checking: bool, page: Page | None = None) -> Exit:
    """Two versions or files; or one of them and what runs, the older one first."""
    first = config_source.read(before, ask)
    if after is not None:
        second = config_source.read(after, ask)
    elif config_source.is_file(before):
        now = config_source.running(ask)
        first, second = now.source, Source(first.name, first.document.over(now.document))
    else:
        second = config_source.running(ask).source
    rows = listings.parse(ask("scale0.network")).rows
    return _show_diff(first, second, rows, is_checking, page or Page())


def diff_files(before: Path, after: Path, is_checking: bool, page: Page | None = None) -> Exit:
    """Two files, without any broker."""
    return _show_diff(config_source.read_file(before), config_source.read_file(after), [], is_checking, page or Page())


def _show_diff(before: Source, after: Source, rows: Sequence[Row], is_checking: bool, page: Page) -> Exit:
    changes = differences(before.document, after.document)
    if not changes:
        page.line(render.verdict("ok", f"{render.safe(before.name)} and {render.safe(after.name)} say the same"))
        return Exit.GOOD
    page.lines(config_diff.draw(changes, rows, f"{before.name} → {after.name}"))
    return Exit.BAD_ANSWER if is_checking else Exit.GOOD
