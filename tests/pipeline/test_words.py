"""Figures, times and names as readers see them."""

from __future__ import annotations

import pytest

from scale0_pipeline import words
from scale0_pipeline.units import DAY_US


def test_hidden_and_moving_characters_are_spelt_out() -> None:
    assert words.visible("a\x1b[2Jb") == "a\\x1b[2Jb"
    assert words.visible("safe\u202etxt") == "safe\\u202etxt"
    assert words.visible("two\nlines") == "two\\x0alines"
    assert words.visible("größe 東京") == "größe 東京"


def test_a_long_name_keeps_both_ends() -> None:
    shown = words.name("a" * 100 + "z" * 100)
    assert len(shown) <= words.NAME_CHARACTERS_MAX
    assert shown.startswith("aaa")
    assert shown.endswith("zzz")
    assert words.name(None) == words.UNKNOWN


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "–"),
        (0, "0 µs"),
        (812, "812 µs"),
        (8_214, "8.21 ms"),
        (999_800, "1 s"),
        (41_000_000, "41 s"),
        (840_000_000, "14 min"),
        (9_000_000_000, "2.5 h"),
        (3 * DAY_US, "3 d"),
    ],
)
def test_a_duration_has_the_unit_that_fits_it(us: float | None, text: str) -> None:
    assert words.duration(us) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "–"), (0.0, "0 %"), (1.0, "100 %"), (0.9998, "99.98 %"), (0.999999, "99.9999 %"), (0.123, "12.3 %")],
)
def test_a_share_near_all_keeps_the_digits_that_matter(share: float | None, text: str) -> None:
    assert words.percent(share) == text


def test_figures_have_three_digits_and_unknown_is_a_dash() -> None:
    shown = [words.figure(value) for value in (None, 0, 1234.5, 12.34, 1.234, 0.1234, 0.0001)]
    assert shown == ["–", "0", "1,234", "12.3", "1.23", "0.123", "<0.001"]


def test_lists_are_cut_with_a_number() -> None:
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_counts_sizes_and_signs_read_well() -> None:
    assert words.count(1_234_567) == "1.23 M"
    assert words.size(2_500_000) == "2.5 MB"
    assert words.signed("-3", -3) == "−3"
    assert words.plural(1, "task") == "1 task"
    assert words.plural(2, "task") == "2 tasks"
