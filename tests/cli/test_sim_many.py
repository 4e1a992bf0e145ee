"""Many seeds: how far it is, in words; and the line that says so, in a terminal and without one."""

from __future__ import annotations

import io
import time

import pytest

from scale0.cli import sim_progress
from scale0.cli.render import Page
from scale0.cli.sim_many import Done, Wanted, clock, how_far, run
from scale0.cli.sim_progress import Progress
from scale0.errors import UsageError
from scale0.simulator.profiles import NETWORKS
from scale0.simulator.run import Sum
from scale0.simulator.scenario import Scenario, read_seeds


def wanted(seeds: str, time_s: float | None = None, **changes: object) -> Wanted:
    return Wanted(read_seeds(seeds), Scenario(0, 50, **changes), time_s, jobs=1)  # type: ignore[arg-type]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_the_line_tells_seeds_speed_faults_violations_and_what_is_left() -> None:
    done = Done(Sum(seeds=10, steps=5000, faults=1), took_s=2.0, jobs=2)
    assert how_far(wanted("0..40"), done) == "10 of 40 seeds · 2,500 steps/s · 1 fault · 0 violations · 0:06 left"
    assert how_far(wanted("0..", 62.0), done).endswith("10 seeds · 2,500 steps/s · 1 fault · 0 violations · 1:00 left")
    assert how_far(wanted("0.."), done).endswith("until Ctrl-C")


def test_long_times_are_told_with_hours() -> None:
    assert [clock(seconds) for seconds in (5, 65, 3725)] == ["0:05", "1:05", "1:02:05"]


def test_no_seed_begins_after_the_time_is_over() -> None:
    assert run(wanted("0..", time_s=0.0), Progress(Page(io.StringIO()))).sum.seeds == 0


def test_seeds_whose_world_cannot_be_so_are_left_out() -> None:
    kinds = ("link breaks",)
    done = run(wanted(f"{NETWORKS + 2},7", faults=kinds), Progress(Page(io.StringIO())))
    assert (done.sum.seeds, done.left_out) == (1, 1)
    with pytest.raises(UsageError, match="--brokers 3"):
        run(wanted("7", faults=kinds), Progress(Page(io.StringIO())))


def test_without_a_terminal_a_line_is_printed_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now_s = io.StringIO(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with Progress(Page(out)) as progress:
        for now_s[0] in (1.0, 11.0, 12.0, 30.0):
            progress.say(f"at {now_s[0]:.0f} s")
        progress.tell("a failure")
    assert out.getvalue() == "at 11 s\nat 30 s\na failure\n"


def test_in_a_terminal_the_line_goes_when_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sim_progress, "REDRAW_S", 0.0)
    out = Terminal()
    with Progress(Page(out, width=80)) as progress:
        progress.say("half done")
    assert "half done" in out.getvalue()
    assert out.getvalue().endswith("\x1b[2K"), "the line is cleared"


def test_whoever_reads_json_hears_nothing_else() -> None:
    out = io.StringIO()
    with Progress(Page(out), is_quiet=True) as progress:
        progress.say("half done")
        progress.tell("a failure")
    assert out.getvalue() == ""
