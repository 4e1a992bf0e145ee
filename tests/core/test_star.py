"""The binary star's table, cell by cell; and what follows from it when two brokers hear one another."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.core.star import TABLE, Event, Star, Verdict, decide, event_of, next_epoch

CELLS = """
                     PRIMARY  BACKUP  ACTIVE     PASSIVE         DOUBTFUL   YIELDING
PEER_PRIMARY         SERVE    STAY    STAY       SERVE           RESUME     SERVE
PEER_PRIMARY_AHEAD   STAY     STAY    STAY       SERVE           SERVE      SERVE
PEER_BACKUP          SERVE    STAY    STAY       SERVE           RESUME     SERVE
PEER_ACTIVE          FOLLOW   FOLLOW  STAY       STAY            RESUME     FOLLOW
PEER_ACTIVE_AHEAD    FOLLOW   FOLLOW  STEP_DOWN  STAY            STEP_DOWN  FOLLOW
PEER_PASSIVE         STAY     STAY    STAY       PRIMARY_SERVES  RESUME     STAY
PEER_DOUBTFUL        STAY     STAY    STAY       STAY            RESUME     STAY
PEER_DOUBTFUL_AHEAD  STAY     STAY    STAY       STAY            STAY       STAY
PEER_YIELDING        STAY     STAY    STAY       SERVE           SERVE      STAY
ASKED                SERVE    STAY    STAY       SERVE           SERVE      SERVE
"""
HEAD, *ROWS = [line.split() for line in CELLS.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_cell_of_the_table_is_as_it_is_drawn(row: list[str]) -> None:
    event, *verdicts = row
    for star, verdict in zip(HEAD, verdicts, strict=True):
        assert decide(Star[star], Event[event]) is Verdict[verdict], (star, event)


def test_the_drawing_has_every_state_and_every_event() -> None:
    assert [star.name for star in Star] == HEAD
    assert [row[0] for row in ROWS] == [event.name for event in Event]
    assert len(TABLE) == sum(verdict != "STAY" for row in ROWS for verdict in row[1:])


def test_nothing_but_a_higher_epoch_moves_one_that_serves() -> None:
    assert [event for event in Event if decide(Star.ACTIVE, event) is not Verdict.STAY] == [Event.PEER_ACTIVE_AHEAD]


def test_backup_that_has_just_started_serves_nobody_whatever_happens() -> None:
    assert {decide(Star.BACKUP, event) for event in Event} == {Verdict.STAY, Verdict.FOLLOW}


@pytest.mark.parametrize("star", Star)
def test_word_of_the_other_is_an_event_and_its_epoch_matters_only_if_it_served(star: Star) -> None:
    behind, ahead = event_of(star, is_ahead=False), event_of(star, is_ahead=True)
    assert behind.name == f"PEER_{star.name}"
    assert ahead.name == (f"{behind.name}_AHEAD" if f"{behind.name}_AHEAD" in Event.__members__ else behind.name)


# --- epochs ---------------------------------------------------------------------------------------------------------


@given(seen=st.integers(0, 2**62), is_primary=st.booleans())
def test_epochs_rise_and_those_of_a_primary_are_odd_and_those_of_a_fallback_even(seen: int, is_primary: bool) -> None:
    epoch = next_epoch(seen, is_primary=is_primary)
    assert seen < epoch <= seen + 2
    assert (epoch % 2 == 1) == is_primary


@given(one=st.integers(0, 2**62), other=st.integers(0, 2**62))
def test_the_two_never_open_the_same_epoch_whatever_they_have_missed(one: int, other: int) -> None:
    assert next_epoch(one, is_primary=True) != next_epoch(other, is_primary=False)


# --- two that hear one another ---------------------------------------------------------------------------------------


class Half:
    """One of two, as far as the table goes."""

    def __init__(self, star: Star, epoch: int, *, is_primary: bool) -> None:
        self.star = star
        self.epoch = epoch
        self.is_primary = is_primary

    def hear(self, other: Half) -> None:
        is_ahead = (other.epoch, other.is_primary) > (self.epoch, self.is_primary)
        verdict = decide(self.star, event_of(other.star, is_ahead=is_ahead))
        if verdict is Verdict.SERVE or (verdict is Verdict.PRIMARY_SERVES and self.is_primary):
            self.star = Star.ACTIVE
            self.epoch = next_epoch(max(self.epoch, other.epoch), is_primary=self.is_primary)
        elif verdict is Verdict.RESUME:
            self.star = Star.ACTIVE
        elif verdict in (Verdict.FOLLOW, Verdict.STEP_DOWN):
            self.star = Star.PASSIVE


# One that yields knows that the other follows, and a fallback alone starts as a backup: these two do not come about.
NOBODY_SERVES = [(Star.BACKUP, Star.BACKUP), (Star.YIELDING, Star.YIELDING)]


@pytest.mark.parametrize(("one", "other"), list(product(Star, Star)), ids=lambda star: star.name)
@pytest.mark.parametrize(("epoch", "other_epoch"), [(1, 2), (3, 2)])
@pytest.mark.parametrize("fallback_hears_first", [True, False])
def test_of_two_that_hear_one_another_one_serves_and_the_other_follows(
    one: Star, other: Star, epoch: int, other_epoch: int, fallback_hears_first: bool
) -> None:
    primary, fallback = Half(one, epoch, is_primary=True), Half(other, other_epoch, is_primary=False)
    pair = [fallback, primary] if fallback_hears_first else [primary, fallback]
    for _ in range(4):
        pair[0].hear(pair[1])
        pair[1].hear(pair[0])
    stars = {primary.star, fallback.star}
    if (one, other) in NOBODY_SERVES:
        assert stars == {one}
    else:
        assert stars == {Star.ACTIVE, Star.PASSIVE}
