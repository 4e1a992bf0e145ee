"""The commands of `scale0 config` as they are typed, as far as they need no broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from scale0.cli import main
from scale0.cli.failures import Exit

COMMANDS = ["show", "diff", "history", "apply", "rollback", "check", "convert"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(main.app, ["config", command, "--help"])
    assert result.exit_code == 0
    assert f"config {command}" in result.stdout


def test_its_help_opens_with_the_way_of_a_change() -> None:
    text = CliRunner().invoke(main.app, ["config", "--help"], prog_name="scale0").stdout
    places = [text.index(f"scale0 config {command}") for command in ("show", "check", "diff", "apply", "rollback")]
    assert places == sorted(places)


def test_files_are_checked_and_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.toml"
    path.write_text('network = "prod"\n')
    assert main.main(["config", "check", str(path)]) == Exit.GOOD
    assert "network prod" in capsys.readouterr().out
    assert main.main(["config", "convert", str(path), "--to", "zpl"]) == Exit.GOOD
    assert capsys.readouterr().out == 'network = "prod"\n'


def test_two_files_are_compared_without_a_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text('network = "prod"\n')
    two.write_text('network = "next"\n')
    assert main.main(["config", "diff", str(one), str(two), "--broker", "tcp://127.0.0.1:9"]) == Exit.GOOD
    assert "network prod → next" in capsys.readouterr().out
    assert main.main(["config", "diff", str(one), str(two), "--check"]) == Exit.BAD_ANSWER


def test_a_bad_file_is_told_before_a_broker_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "network.toml"
    path.write_text("livenes = 3\n")
    assert main.main(["config", "apply", str(path), "--broker", "tcp://127.0.0.1:9"]) == Exit.USAGE
    assert "did you mean liveness?" in capsys.readouterr().err


def test_missing_credentials_are_told_before_a_broker_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALE0_AUTH_ID", raising=False)
    path = tmp_path / "network.toml"
    path.write_text('network = "prod"\n')
    for command in (["apply", str(path)], ["rollback", "41"]):
        assert main.main(["config", *command, "--broker", "tcp://127.0.0.1:9"]) == Exit.USAGE
        assert "SCALE0_AUTH_ID" in capsys.readouterr().err
