"""Completion, through the machinery that shells use: commands, listings, and names that a running broker knows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scale0 import Worker, testing
from scale0.cli import ctl_completion
from tests.cli.processes import LIMIT_S, ROOT, environment, scale0


def completed(line: str, shell: str = "bash", broker: str = "tcp://127.0.0.1:1") -> list[str]:
    """What the shell would offer at the end of `line`."""
    words = line.split(" ")
    variables = {"_SCALE0_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        variables |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    else:
        variables |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = "import sys; from scale0.cli.main import run; sys.argv = ['scale0']; run()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=ROOT,
        env=environment(broker, **variables),
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()


def test_commands_and_listings_are_offered() -> None:
    assert {"ctl", "config"} <= set(completed("scale0 c"))
    assert completed("scale0 ctl wor") == ["workers"]
    assert completed("scale0 ctl dead") == ["dead-letters"]
    assert {"retry", "reload", "run"} <= set(completed("scale0 ctl r"))
    assert completed("scale0 ctl list dead") == ["dead-letters"]
    assert completed("scale0 ctl run kick") == ["kick_worker"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_offered_the_same_with_help(shell: str) -> None:
    offered = "\n".join(completed("scale0 ctl list aud", shell))
    assert "audit" in offered
    assert "who did what" in offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_shown(shell: str) -> None:
    done = scale0("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0, done.stderr
    assert "_SCALE0_COMPLETE" in done.stdout


def test_names_come_from_the_running_broker_without_a_password() -> None:
    with testing.broker() as broker:
        worker = Worker(broker.endpoint, identity="w-12")
        worker.add_service("render", lambda: None)
        with worker:
            assert completed("scale0 ctl kick w", broker=broker.endpoint) == ["w-12"]
            assert completed("scale0 ctl test-task ren", broker=broker.endpoint) == ["render"]
            assert completed("scale0 call ren", broker=broker.endpoint) == ["render"]


def test_nobody_there_offers_nothing_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALE0_BROKER", "tcp://127.0.0.1:1")
    assert ctl_completion.names("workers")("w") == []
    monkeypatch.setenv("SCALE0_BROKER", "nonsense")
    assert ctl_completion.names("workers")("w") == []
