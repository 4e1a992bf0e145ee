"""One cell: what the core does with recorded tasks, against a queue that is computed without it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from scale0.core import admission
from scale0_pipeline import erlang
from scale0_pipeline.whatif import policies
from scale0_pipeline.whatif.cells import Cell
from scale0_pipeline.whatif.recorded import Recorded
from scale0_pipeline.whatif.replay import _Replay, replay
from tests.pipeline.whatif.recordings import equal_workers_fifo, poisson, recorded


def _without_short_cut(load: Recorded, workers: int) -> Cell:
    run = _Replay(load, workers, 1, "lru", 60.0)
    run.through()
    return run.cell()


def test_a_replay_is_the_queue_before_equal_workers() -> None:
    load = poisson(3_000, 4.0, clients=1)
    for workers in (4, 5, 7):
        expected_us = equal_workers_fifo(load.came_s, load.work_s, workers) * 1e6
        cell = replay(load, workers)
        assert cell.tasks == 3_000
        assert cell.p50_us == pytest.approx(np.quantile(expected_us, 0.5, method="inverted_cdf"), abs=0.6)
        assert cell.p99_us == pytest.approx(np.quantile(expected_us, 0.99, method="inverted_cdf"), abs=0.6)
        assert (cell.late, cell.refused, cell.is_cut) == (0, 0, False)


def test_slots_of_one_worker_are_as_good_as_workers() -> None:
    load = poisson(2_000, 4.0)
    assert replay(load, 2, slots=3).p99_us == pytest.approx(replay(load, 6).p99_us)


def test_where_none_can_wait_the_short_cut_is_exact() -> None:
    load = poisson(2_000, 3.0)
    short, long = replay(load, load.about.peak), _without_short_cut(load, load.about.peak)
    assert (short.is_replayed, long.is_replayed) == (False, True)
    assert long.waited == 0
    assert [short.p50_us, short.p99_us] == pytest.approx([long.p50_us, long.p99_us])
    assert short.utilisation == pytest.approx(long.utilisation, rel=0.01)
    assert replay(load, load.about.peak - 1).waited > 0


@pytest.mark.parametrize(("erlangs", "slots"), [(4.0, 1), (12.0, 1), (12.0, 3)])
def test_calm_times_that_are_passed_over_change_nothing(erlangs: float, slots: int) -> None:
    load = poisson(2_000, erlangs, seed=5)
    for workers in range(max(2, int(erlangs * 0.9) // slots), load.about.peak // slots):
        whole, short = _Replay(load, workers, slots, "lru", 2.0), replay(load, workers, slots, timeout_s=2.0)
        whole.through()
        assert short.utilisation == pytest.approx(whole.cell().utilisation)
        assert msgspec.structs.replace(short, utilisation=0.0) == msgspec.structs.replace(whole.cell(), utilisation=0.0)


def test_with_room_for_most_only_few_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    load = poisson(20_000, 4.0)
    offered = 0
    submit = admission.submit

    def counting(*arguments: Any) -> None:
        nonlocal offered
        offered += 1
        submit(*arguments)

    monkeypatch.setattr(admission, "submit", counting)
    assert replay(load, load.about.peak - 2).is_replayed
    assert 0 < offered < 4_000


def test_tasks_without_work_and_at_one_time_are_no_exception() -> None:
    came = np.repeat(np.arange(400) * 0.125, 5)  # these add up exactly
    load = recorded(came, np.tile([0.0, 0.375, 0.0, 0.0625, 0.0], 400), np.tile(np.arange(5), 400))
    for workers in (4, 5, 6):
        assert replay(load, workers).p99_us == _without_short_cut(load, workers).p99_us
        assert replay(load, workers).waited == _without_short_cut(load, workers).waited


def test_clients_take_turns_as_in_the_product() -> None:
    """One client's crowd does not stand before another's only task: that is the core's queue, not a plain one."""
    came = np.array([0.0] * 101 + [0.01])
    who = np.array([0] * 101 + [1])
    load = recorded(came, np.full(102, 1.0), who)
    run = _Replay(load, 1, 1, "lru", 600.0)
    run.through()
    assert run.sent_s[101] < 3.0
    assert max(run.sent_s) == pytest.approx(101.0)


def test_tasks_that_wait_too_long_are_late() -> None:
    load = recorded(np.zeros(10), np.full(10, 1.0))
    cell = replay(load, 1, timeout_s=4.5)
    # Four are done by then; the fifth is under way and too late, and so are all that wait.
    assert (cell.tasks, cell.late) == (10, 6)
    assert cell.p99_us == pytest.approx(4.5e6, rel=0.01)
    assert not cell.is_good


def test_a_hopeless_cell_ends_early_and_says_so() -> None:
    load = poisson(5_000, 10.0, work_s=1.0)
    cell = replay(load, 2, timeout_s=5.0)
    assert cell.is_cut
    assert cell.tasks < 5_000
    assert cell.late > 250
    assert cell.utilisation > 0.9


@pytest.mark.parametrize("erlangs", [0.8, 6.0])
def test_advice_on_capacity_holds_in_a_replay(erlangs: float) -> None:
    load = poisson(10_000, erlangs, seed=3)
    slots = erlang.slots_for(erlangs)

    def waiting(workers: int) -> float:
        run = _Replay(load, workers, 1, "lru", 60.0)
        run.through()
        waited_s = np.array(run.sent_s) - load.came_s
        return float((waited_s > erlang.WAIT_OF_WORK * 0.1).mean())

    enough = waiting(slots)
    assert enough <= erlang.WAITING_SHARE * 1.3
    assert enough == pytest.approx(erlang.waiting_longer(slots, erlangs), abs=0.015)
    assert waiting(slots - 1) > erlang.WAITING_SHARE


def test_among_equal_workers_a_policy_changes_no_latency() -> None:
    load = poisson(1_500, 4.0)
    expected = replay(load, 6)
    for policy in policies.POLICIES:
        cell = replay(load, 6, policy=policy)
        assert [cell.p50_us, cell.p99_us] == pytest.approx([expected.p50_us, expected.p99_us]), policy


def test_among_unlike_workers_a_policy_matters() -> None:
    base = poisson(2_000, 2.0)
    load = recorded(base.came_s, base.work_s, speeds=(0.2, 0.4, 2.0, 3.0, 4.0))
    found = {policy: replay(load, 10, policy=policy).p50_us for policy in policies.POLICIES}
    assert found["random"] != found["lru"]
    assert found["most_recent"] != found["lru"]
    assert found["lru"] == replay(load, 10, policy="lru").p50_us


def test_an_unknown_policy_names_those_there_are() -> None:
    with pytest.raises(Exception, match="round_robin"):
        replay(poisson(100, 2.0), 1, policy="best")
