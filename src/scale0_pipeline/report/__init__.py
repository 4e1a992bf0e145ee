"""The report: one self-contained page about a period, written from the gold tables without Spark.

`write` reads the tables (`book`), judges them (`findings`, `figures`) and draws the page (`page`). Everything after the
reading is pure, so a page can be made in a test from a book that was written by hand.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from scale0_pipeline.gold import Gold
from scale0_pipeline.progress import Progress, silent
from scale0_pipeline.report.book import period_of, read_book
from scale0_pipeline.report.findings import find, judge
from scale0_pipeline.report.page import render


class Summary(msgspec.Struct):
    """What was written: where, about when, how much, and its first sentence."""

    path: str
    bytes: int
    since_us: int
    until_us: int
    tasks: int
    completeness: float | None
    verdict: str
    findings: int


def write(
    place_url: str,
    out: Path,
    since_us: int | None = None,
    until_us: int | None = None,
    progress: Progress = silent,
) -> Summary:
    """Writes the page. Without `since_us` it tells of all that is recorded; raises NothingRecorded of nothing."""
    gold = Gold(place_url)
    gold.check()
    period = period_of(gold, since_us, until_us)
    book = read_book(gold, period, progress)
    progress("page", 0, 1)
    content = render(book, time.time_ns() // 1_000).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(content)
    progress("page", 1, 1)
    found = find(book)
    verdict = judge(book, found)
    return Summary(
        path=str(out),
        bytes=len(content),
        since_us=period.since_us,
        until_us=period.until_us,
        tasks=book.flow.tasks,
        completeness=book.completeness.share,
        verdict=f"{verdict.glyph} {verdict.sentence}",
        findings=len(found),
    )


__all__ = ["Summary", "write"]
