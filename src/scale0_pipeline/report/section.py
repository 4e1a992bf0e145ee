"""What a section of the page is made of: a conclusion, drawings with their data, and a way on where there is nothing.

A `Scene` is what every section sees: the book, the gaps of its record, and the marks of what was done to the network.
A drawing and its table are one `figure`: the table holds the numbers for readers who cannot see the drawing, for those
who want to copy them, and for the line of values that follows the pointer, which reads them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scale0_pipeline import words
from scale0_pipeline.report.book import Book
from scale0_pipeline.report.charts.marks import Gap, Mark, gaps_of
from scale0_pipeline.report.html import Child, Html, details, el, join, table
from scale0_pipeline.report.period import Period

TABLE_ROWS_MAX: Final = 60
"""Rows of a table without a time axis; the rest is a number below it."""

MARK_WORDS: Final = {
    "took_over": ("▲", "took over"),
    "handed_over": ("▲", "handed over"),
    "stepped_down": ("▽", "stepped down"),
    "doubtful": ("▽", "was in doubt"),
    "resumed": ("△", "resumed"),
    "restored": ("△", "was restored"),
}


class Scene(msgspec.Struct):
    """What every section sees."""

    book: Book
    gaps: list[Gap]
    marks: list[Mark]
    is_lean: bool = False  # the page would be too long with the data of its charts

    @property
    def period(self) -> Period:
        return self.book.period


class Section(msgspec.Struct):
    """One section: `kicker` names its question, `title` states the conclusion."""

    key: str
    kicker: str
    title: str
    body: Html


def make_scene(book: Book, *, is_lean: bool = False) -> Scene:
    """The scene of a book: its gaps, and marks for fail-overs and new configs."""
    marks = [
        Mark(row["ts_us"], *_marked(row["what"], words.name(row["broker"])))
        for row in book.rows("gold/failovers")
        if row["what"] in MARK_WORDS
    ]
    applied: dict[str, int] = {}
    for row in book.rows("silver/config_applied"):
        applied[row["version"]] = min(applied.get(row["version"], row["ts_us"]), row["ts_us"])
    marks += [Mark(at_us, "◆", f"config {words.name(version)}") for version, at_us in applied.items()]
    gaps = gaps_of(book.rows("gold/completeness_1h"))
    return Scene(book, gaps, sorted(marks, key=lambda mark: mark.at_us), is_lean)


def _marked(what: str, broker: str) -> tuple[str, str]:
    glyph, verb = MARK_WORDS[what]
    return glyph, f"{broker} {verb}"


def figure(drawing: Html, *, legend: Html | None = None, data: Html | None = None, is_live: bool = False) -> Html:
    """A drawing, the words to its colours, the line of values under the pointer, and its table."""
    readout = el("output", Html("&nbsp;"), class_="readout") if is_live else None
    return el("figure", legend, el("div", drawing, class_="scroll"), readout, data)


def time_table(scene: Scene, columns: Mapping[str, Iterable[str]]) -> Html:
    """The data of a chart over time: a row a bin, in the order of the bins."""
    period = scene.period
    if scene.is_lean:
        return el(
            "p", "The data is left out: with it the page would be too long. Ask for a shorter period.", class_="muted"
        )
    starts = [period.show(int(at_us)) for at_us in period.starts_us()]
    rows: list[list[Child]] = [list(row) for row in zip(starts, *columns.values(), strict=True)]
    return details(f"Data, {words.duration(period.bin_us)} a row", table(["UTC", *columns], rows, class_="data"))


def data_table(
    heads: list[str], rows: list[list[Child]], *, summary: str = "Data", numbers: set[int] | None = None
) -> Html:
    """The data of a chart without a time axis, cut to what can be read."""
    return details(summary, *short_table(heads, rows, numbers=numbers))


def short_table(heads: list[str], rows: list[list[Child]], *, numbers: set[int] | None = None) -> list[Child]:
    """A table in the open, cut to what can be read, and how much was cut."""
    rest = len(rows) - TABLE_ROWS_MAX
    more = el("p", f"{words.plural(rest, 'more row')} in the table itself", class_="muted") if rest > 0 else None
    return [table(heads, rows[:TABLE_ROWS_MAX], numbers=numbers), more]


def empty(sentence: str, command: str = "") -> Html:
    """Nothing to show: why, and the command that would change that."""
    return el("p", sentence, " " if command else None, el("code", command) if command else None, class_="empty",
              data_testid="empty-state")  # fmt: skip


def name(text: object) -> Html:
    """A name of something in the network."""
    return el("span", words.name(text), class_="id")


def state(fill: str, glyph: str, word: str) -> Html:
    """A state: a coloured glyph and a word in the text's colour."""
    return join([el("span", glyph, class_=f"glyph g-{fill}"), " ", word])
