"""`scale0 sim` as people use it: what it says, in which order, in which format, and how it ends."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scale0.cli import sim_command
from scale0.cli.failures import Exit
from scale0.cli.main import main
from scale0.core.broker import Broker
from scale0.errors import UsageError
from scale0.simulator.scenario import KINDS
from tests.cli.processes import LIMIT_S, running, scale0
from tests.simulation.test_planted_bugs import a_deadline_frees_the_slot

QUICK = ("--steps", "300")


def sim(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["sim", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    _code, out, _err = sim(capsys, *words, "--json")
    found: dict[str, Any] = msgspec.json.decode(out)
    return found


@pytest.fixture(name="planted")
def plant_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may get more than it can take (rule 6)."""
    a_deadline_frees_the_slot(monkeypatch)
    monkeypatch.setattr(Broker, "check", lambda *_: None)


# --- one seed -----------------------------------------------------------------------------------------------------


def test_a_run_opens_with_the_verdict_and_tells_its_story(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sim(capsys, "--seed", "1000002", *QUICK)
    assert code == Exit.GOOD
    lines = out.splitlines()
    assert lines[0] == "● seed 1000002: every promise held"
    assert "brokers in " in lines[1]
    for part in ("FAULTS, and what followed", "  outcomes  ", "  digest    ", "no more faults"):
        assert part in out
    assert lines[-1] == "Again: scale0 sim --seed 1000002 --steps 300"


def test_the_same_seed_gives_the_same_bytes() -> None:
    words = ("sim", "--seed", "1000004", *QUICK, "--json")
    first, second = (scale0(*words, PYTHONHASHSEED=seed).stdout for seed in ("1", "2"))
    assert first
    assert first == second


def test_the_shape_that_was_asked_for_is_the_one_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = sim(capsys, "--seed", "3", "--brokers", "2", "--workers", "3", "--clients", "1", *QUICK)
    assert "2 brokers in eu (broker0, broker1)" in out
    assert "3 workers, 1 client" in out


def test_hours_are_virtual(capsys: pytest.CaptureFixture[str]) -> None:
    told = document(capsys, "--seed", "3", "--hours", "0.005")
    assert told["virtual_s"] >= 18.0
    assert "--hours 0.005" in told["command"]


def test_json_has_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    told = document(capsys, "--seed", "3", *QUICK)
    assert told["schema"] == "scale0.sim/1"
    assert (told["verdict"], told["complete"], told["shortest"]) == ("held", True, None)
    assert sum(told["counts"]["fault"].values()) >= told["faults"] > 0
    assert told["timeline"][0]["kind"] in KINDS
    assert len(told["digest"]) == 16


def test_every_message_can_be_written_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "messages.txt"
    assert sim(capsys, "--seed", "3", *QUICK, "--trace", str(file))[0] == Exit.GOOD
    assert "→ broker0: " in file.read_text()


def test_a_file_that_cannot_be_written_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = sim(capsys, "--seed", "3", *QUICK, "--trace", str(tmp_path / "no" / "such"))
    assert code == Exit.USAGE
    assert "cannot be written" in err


# --- a broken rule ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("planted")
def test_a_broken_rule_is_told_with_the_shortest_trace_and_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sim(capsys, "--seed", "38", "--steps", "2000")
    assert code == Exit.VIOLATED
    assert out.startswith("✗ seed 38, step ")
    assert "rule 6 is broken; the shortest trace that was found" in out
    assert "THE LAST MESSAGES" in out
    replay = next(line for line in out.splitlines() if line.startswith("Replay: "))
    again, told, _ = sim(capsys, *replay.removeprefix("Replay: scale0 sim ").split(), "--shrink", "0")
    assert again == Exit.VIOLATED
    assert told.startswith("✗ seed 38, step ")


@pytest.mark.usefixtures("planted")
def test_seeds_that_fail_are_offered_to_be_kept(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sim(capsys, "--seeds", "37..39", "--steps", "2000", "--jobs", "1", "--shrink", "0")
    assert code == Exit.VIOLATED
    assert "Keep them, in tests/simulation/seeds.txt:" in out
    assert "\n38 2000 # " in out
    assert "replay: scale0 sim --seed 38 --steps 2000" in out


# --- many seeds ---------------------------------------------------------------------------------------------------


def test_many_seeds_end_in_sums_and_a_coverage_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sim(capsys, "--seeds", "2..5,1000002", *QUICK, "--jobs", "2")
    assert code == Exit.GOOD
    assert out.startswith("● every promise held in 4 seeds and ")
    assert "on 2 cores" in out
    assert "! coverage: " in out
    assert "cannot happen by design" in out


def test_the_coverage_table_can_be_read_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = sim(capsys, "--seeds", "2..4", *QUICK, "--jobs", "1", "--coverage")
    assert "never: a peer held for malware gets no answer" in out
    assert "MISSED" in out


def test_coverage_can_be_required(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = sim(capsys, "--seeds", "2..4", *QUICK, "--jobs", "1", "--require-coverage")
    assert code == Exit.PARTIAL


def test_many_seeds_can_be_read_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    told = document(capsys, "--seeds", "2..4", *QUICK, "--jobs", "1")
    assert (told["schema"], told["seeds"], told["failed"]) == ("scale0.sims/1", 2, [])
    assert any(line["name"] == "444" and line["never"] for line in told["coverage"])


def test_a_run_ends_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sim(capsys, "--for", "0.3s", "--steps", "50", "--jobs", "1")
    assert code == Exit.GOOD
    assert "every promise held in " in out


def test_ctrl_c_ends_one_run_with_its_story_so_far(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with running("sim", "--seed", "1000002", "--hours", "1000", "--trace", str(trace)) as child:
        while not trace.exists() or not trace.stat().st_size:
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=LIMIT_S)
    assert child.returncode == Exit.INTERRUPTED
    assert out.startswith("! seed 1000002: ended by Ctrl-C after ")
    assert "TOTALS" in out


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found through /proc")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=lambda by: by.name)
def test_ctrl_c_ends_many_runs_with_the_sums_so_far_and_leaves_nobody_behind(by: signal.Signals) -> None:
    with running("sim", "--seeds", "2..,1000002..", "--steps", "100", "--jobs", "2") as child:
        while len(children := Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()) < 2:
            assert child.poll() is None
        ends = [os.pidfd_open(int(pid)) for pid in children]  # each turns readable when its process has ended
        child.send_signal(by)
        out, _ = child.communicate(timeout=LIMIT_S)
    assert child.returncode == Exit.INTERRUPTED
    assert out.startswith("! ended by Ctrl-C: every promise held so far")
    for end in ends:
        assert select.select([end], [], [], LIMIT_S)[0], "a lane lives on"
        os.close(end)


# --- what was typed -----------------------------------------------------------------------------------------------


def test_an_unknown_fault_says_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = sim(capsys, "--faults", "broker-crash")
    assert code == Exit.USAGE
    assert "did you mean: broker-crashes" in err


def test_the_kinds_of_faults_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = sim(capsys, "--faults", "list")
    assert all(f"  {kind.replace(' ', '-')}\n" in out for kind in KINDS)


@pytest.mark.parametrize(
    "words",
    [
        ("--hours", "1", "--steps", "10"),
        ("--seed", "1", "--seeds", "1..3"),
        ("--seeds", "5..1"),
        ("--seeds", "1..3,7..7"),
        ("--for", "soon"),
        ("--seeds", "1..3", "--only-faults", "1"),
        ("--seed", "0", "--faults", "link-breaks"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = sim(capsys, *words)
    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) > 1, "the cure is missing"


def test_lengths_of_time_are_read_with_their_unit() -> None:
    assert [sim_command.duration_s(text) for text in ("90s", "10m", "1.5h", "7")] == [90.0, 600.0, 5400.0, 7.0]
    with pytest.raises(UsageError, match="90s"):
        sim_command.duration_s("soon")


def test_help_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--help"]) == Exit.GOOD
    assert "scale0 sim --seed 7" in capsys.readouterr().out
