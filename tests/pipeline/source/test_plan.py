"""Which segments are read, and by how many tasks; and how far a micro-batch goes."""

from __future__ import annotations

import msgspec
import pytest

from scale0.telemetry.catalogue import Entry
from scale0_pipeline.source.plan import PART_BYTES, PART_SEGMENTS, Slice, Span, advance, parts, slices


def entry(number: int, lo: int, hi: int, *, broker: str = "eu-1", size: int = 100) -> Entry:
    return Entry(
        number=number,
        broker=broker,
        boot="boot",
        path=f"{broker}/{lo}-{hi}",
        seq_lo=lo,
        seq_hi=hi,
        rows=hi - lo + 1,
        tasks=0,
        bytes=size,
        ts_lo_us=lo * 10,
        ts_hi_us=hi * 10,
        sealed_us=number,
    )


def read(*entries: Entry, span: Span | None = None) -> list[Slice]:
    return [one for one, _ in slices(entries, span or Span())]


def test_rows_that_came_twice_are_read_once() -> None:
    assert read(entry(1, 1, 100), entry(2, 51, 150), entry(3, 60, 90), entry(4, 151, 200)) == [
        Slice("eu-1/1-100"),
        Slice("eu-1/51-150", ((101, 150),)),
        Slice("eu-1/151-200"),
    ]


def test_the_same_numbers_of_another_broker_are_other_rows() -> None:
    assert len(read(entry(1, 1, 100), entry(1, 1, 100, broker="us-1"))) == 2


def test_a_gap_has_no_file() -> None:
    assert read(msgspec.structs.replace(entry(1, 1, 100), gap=True, path="")) == []


@pytest.mark.parametrize(
    ("lo_us", "hi_us", "files"),
    [(None, None, 3), (1_001, None, 2), (1_000, None, 3), (None, 1_000, 1), (None, 1_010, 2), (5_000, None, 0)],
)
def test_segments_outside_the_time_are_not_opened(lo_us: int | None, hi_us: int | None, files: int) -> None:
    entries = entry(1, 1, 100), entry(2, 101, 200), entry(3, 201, 300)
    assert len(read(*entries, span=Span(lo_us, hi_us))) == files


def test_spans_are_cut_to_what_both_hold() -> None:
    assert Span(1, 9).cut(3, 20) == Span(3, 9)
    assert Span().cut(lo_us=3) == Span(3, None)
    assert Span(5, None).cut(hi_us=2) == Span(5, 2)


def test_small_segments_share_a_task_and_large_ones_have_their_own() -> None:
    small = [(Slice(f"small-{number}"), PART_BYTES // 4) for number in range(6)]
    large = [(Slice("large"), PART_BYTES * 3)]
    assert [len(part) for part in parts(small + large)] == [4, 2, 1]
    tiny = [(Slice(f"tiny-{number}"), 1) for number in range(PART_SEGMENTS + 1)]
    assert [len(part) for part in parts(tiny)] == [PART_SEGMENTS, 1]
    assert parts([]) == []


def test_a_batch_ends_at_its_limit_and_takes_one_segment_at_least() -> None:
    entries = [entry(1, 1, 100), entry(1, 1, 50, broker="us-1"), entry(2, 101, 200)]
    assert advance({}, entries) == {"eu-1": 2, "us-1": 1}
    assert advance({}, entries, segments_max=2) == {"eu-1": 1, "us-1": 1}
    assert advance({}, entries, rows_max=160) == {"eu-1": 1, "us-1": 1}
    assert advance({}, entries, rows_max=1) == {"eu-1": 1}
    assert advance({}, entries, bytes_max=250) == {"eu-1": 1, "us-1": 1}
    assert advance({"eu-1": 7}, []) == {"eu-1": 7}
