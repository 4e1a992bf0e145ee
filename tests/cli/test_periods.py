"""Times and amounts as people type them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from scale0.cli import periods
from scale0.errors import UsageError

NOW_US = 1_772_323_200_000_000  # 2026-03-01, midnight UTC


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("24h", 86_400), ("7d", 604_800), ("1.5h", 5400), ("2w", 1_209_600)]
)
def test_so_long_ago_counts_back_from_now(text: str, seconds: int) -> None:
    assert periods.instant_us(text, NOW_US) == NOW_US - seconds * 1_000_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T14:30", datetime(2026, 3, 1, 14, 30, tzinfo=UTC)),
        ("2026-03-01T14:30+02:00", datetime(2026, 3, 1, 12, 30, tzinfo=UTC)),
    ],
)
def test_date_is_utc_unless_it_says_otherwise(text: str, told: datetime) -> None:
    assert periods.instant_us(text, NOW_US) == told.timestamp() * 1e6


@pytest.mark.parametrize("text", ["yesterday", "24", "h", "2026-13-01", ""])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="24h"):
        periods.instant_us(text, NOW_US)


def test_day_is_a_date() -> None:
    assert periods.day("2026-03-01") == date(2026, 3, 1)
    with pytest.raises(UsageError, match="2026-03-01"):
        periods.day("1 March")


@pytest.mark.parametrize(
    ("text", "events"),
    [("50000", 50_000), ("200k", 200_000), ("10M", 10_000_000), ("1.5m", 1_500_000), ("1_000", 1000)],
)
def test_amount_may_have_a_size(text: str, events: int) -> None:
    assert periods.amount(text) == events


@pytest.mark.parametrize("text", ["many", "10T", "-5", ""])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="10M"):
        periods.amount(text)


@pytest.mark.parametrize(
    ("text", "counts"),
    [("2..5", [2, 3, 4, 5]), ("2..10..4", [2, 6, 10]), ("1,2,4", [1, 2, 4]), ("8", [8]), ("1,4..6", [1, 4, 5, 6])],
)
def test_counts_are_ranges_or_lists(text: str, counts: list[int]) -> None:
    assert periods.counts(text) == counts


@pytest.mark.parametrize("text", ["", "5..2", "a..b", "1..99999"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        periods.counts(text)
