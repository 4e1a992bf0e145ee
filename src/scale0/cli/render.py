"""How the command line looks: one console, one table, one `safe()`.

The rule: nothing that came over the network reaches the terminal as anything but visible text. A worker may call itself
`[red]` or `ESC[2J`; so markup is switched off at the console, and `safe` spells out control and bidi characters.
A state is a coloured glyph and a word, and the word keeps the terminal's own colour, so that it can be read by
everyone. Colours are the terminal's named ones, for only the user knows whether the background is dark.

Without a terminal a table has its natural width, so that `grep` and `awk` see every column; in one, the columns that
matter least go first, and a footer says how many went.
"""

from __future__ import annotations

import itertools
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TextIO

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

UNKNOWN = "–"
"""What nobody measured; never 0."""

STYLES = {"ok": "bright_blue", "warn": "yellow", "bad": "red", "off": "bright_black"}

STATES: dict[str, tuple[str, str]] = {
    "ok": ("●", "ok"),
    "active": ("●", "ok"),
    "ready": ("●", "ok"),
    "here": ("●", "ok"),
    "at peers": ("●", "ok"),
    "current": ("●", "ok"),
    "full": ("●", "ok"),
    "in flight": ("●", "ok"),
    "queued": ("○", "ok"),
    "passive": ("○", "ok"),
    "in sync": ("○", "ok"),
    "joining": ("○", "ok"),
    "past": ("○", "ok"),
    "negotiating": ("○", "ok"),
    "draining": ("◒", "warn"),
    "disabling": ("◒", "warn"),
    "holding": ("◒", "warn"),
    "behind": ("!", "warn"),
    "absent": ("!", "warn"),
    "gone": ("✗", "bad"),
    "lost": ("✗", "bad"),
    "no worker": ("✗", "bad"),
    "disabled": ("–", "off"),
}
"""A state's glyph and fill; a state that is not listed is shown as unknown."""

ASCII = str.maketrans(
    {
        "●": "*",
        "○": "o",
        "◒": "~",
        "✗": "x",
        "✓": "+",
        "–": "-",
        "·": "|",
        "→": ">",
        "↔": "<>",
        "…": "...",
        "×": "x",
        "µ": "u",
        "▸": ">",
        "█": "#",
        "░": ".",
        "±": "+-",
        "≠": "!=",
    }
)
"""What each glyph becomes on a terminal without UTF-8."""


class Column(msgspec.Struct, frozen=True):
    """One column. `drop` says when it goes on a narrow terminal: 0 never, then the highest first."""

    title: str
    is_number: bool = False
    drop: int = 0
    is_wide_only: bool = False


Cell = str | Text


class _Console(Console):
    """Rich's console, but the command decides what a reader that went away means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Page:
    """A console that writes plain lines: no markup, no wrapping, no emoji codes, ASCII where UTF-8 is missing."""

    def __init__(self, file: TextIO | None = None, *, width: int | None = None) -> None:
        self.file = file if file is not None else sys.stdout
        self.is_terminal = self.file.isatty()
        self.is_utf8 = (getattr(self.file, "encoding", None) or "ascii").lower().replace("-", "") == "utf8"
        self.console = _Console(
            file=self.file,
            markup=False,
            highlight=False,
            emoji=False,
            width=width if width is not None else (None if self.is_terminal else 10_000),
        )
        self.width = width if width is not None else (self.console.width if self.is_terminal else None)

    @property
    def can_redraw(self) -> bool:
        """Whether a screen can be drawn in place."""
        return self.is_terminal and not self.console.is_dumb_terminal

    def line(self, text: Cell = "") -> None:
        self.console.print(self.plain(text), soft_wrap=True)

    def lines(self, texts: Iterable[Cell]) -> None:
        for text in texts:
            self.line(text)

    def plain(self, text: Cell) -> Text:
        """`text` with only such characters as the terminal can show."""
        made = text.copy() if isinstance(text, Text) else Text(text)
        if self.is_utf8:
            return made
        encoding = getattr(self.file, "encoding", None) or "ascii"
        result = Text()
        for part, style in _runs(made):
            result.append(part.translate(ASCII).encode(encoding, "backslashreplace").decode(encoding), style)
        return result


def _runs(text: Text) -> Iterable[tuple[str, str]]:
    """The pieces of `text`, each with the style of the last span that covers it."""
    edges = sorted({0, len(text), *(span.start for span in text.spans), *(span.end for span in text.spans)})
    for start, end in itertools.pairwise(edges):
        covering = [str(span.style) for span in text.spans if span.start <= start and span.end >= end]
        yield text.plain[start:end], covering[-1] if covering else str(text.style)


def safe(text: object) -> str:
    """`text` from elsewhere, with every character visible: controls, bidi marks and line breaks as escapes."""
    return "".join(_visible(character) for character in str(text))


def _visible(character: str) -> str:
    if character.isprintable() and unicodedata.category(character) not in {"Cf", "Co", "Cn", "Cs", "Zl", "Zp"}:
        return character
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def state(word: str) -> Text:
    """A state as glyph and word; only the glyph is coloured."""
    glyph, fill = STATES.get(word, ("–", "off"))
    return Text.assemble((glyph, STYLES[fill]), " ", safe(word))


def verdict(fill: str, sentence: str) -> Text:
    """The sentence that opens a listing."""
    glyph = {"ok": "●", "warn": "!", "bad": "✗", "off": "–"}[fill]
    return Text.assemble((glyph, f"bold {STYLES[fill]}"), " ", (sentence, "bold"))


def figure(value: float | None) -> str:
    """Three significant digits, thousands parted, unknown as a dash."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    if abs(value) >= 99.95:
        return f"{value:,.0f}"
    if abs(value) < 0.0005:
        return "<0.001" if value > 0 else ">-0.001"
    return f"{value:.3g}" if abs(value) >= 0.01 else f"{value:.3f}"


def ms(value_us: float | None) -> str:
    """A duration in µs, shown in ms."""
    return UNKNOWN if value_us is None else figure(value_us / 1_000)


def seconds(value_us: float | None) -> str:
    """A duration in µs, shown in seconds."""
    return UNKNOWN if value_us is None else figure(value_us / 1_000_000)


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, width: int | None = None, is_wide: bool = False
) -> list[Text]:
    """The lines of a table: a header, a line a row, and a footer if columns had to go. No width: the natural one."""
    offered = [index for index, column in enumerate(columns) if is_wide or not column.is_wide_only]
    widths = [
        max(cell_len(column.title), *(cell_len(_flat(row[index])) for row in rows), 0)
        for index, column in enumerate(columns)
    ]
    shown = offered if is_wide or width is None else _fit(columns, widths, offered, width)
    lines = [_line(columns, widths, shown, [column.title for column in columns], "bold")]
    lines += [_line(columns, widths, shown, row, "") for row in rows]
    if len(shown) < len(offered):
        gone = len(offered) - len(shown)
        lines.append(Text(f"+{gone} column{'s' if gone > 1 else ''}: --wide", style="dim"))
    return lines


def _fit(columns: Sequence[Column], widths: Sequence[int], offered: list[int], width: int) -> list[int]:
    """The columns that go first give way to the others; one that is too wide by itself does not take them along."""
    shown = [index for index in offered if not columns[index].drop]
    left = width - sum(widths[index] + 1 for index in shown) + 1
    for index in sorted(set(offered) - set(shown), key=lambda index: columns[index].drop):
        if widths[index] + 1 <= left:
            shown.append(index)
            left -= widths[index] + 1
    return sorted(shown)


def _line(
    columns: Sequence[Column], widths: Sequence[int], shown: Sequence[int], row: Sequence[Cell], style: str
) -> Text:
    line = Text(style=style)
    for place, index in enumerate(shown):
        cell = row[index]
        padding = " " * (widths[index] - cell_len(_flat(cell)))
        if place:
            line.append(" ")
        if columns[index].is_number:
            line.append(padding)
        line.append(cell)
        if not columns[index].is_number and place < len(shown) - 1:
            line.append(padding)
    return line


def _flat(cell: Cell) -> str:
    return cell.plain if isinstance(cell, Text) else cell


def is_debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get("SCALE0_DEBUG", "") not in {"", "0"}
