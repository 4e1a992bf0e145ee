"""The command line without a network: help that teaches, usage errors, exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from scale0 import __version__
from scale0.cli import main
from scale0.cli.failures import Exit

COMMANDS = [
    "broker",
    "worker",
    "demo",
    "call",
    "services",
    "workers",
    "clients",
    "brokers",
    "network",
    "dead-letters",
    "ctl",
    "top",
    "user",
    "keys",
    "config",
    "drill",
]


def test_help_opens_with_a_quick_start() -> None:
    result = CliRunner().invoke(main.app, ["--help"], prog_name="scale0")
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    assert [line.split()[:2] for line in lines[2:5]] == [["scale0", "broker"], ["scale0", "worker"], ["scale0", "call"]]
    for command in COMMANDS:
        assert command in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(main.app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--version"]) == Exit.GOOD
    assert capsys.readouterr().out == f"scale0 {__version__}\n"


def test_without_a_command_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == Exit.USAGE
    captured = capsys.readouterr()
    assert "scale0 broker" in captured.out + captured.err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["frobnicate"], "no such command"),
        (["call"], "missing argument"),
        (["call", "greet", "--priority", "9"], "--priority"),
        (["call", "greet", "Ada"], "not JSON"),
        (["services", "--broker", "5555"], "is not an address"),
        (["services", "--broker", " , "], "no broker's address"),
        (["broker", "--bind", "tcp://0.0.0.0:5555"], "--insecure-bind"),
        (["broker", "--config", "/nowhere.toml"], "--config"),
        (["broker", "--join", "5555"], "is not an address"),
        (["broker", "--join", "tcp://127.0.0.1:0"], "join by"),
        (["broker", "--no-state", "--state-dir", "."], "exclude one another"),
        (["config", "diff", "nonsense"], "neither a version nor a file"),
        (["config", "show", "--as", "yaml"], "--as"),
        (["config", "apply", "/nowhere.toml"], "/nowhere.toml"),
        (["config", "frobnicate"], "no such command"),
        (["worker", "no_such_module:worker"], "no_such_module"),
    ],
)
def test_a_usage_error_is_one_sentence_and_exit_code_2(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALE0_DEBUG", raising=False)
    assert main.main(arguments) == Exit.USAGE
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert what in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_help_does_not_wait_for_zeromq() -> None:
    code = "import sys; from scale0.cli import main; main.main(['--help']); sys.exit('zmq' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_public_names_are_loaded_when_they_are_used() -> None:
    code = (
        "import sys, scale0; assert 'zmq' not in sys.modules; scale0.ServiceNotFound; assert 'zmq' not in sys.modules;"
        "scale0.Client; assert 'zmq' in sys.modules; assert set(scale0.__all__) <= set(dir(scale0));"
        "[getattr(scale0, name) for name in scale0.__all__]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_completion_is_offered_for_the_shell() -> None:
    result = CliRunner().invoke(main.app, ["--help"])
    assert "--install-completion" in result.stdout


@pytest.mark.parametrize(
    ("typed", "told", "help_of"),
    [
        (["frob"], "no such command 'frob'", "scale0"),
        (["ctl", "drian"], "no such command 'drian'. Did you mean 'drain'?", "scale0 ctl"),
        (["config", "show", "2"], "got unexpected extra argument(s) (2)", "scale0 config show"),
        (["config", "show", "--as", "yaml"], "invalid value for '--as': 'yaml' is not one of", "scale0 config show"),
    ],
)
def test_a_usage_error_leads_to_the_help_of_the_command_that_was_meant(
    typed: list[str], told: str, help_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(typed) == Exit.USAGE
    what, cure = capsys.readouterr().err.splitlines()
    assert what.startswith(f"error: {told}")
    assert cure == f"  what can be typed: {help_of} --help"


def test_a_command_without_an_output_goes_its_way() -> None:
    command = f'"{sys.executable}" -c "from scale0.cli.main import run; run()"'
    told = subprocess.run(["sh", "-c", f"{command} --version >&-"], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")
