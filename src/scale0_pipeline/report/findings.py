"""What a reader should know first: rules that turn a book into findings, the gravest first, and into one verdict.

A finding says what is so, since when, by which evidence, and which command comes next. Each rule looks for one kind of
trouble and names its threshold. Of findings about one service the gravest stands for all, since an overload shows as
lateness, as burn rate and as waiting alike, and three sentences about one cause are two too many.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scale0_pipeline import words
from scale0_pipeline.report import findings_network as network
from scale0_pipeline.report import findings_tasks as tasks
from scale0_pipeline.report import histogram
from scale0_pipeline.report.book import Book
from scale0_pipeline.report.finding import GRAVITY, Finding

SHOWN_MAX: Final = 3

RULES: Final = (
    tasks.bad_ends,
    tasks.waiting,
    tasks.burning,
    tasks.slower,
    network.failovers,
    network.short_of_workers,
    network.flapping,
    network.drifting,
    network.configs,
    network.incomplete,
)


class Verdict(msgspec.Struct, frozen=True):
    """The sentence that opens the page. `fill` is a state's: ok, warn, bad or off."""

    fill: str
    glyph: str
    sentence: str


def find(book: Book) -> list[Finding]:
    """All findings, the gravest first, one about each subject."""
    found = [finding for rule in RULES for finding in rule(book)]
    found.sort(key=lambda finding: (-GRAVITY[finding.severity], -finding.weight))
    first: dict[str, Finding] = {}
    for finding in found:
        first.setdefault(finding.subject, finding)
    return list(first.values())


def judge(book: Book, found: list[Finding]) -> Verdict:
    """The period in one sentence: the gravest finding, or that nothing needs anybody."""
    flow = book.flow
    if not flow.tasks:
        return Verdict("off", "–", "No task was recorded in this period")
    troubles = [finding for finding in found if finding.severity != "ok"]
    if troubles:
        worst = troubles[0]
        rest = f" · {words.plural(len(troubles) - 1, 'more finding')}" if len(troubles) > 1 else ""
        sentence = f"{worst.what} {worst.since}{rest}"
        return Verdict(worst.severity, "✗" if worst.severity == "bad" else "!", sentence)
    replied = 1 - int(flow.failed.sum()) / flow.tasks
    p99 = words.duration(histogram.percentile_us(flow.latency.sum(axis=0), 0.99))
    return Verdict(
        "ok", "●", f"All is well: {words.percent(replied)} of {words.plural(flow.tasks, 'task')} replied, p99 {p99}"
    )
