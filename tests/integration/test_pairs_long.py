"""Two hundred fail-overs in a row, each real: kill -9 of whoever serves, under load, and back to a whole pair.

What is measured is how long nobody was served: from the kill to the first reply to a task that was submitted after it,
of the service that had to wait longer. The figures are printed; a busy machine makes them worse, so only a bound that
it cannot reach is asserted.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.integration.load import DOUBLE, PAY
from tests.integration.mixed_load import COUNT, MixedLoad
from tests.integration.networks import until
from tests.integration.pairs import INTERVAL_S, PairNetwork, pair_under_load

FAILOVERS = 200
INTERVALS_MAX = 100.0  # far beyond what a fail-over takes


def fail_over(brokers: PairNetwork, load: MixedLoad) -> float:
    """Kill whoever serves, wait until all are served by the other, and start it again: for how many intervals none was.

    The next one begins when the pair is whole.
    """
    victim = brokers.serving()
    watched = [load.books[name] for name in (DOUBLE, PAY)]
    killed_s = time.monotonic()
    victim.kill()
    for books in watched:
        books.mark()
    until(lambda: all(books.first_reply_s for books in watched), f"{brokers.other(victim).identity} serves")
    load.await_replies(4)
    victim.start()
    brokers.await_whole()
    return (max(books.first_reply_s for books in watched) - killed_s) / INTERVAL_S


def told(taken: list[float]) -> str:
    ordered = sorted(taken)
    p50, p99 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    return f"{len(taken)} fail-overs, in heartbeat intervals: p50 {p50:.2f}, p99 {p99:.2f}, max {ordered[-1]:.2f}"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_fail_overs_in_a_row_lose_nothing_and_double_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pair_under_load(tmp_path) as (brokers, load):
        taken = [fail_over(brokers, load) for _ in range(FAILOVERS)]
        load.check(COUNT)
    with capsys.disabled():
        print(f"\n{told(taken)}")
        print("\n".join(f"{name}: {books}" for name, books in load.books.items()))
    assert max(taken) < INTERVALS_MAX
