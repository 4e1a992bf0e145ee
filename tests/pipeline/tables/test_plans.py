"""Plans are made from catalogue entries alone: every row is in one of them, and in one only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scale0.telemetry.catalogue import Entry, Position
from scale0_pipeline.tables.covered import Covered
from scale0_pipeline.tables.plans import WHOLE_EVERY, Plan, admit, make_plan, may_touch
from scale0_pipeline.units import DAY_US


def entry(
    broker: str, number: int, lo: int, hi: int, *, is_gap: bool = False, ts_us: tuple[int, int] = (0, 0)
) -> Entry:
    return Entry(
        number=number,
        broker=broker,
        boot="boot",
        path="" if is_gap else f"segments/{broker}/boot-{lo}-{hi}.parquet",
        seq_lo=lo,
        seq_hi=hi,
        rows=hi - lo + 1,
        tasks=0,
        bytes=100,
        ts_lo_us=ts_us[0],
        ts_hi_us=ts_us[1],
        sealed_us=number,
        gap=is_gap,
    )


def plan_of(entries: list[Entry], batch: int = 1, before: Plan | None = None, covered: Covered | None = None) -> Plan:
    position: Position = before.position if before is not None else {}
    return make_plan(
        entries,
        batch=batch,
        fence=1,
        now_us=1,
        position=position,
        covered=covered if covered is not None else Covered(),
    )


def rows_in(plan: Plan) -> list[tuple[str, int]]:
    rows = []
    for piece in plan.pieces:
        for lo, hi in piece.keep or [(piece.seq_lo, piece.seq_hi)]:
            rows += [(piece.broker, seq) for seq in range(lo, hi + 1)]
    return rows


segments = st.lists(
    st.tuples(st.sampled_from(["eu-1", "eu-2"]), st.integers(1, 40), st.integers(0, 10)), min_size=1, max_size=20
)


@given(segments, st.integers(1, 5))
def test_every_row_is_in_one_plan_however_segments_overlap(made: list[tuple[str, int, int]], size: int) -> None:
    numbers: dict[str, int] = {}
    entries = []
    for broker, lo, width in made:
        numbers[broker] = numbers.get(broker, 0) + 1
        entries.append(entry(broker, numbers[broker], lo, lo + width))
    covered, before, rows = Covered(), None, []
    for batch, start in enumerate(range(0, len(entries), size), 1):
        before = plan_of(entries[start : start + size], batch, before, covered)
        covered.update(before.covered)
        rows += rows_in(before)
    assert before is not None
    assert before.position == numbers
    assert sorted(rows) == sorted({(broker, seq) for broker, lo, width in made for seq in range(lo, lo + width + 1)})


def test_an_entry_that_was_used_is_not_used_again() -> None:
    first = plan_of([entry("eu-1", 1, 1, 10)])
    again = plan_of([entry("eu-1", 1, 1, 10), entry("eu-1", 2, 11, 20)], 2, first, Covered(first.covered))
    assert [piece.seq_lo for piece in again.pieces] == [11]


def test_a_segment_that_overlaps_is_cut_to_what_is_new() -> None:
    first = plan_of([entry("eu-1", 1, 1, 10)])
    second = plan_of([entry("eu-1", 2, 5, 20)], 2, first, Covered(first.covered))
    assert [piece.keep for piece in second.pieces] == [[(11, 20)]]


def test_a_gap_is_told_and_covers_nothing() -> None:
    plan = plan_of([entry("eu-1", 1, 1, 10, is_gap=True), entry("eu-1", 2, 1, 10)])
    assert [(piece.path == "", piece.keep) for piece in plan.pieces] == [(True, []), (False, [])]


def test_a_segment_that_was_deleted_before_it_was_read_may_come_again() -> None:
    entries = [entry("eu-1", 1, 1, 10)]
    plan = make_plan(entries, batch=1, fence=1, now_us=1, position={}, covered=Covered(), is_there=lambda one: False)
    assert (plan.pieces, plan.covered, plan.position) == ([], {}, {"eu-1": 1})


def test_each_64th_plan_tells_of_all_boots() -> None:
    known = Covered({"eu-9": {"old": [(1, 5)]}})
    some = plan_of([entry("eu-1", 1, 1, 10)], WHOLE_EVERY - 1, covered=known)
    whole = plan_of([entry("eu-1", 1, 1, 10)], WHOLE_EVERY, covered=known)
    assert (sorted(some.covered), some.is_whole) == (["eu-1"], False)
    assert (sorted(whole.covered), whole.is_whole) == (["eu-1", "eu-9"], True)


def test_a_batch_takes_as_much_as_it_may_and_at_least_one_segment() -> None:
    entries = [entry("eu-1", number, number, number) for number in range(1, 10)]
    assert len(admit(entries, bytes_max=350)) == 3
    assert len(admit(entries, segments_max=2)) == 2
    assert len(admit(entries, bytes_max=1)) == 1


def test_a_piece_touches_its_own_days_and_if_it_is_ahead_the_day_it_landed() -> None:
    tomorrow = entry("eu-1", 1, 1, 10, ts_us=(DAY_US + 5, DAY_US + 9))
    plan = make_plan([tomorrow], batch=1, fence=1, now_us=100, position={}, covered=Covered())
    (piece,) = plan.pieces
    assert may_touch(plan, piece, DAY_US)
    assert may_touch(plan, piece, 0), "its rows claim to be from the future, and may be filed under today"
    assert not may_touch(plan, piece, 2 * DAY_US)
