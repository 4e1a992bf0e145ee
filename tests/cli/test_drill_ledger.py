"""The drill's books, with times that the tests choose."""

from __future__ import annotations

import math

import pytest

from scale0.cli.drill_ledger import PHASES, Entry, Ledger, Outcome
from scale0.core.open_tasks import GRACE_S

RATE = 10.0
TIMEOUT_S = 5.0


class Play:
    """A ledger whose tasks are entered whole: when sent, when and how settled."""

    def __init__(self, struck_s: float = 10.0) -> None:
        self.ledger = Ledger(RATE)
        self.ledger.strike(struck_s)
        self.number = 0

    def task(self, sent_s: float, settled_s: float = math.inf, outcome: Outcome | None = None, via: str = "a") -> None:
        self.number += 1
        self.ledger.send(self.number, sent_s, via, TIMEOUT_S)
        if settled_s < math.inf:
            self.ledger.settle(self.number, settled_s, outcome or Outcome(via="a"))

    def look(self, now: float) -> float | None:
        """When it recovered, as far as can be told now."""
        self.ledger.look(now)
        return self.ledger.recovered_s

    def steadily(self, begins_s: float, ends_s: float) -> None:
        """Tasks at the full rate, each replied to 0.05 s later."""
        for step in range(round((ends_s - begins_s) * RATE)):
            sent_s = begins_s + step / RATE
            self.task(sent_s, sent_s + 0.05)


def entry(outcome: Outcome | None, settled_s: float = 1.0, via: str = "a") -> Entry:
    return Entry(0.0, via, TIMEOUT_S, settled_s, outcome)


@pytest.mark.parametrize(
    ("kind", "outcome", "via"),
    [
        ("replied", Outcome(via="a"), "a"),
        ("replied", Outcome(via="a", worker="w", broker="a"), "a"),
        ("replied", Outcome(via="b"), ""),
        ("replied", Outcome(via=""), "a"),
        ("rerouted", Outcome(via="b"), "a"),
        ("rerouted", Outcome(via="a", broker="b"), "a"),
        ("retried", Outcome(via="a", attempt=2), "a"),
        ("retried", Outcome(via="b", attempt=2, broker="c"), "a"),
        ("wrong", Outcome(via="a", is_right=False), "a"),
        ("error 502", Outcome(502, 2, "b"), "a"),
        ("error 504", Outcome(504, via="a"), "a"),
    ],
)
def test_task_has_the_first_class_that_fits(kind: str, outcome: Outcome, via: str) -> None:
    assert entry(outcome, via=via).kind() == kind


def test_task_of_which_nobody_spoke_is_lost() -> None:
    assert entry(None, math.inf).kind() == "lost"
    by_the_client = TIMEOUT_S + GRACE_S
    assert entry(Outcome(504, via="a"), by_the_client).kind() == "lost", "the client gave up, no broker spoke"
    assert entry(Outcome(504, via="a"), TIMEOUT_S + 0.1).kind() == "error 504", "the broker's own word"
    assert entry(Outcome(via="a"), by_the_client).kind() == "replied", "a late reply is one all the same"


def test_tasks_are_counted_where_they_stand_to_the_fault() -> None:
    play = Play(struck_s=10.0)
    play.task(8.0, 9.0)
    play.task(9.0, 12.0, Outcome(via="a", attempt=2))
    play.task(9.5)
    play.task(11.0, 12.0, Outcome(502, via="a"))
    play.task(21.0, 21.5)
    play.ledger.recovered_s = 20.0
    assert play.ledger.table() == {
        "before": {"replied": 1},
        "in flight": {"lost": 1, "retried": 1},
        "during": {"error 502": 1},
        "after": {"replied": 1},
    }


def test_the_sum_of_all_classes_is_what_was_sent() -> None:
    play = Play()
    play.steadily(8.0, 14.0)
    play.task(9.99)
    play.ledger.look(14.0)
    assert sum(sum(kinds.values()) for kinds in play.ledger.table().values()) == play.number


def test_second_outcome_of_a_task_is_not_counted() -> None:
    play = Play()
    play.task(9.0, 9.5)
    play.ledger.settle(1, 11.0, Outcome(502))
    assert play.ledger.table()["before"] == {"replied": 1}
    assert not play.ledger.table()["in flight"]


def test_undisturbed_network_has_recovered_with_its_first_reply() -> None:
    play = Play(struck_s=10.0)
    play.steadily(8.0, 13.0)
    recovered_s = [play.look(10.0 + tick / 10) for tick in range(1, 30)][-1]
    assert recovered_s is not None
    assert 10.0 < recovered_s < 10.3


def test_recovery_waits_for_what_was_in_flight() -> None:
    play = Play(struck_s=10.0)
    play.task(9.9, 11.5, Outcome(via="a", attempt=2))
    play.steadily(10.0, 12.0)
    assert play.look(12.0) is None, "it was settled within the window"
    play.steadily(12.0, 13.0)
    recovered_s = play.look(13.0)
    assert recovered_s is not None
    assert recovered_s > 11.5


def test_recovery_needs_the_full_pace_and_no_long_waits() -> None:
    play = Play(struck_s=10.0)
    play.task(10.5, 12.5)
    assert play.look(13.0) is None, "one reply is not the pace that was asked for"
    play.steadily(13.0, 15.0)
    play.task(13.0)
    assert play.look(15.0) is None, "somebody waits far longer than usual"


def test_later_error_takes_recovery_back() -> None:
    play = Play(struck_s=10.0)
    play.steadily(10.0, 12.0)
    assert play.look(12.0) is not None
    play.task(12.0, 12.1, Outcome(502, via="a"))
    assert play.look(12.2) is None


def test_figures_are_of_the_time_since_the_fault() -> None:
    play = Play(struck_s=10.0)
    play.task(8.0, 9.0, Outcome(503))
    play.task(9.0, 11.0)
    play.task(10.5, 10.6, Outcome(502))
    play.task(9.9, 9.9 + TIMEOUT_S + GRACE_S, Outcome(504))
    figures = play.ledger.figures(20.0)
    assert (figures.settled, figures.errors, figures.lost) == (3, 1, 1)
    assert (figures.p50_s, figures.p99_s) == (2.0, 2.0)
    assert figures.unrecovered_s == 10.0
    assert play.ledger.first(is_good=False) == 10.6
    assert play.ledger.first(is_good=True) is None, "the one reply is to a task from before"


def test_latencies_are_those_of_good_replies_by_phase() -> None:
    play = Play(struck_s=10.0)
    play.task(8.0, 8.5)
    play.task(8.0, 9.0, Outcome(502))
    latencies = play.ledger.latencies()
    assert latencies["before"] == (0.5, 0.5)
    assert all(latencies[phase] == (None, None) for phase in PHASES[1:])


def test_waiting_ends_when_everything_is_settled() -> None:
    play = Play()
    play.task(1.0, 2.0)
    assert play.ledger.wait_until_settled(0.0)
    assert play.ledger.wait_until_replied(0.0)
    play.task(1.0)
    assert play.ledger.open == 1
    assert not play.ledger.wait_until_settled(0.0)
