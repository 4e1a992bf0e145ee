"""What reaches the terminal: safe text, figures, tables that fit."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from scale0.cli import render
from scale0.cli.render import Column, Page


def shown(text: str | Text, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    Page(file).line(text)
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("foreign", "visible"),
    [
        ("render", "render"),
        ("naïve Ω", "naïve Ω"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("\u202egnp", "\\u202egnp"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x9b31m", "\\x9b31m"),
        ("tag\U000e0041", "tag\\U000e0041"),
        (42, "42"),
    ],
)
def test_foreign_text_is_made_visible(foreign: object, visible: str) -> None:
    assert render.safe(foreign) == visible


def test_markup_is_shown_and_not_obeyed() -> None:
    assert shown(render.safe("[red]w-1[/red] :smile:")) == "[red]w-1[/red] :smile:\n"


def test_long_lines_are_not_wrapped_without_a_terminal() -> None:
    assert shown("word " * 100) == "word " * 100 + "\n"


def test_glyphs_become_ascii_where_utf8_is_missing() -> None:
    assert shown(render.state("no worker"), "ascii") == "x no worker\n"
    assert shown(render.verdict("ok", "naïve – fine"), "ascii") == "* na\\xefve - fine\n"


def test_colour_is_forced_and_forbidden_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(render.state("gone")) == "✗ gone\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[31m✗\x1b[0m gone" in shown(render.state("gone"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in shown(render.state("gone"))


def test_the_word_of_a_state_keeps_the_body_colour() -> None:
    [span] = render.state("ready").spans
    assert (span.start, span.end) == (0, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (1204.2, "1,204"), (41.0, "41"), (8.2, "8.2"), (0.0341, "0.0341"), (99.96, "100")],
)
def test_figures_have_three_significant_digits(value: float | None, text: str) -> None:
    assert render.figure(value) == text


def test_tiny_figures_are_not_shown_as_zero() -> None:
    assert render.figure(0.0001) == "<0.001"
    assert render.figure(0.002) == "0.002"


COLUMNS = (
    Column("NAME"),
    Column("COUNT", is_number=True),
    Column("NICE TO HAVE", drop=2),
    Column("LESS", drop=1),
    Column("EXTRA", is_wide_only=True),
)
ROWS = [("a", "1", "x", "y", "z"), ("longer", "1,000", "x", "y", "z")]


def lines(**options: object) -> list[str]:
    return [line.plain for line in render.table(COLUMNS, ROWS, **options)]  # type: ignore[arg-type]


def test_numbers_stand_right_and_words_left() -> None:
    assert lines() == [
        "NAME   COUNT NICE TO HAVE LESS",
        "a          1 x            y",
        "longer 1,000 x            y",
    ]


def test_columns_go_in_their_order_when_it_gets_narrow() -> None:
    assert lines(width=20) == ["NAME   COUNT LESS", "a          1 y", "longer 1,000 y", "+1 column: --wide"]
    assert lines(width=14)[-1] == "+2 columns: --wide"
    assert lines(width=3)[0] == "NAME   COUNT"


def test_a_column_that_is_too_wide_does_not_take_narrow_ones_along() -> None:
    columns = (Column("NAME"), Column("SERVICES", drop=1), Column("COUNT", drop=2))
    shown = [line.plain for line in render.table(columns, [("a", "one two three four five", "7")], width=20)]
    assert shown == ["NAME COUNT", "a    7", "+1 column: --wide"]


def test_wide_shows_every_column_whatever_the_width() -> None:
    assert lines(width=10, is_wide=True)[0] == "NAME   COUNT NICE TO HAVE LESS EXTRA"


def test_a_table_without_rows_has_its_header() -> None:
    assert [line.plain for line in render.table(COLUMNS[:2], [])] == ["NAME COUNT"]
