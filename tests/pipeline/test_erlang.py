"""Erlang's formula against values that are known from elsewhere."""

from __future__ import annotations

import itertools

import pytest

from scale0_pipeline import erlang


def test_blocking_is_as_printed_in_erlangs_tables() -> None:
    # Erlang B: 10 lines at 4.461 erlangs lose one call in a hundred; 100 lines at 84.06 do.
    assert erlang.erlang_b(10, 4.461) == pytest.approx(0.01, rel=1e-3)
    assert erlang.erlang_b(100, 84.06) == pytest.approx(0.01, rel=2e-3)
    assert erlang.erlang_b(1, 1.0) == pytest.approx(0.5)


def test_waiting_is_as_in_the_textbook() -> None:
    # One slot: a task waits as often as the slot is busy. Two slots: a²/(2 + a), by hand.
    assert erlang.erlang_c(1, 0.3) == pytest.approx(0.3)
    assert erlang.erlang_c(2, 0.5) == pytest.approx(0.25 / 2.5)
    # The call centre of the books: 20 calls of 3 minutes within 30 minutes is 2 erlangs; three agents.
    assert erlang.erlang_c(3, 2.0) == pytest.approx(4 / 9)


def test_a_load_above_the_slots_waits_for_ever() -> None:
    assert erlang.erlang_c(4, 4.0) == 1.0
    assert erlang.waiting_longer(4, 5.0) == 1.0
    assert erlang.erlang_c(4, 0.0) == 0.0


@pytest.mark.parametrize("erlangs", [0.01, 0.3, 0.5, 2.0, 7.3, 40.0, 200.0, 480.0])
def test_slots_are_enough_and_one_less_is_not(erlangs: float) -> None:
    slots = erlang.slots_for(erlangs)
    assert erlang.waiting_longer(slots, erlangs) <= erlang.WAITING_SHARE
    assert slots == 1 or erlang.waiting_longer(slots - 1, erlangs) > erlang.WAITING_SHARE


def test_beyond_the_table_the_margin_is_enough() -> None:
    slots = erlang.slots_for(3000.5)
    assert 3000.5 < slots <= 3000.5 + erlang.MARGIN_MAX + 1
    assert erlang.waiting_longer(slots, 3000.5) <= erlang.WAITING_SHARE


def test_more_slots_carry_more() -> None:
    table = erlang.carried()
    assert len(table) == erlang.TABLE_SLOTS
    assert all(later > earlier for earlier, later in itertools.pairwise(table))
