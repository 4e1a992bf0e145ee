"""What can be said to a drill: durations, rates, conditions."""

from __future__ import annotations

import pytest

from scale0.cli import drill_words as words
from scale0.cli.drill_words import Figures
from scale0.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"), [("10", 10.0), ("10s", 10.0), ("500ms", 0.5), ("2m", 120.0), (" 1.5s ", 1.5)]
)
def test_duration_is_read_with_its_unit(text: str, value: float) -> None:
    assert words.seconds(text) == value


@pytest.mark.parametrize(("text", "value"), [("200/s", 200.0), ("5", 5.0), ("600/m", 10.0)])
def test_rate_is_read_with_its_unit(text: str, value: float) -> None:
    assert words.per_second(text) == value


@pytest.mark.parametrize("text", ["", "soon", "-1s", "10h", "1 s"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="looks like 10s"):
        words.seconds(text)


@pytest.mark.parametrize("text", ["", "0/s", "fast", "10/h"])
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="200/s"):
        words.per_second(text)


@pytest.mark.parametrize(
    "text", ["", "errors", "errors>", "errors<5%", "p90>1s", "lost>many", "p99>5%", "recovery>fast"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        words.condition(text)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("errors>5%", Figures(settled=100, errors=6)),
        ("errors >= 5%", Figures(settled=100, errors=5)),
        ("errors>3", Figures(settled=4, errors=4)),
        ("lost>0", Figures(lost=1)),
        ("lost>=1", Figures(lost=1)),
        ("p50>100ms", Figures(p50_s=0.2)),
        ("p99>2s", Figures(p99_s=2.5)),
        ("recovery>20s", Figures(unrecovered_s=21.0)),
    ],
)
def test_condition_is_met_beyond_its_threshold(text: str, figures: Figures) -> None:
    assert words.condition(text).is_met(figures)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("errors>5%", Figures(settled=100, errors=5)),
        ("errors>3", Figures(settled=10, errors=3)),
        ("lost>0", Figures()),
        ("p99>2s", Figures(p99_s=2.0)),
        ("p99>2s", Figures()),
        ("recovery>20s", Figures(unrecovered_s=20.0)),
    ],
)
def test_condition_is_not_met_at_its_threshold_or_without_a_figure(text: str, figures: Figures) -> None:
    assert not words.condition(text).is_met(figures)


def test_share_of_a_few_tasks_says_nothing() -> None:
    few, enough = words.SHARE_TASKS_MIN - 1, words.SHARE_TASKS_MIN
    assert not words.condition("errors>5%").is_met(Figures(settled=few, errors=few))
    assert words.condition("errors>5%").is_met(Figures(settled=enough, errors=enough))
