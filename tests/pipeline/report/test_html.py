"""HTML that cannot be forged."""

from __future__ import annotations

from scale0_pipeline.report.html import Html, el, join, table, text

EVIL = "<img src=x onerror=alert(1)>"


def test_text_and_attributes_are_escaped() -> None:
    assert EVIL not in el("p", EVIL)
    assert el("p", "a & b") == "<p>a &amp; b</p>"
    assert 'title="&quot; onload=&quot;x"' in el("p", title='" onload="x')


def test_what_was_made_here_is_not_escaped_again() -> None:
    assert el("p", el("b", "<"), Html("<i>")) == "<p><b>&lt;</b><i></p>"


def test_hidden_characters_are_spelt_out() -> None:
    assert text("a\u202eb\x00") == "a\\u202eb\\x00"


def test_attributes_without_a_value_are_left_out() -> None:
    assert el("p", class_="x", id=None, hidden=True, data_since=0) == '<p class="x" hidden data-since="0"></p>'


def test_a_joined_list_is_escaped_piece_by_piece() -> None:
    assert join(["<", el("b", "x"), None], " & ") == "&lt; &amp; <b>x</b>"


def test_a_table_escapes_heads_and_cells() -> None:
    made = table([EVIL, "n"], [[EVIL, "1"]])
    assert EVIL not in made
    assert made.count("<td") == 2
