"""Options are text, and what they may not be is told with what they may."""

from __future__ import annotations

import pytest

from scale0_pipeline.errors import PipelineError
from scale0_pipeline.source import options

DAY_US = 1_772_323_200_000_000


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("2026-03-01", DAY_US),
        ("2026-03-01T00:00:00Z", DAY_US),
        ("2026-03-01T01:00:00+01:00", DAY_US),
        ("2026-03-01 00:00:01", DAY_US + 1_000_000),
        ("1772323200000000", DAY_US),
        ("", None),
    ],
)
def test_a_time_is_a_day_a_moment_or_a_number_and_utc_if_it_does_not_say(text: str, time_us: int | None) -> None:
    assert options.time_us({"since": text}, "since") == time_us


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "12:00"])
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(PipelineError, match="no time") as raised:
        options.time_us({"until": text}, "until")
    assert "2026-03-01" in raised.value.cure


def test_a_misspelt_option_is_refused_and_the_others_are_listed() -> None:
    options.check({"PATH": "x", "Since": "y"}, options.READING)
    with pytest.raises(PipelineError, match="'sinse'") as raised:
        options.check({"sinse": "2026-03-01"}, options.READING)
    assert "since: only events" in raised.value.cure


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_count_is_a_whole_number_above_zero(text: str) -> None:
    assert options.whole({"in_flight": "7"}, "in_flight", 64) == 7
    assert options.whole({}, "in_flight", 64) == 64
    with pytest.raises(PipelineError, match="in_flight"):
        options.whole({"in_flight": text}, "in_flight", 64)


def test_a_timeout_is_above_zero_and_a_choice_is_one_of_its_words() -> None:
    assert options.seconds({"timeout": "0.5"}, "timeout", 60) == 0.5
    with pytest.raises(PipelineError, match="seconds"):
        options.seconds({"timeout": "soon"}, "timeout", 60)
    assert options.choice({"errors": "IGNORE"}, "errors", "fail", "ignore") == "ignore"
    assert options.choice({}, "errors", "fail", "ignore") == "fail"
    with pytest.raises(PipelineError, match="fail or ignore"):
        options.choice({"errors": "maybe"}, "errors", "fail", "ignore")


def test_an_option_that_must_be_there_is_asked_for_with_an_example() -> None:
    with pytest.raises(PipelineError, match="needs the option 'service'") as raised:
        options.need({}, "service", "resize")
    assert raised.value.cure == 'say: .option("service", "resize")'
