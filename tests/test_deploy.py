"""What is in deploy/ can be used as it stands: its commands exist, and its paths are those that the product uses."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

from typer.main import get_command

from scale0.cli.main import app
from scale0.cli.state_dirs import broker_dir
from scale0.transport.server import DRAIN_S

DEPLOY = Path(__file__).parents[1] / "deploy"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # systemd's keys are not lowered
    parser.read_string((DEPLOY / "scale0@.service").read_text())
    return parser


def options_of(command: str) -> set[str]:
    found = get_command(app).commands[command]  # type: ignore[attr-defined]
    return {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_service_starts_a_broker_with_options_that_exist() -> None:
    words = shlex.split(unit()["Service"]["ExecStart"])
    assert Path(words[0]).name == "scale0"
    assert words[1] == "broker"
    assert {word for word in words if word.startswith("--")} <= options_of("broker")


def test_service_waits_longer_than_a_broker_drains() -> None:
    assert float(unit()["Service"]["TimeoutStopSec"]) > DRAIN_S


def test_service_keeps_the_state_where_the_broker_looks_for_it() -> None:
    service = unit()["Service"]
    variables = dict(word.split("=", 1) for word in service["Environment"].split())
    kept = broker_dir("eu-1", variables)
    assert kept.is_relative_to(Path("/var/lib") / service["StateDirectory"])


def test_container_file_copies_what_is_there_and_runs_the_command() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert 'ENTRYPOINT ["scale0"]' in text
    named = re.search(r"--constraint /src/(\S+)", text)
    assert named is not None
    assert (DEPLOY.parent / named[1]).exists()
    shown = re.search(r"scale0 broker (.*)", text)
    assert shown is not None
    assert set(re.findall(r"--[a-z-]+", shown[1])) <= options_of("broker")
