"""scale0 ctl as it is typed, against real brokers: two of a network, a worker, users of three roles."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from scale0 import Worker, testing
from scale0.cli import ctl_app, main
from scale0.management.vocabulary import COMMANDS, LISTINGS
from tests.cli.processes import LIMIT_S, ROOT, environment, scale0

PROGRAMS = {"hints", "snapshot", "list", "config_check"}


class Network(NamedTuple):
    endpoint: str
    url: str
    folder: Path


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("ctl")
    management = {**testing.managed_by(folder, {"ops": "secret"}), "plain_peers": "admin"}
    own: dict[str, Any] = {"network": "prod", "publish": "tcp://127.0.0.1:0"}
    with (
        testing.broker(identity="eu-1", management={**management, "http": "127.0.0.1:0"}, **own) as one,
        testing.broker(identity="eu-2", management=management, seeds=[one.endpoint], **own) as two,
    ):
        testing.TestNetwork([one, two]).wait()
        worker = Worker(one.endpoint, identity="w-[red]")
        worker.add_service("greet", lambda name="you": f"hello {name}")
        with worker:
            yield Network(one.endpoint, one.server.page_url, folder)


def ctl(network: Network, *words: str, password: str = "secret") -> subprocess.CompletedProcess[str]:
    return scale0("ctl", *words, broker=network.endpoint, SCALE0_AUTH_ID="ops", SCALE0_AUTH_PASSWORD=password)


def test_everything_in_the_vocabulary_can_be_typed() -> None:
    help_text = CliRunner().invoke(main.app, ["ctl", "--help"]).stdout
    typed = {re.match(r"│ ([a-z-]+)  ", line)[1] for line in help_text.splitlines() if re.match(r"│ [a-z]", line)}  # type: ignore[index]
    assert {name.replace("_", "-") for name in LISTINGS if name != "config"} <= typed
    for name in set(COMMANDS) - PROGRAMS:
        words = name.split("_") if name.startswith("config_") else [name.replace("_", "-")]
        result = CliRunner().invoke(main.app, ["ctl", *words, "--help"])
        assert result.exit_code == 0, name
    assert CliRunner().invoke(main.app, ["ctl", "kick_worker", "--help"]).exit_code == 0


def test_help_of_a_command_is_made_from_the_vocabulary() -> None:
    shown = CliRunner().invoke(main.app, ["ctl", "partition", "--help"]).stdout
    for word in ("PEER", "--for", "SECONDS", "both|sent|received", "--on", "--all", "--url", "--key", "role admin"):
        assert word in " ".join(shown.split())
    assert ctl_app.SHORT["kick_worker"] == "kick"


def test_listings_come_over_both_doors(network: Network) -> None:
    over_zeromq, over_http = ctl(network, "workers", "--json"), ctl(network, "workers", "--json", "--url", network.url)
    for done in (over_zeromq, over_http):
        assert done.returncode == 0, done.stderr
        assert [row["identity"] for row in json.loads(done.stdout)["rows"]] == ["w-[red]"]
    shown = ctl(network, "list", "workers", "--filter", "state:ready")
    assert shown.stdout.startswith("● 1 of 1 worker matches state:ready (eu-1, config v")
    assert "w-[red]" in shown.stdout


def test_the_overview_opens_with_the_verdict(network: Network) -> None:
    done = ctl(network, "overview")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].startswith("tasks/s ")
    assert "greet" in done.stdout


def test_a_test_task_is_answered(network: Network) -> None:
    done = ctl(network, "test-task", "greet", '["Ada"]')
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("● test task greet: answered by w-[red] in ")
    assert '"hello Ada"' in done.stdout
    failed = ctl(network, "test-task", "greet", '["Ada", "Bob"]')
    assert failed.returncode == 1
    assert failed.stdout.startswith("✗ test task greet: ")


def test_a_command_for_named_brokers_shows_each_and_partial_failure_is_exit_code_5(network: Network) -> None:
    done = ctl(network, "reload", "eu-1", "eu-2", "eu-9")
    assert done.returncode == 5, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "! reload config: 2 of 3 brokers; not eu-9"
    assert lines[2].startswith("eu-9   ✗ ")
    everyone = ctl(network, "reload", "--all", "--json")
    assert everyone.returncode == 0, everyone.stdout + everyone.stderr
    answer = json.loads(everyone.stdout)
    assert answer["complete"]
    assert {row["broker"] for row in answer["results"]} == {"eu-1", "eu-2"}


def test_another_broker_is_drained_and_enabled_by_its_name(network: Network) -> None:
    drained = ctl(network, "drain", "eu-2")
    assert drained.returncode == 0, drained.stdout + drained.stderr
    assert "eu-2   ● state drain" in drained.stdout
    assert ctl(network, "run", "enable", "--on", "eu-2").returncode == 0


def test_what_is_dangerous_is_refused_without_a_terminal(network: Network) -> None:
    done = ctl(network, "disable")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert json.loads(ctl(network, "brokers", "--json").stdout)["broker"]["state"] == "active"


def test_wrong_credentials_are_exit_code_4_and_nobody_there_3(network: Network) -> None:
    assert ctl(network, "workers", password="wrong").returncode == 4
    nobody = scale0(
        "ctl", "workers", "--url", "http://127.0.0.1:1", SCALE0_AUTH_ID="ops", SCALE0_AUTH_PASSWORD="secret"
    )
    assert nobody.returncode == 3
    assert "scale0 broker --manage" in nobody.stderr
    bare = scale0("ctl", "workers", broker=network.endpoint)
    assert bare.returncode == 2
    assert "SCALE0_AUTH_ID" in bare.stderr


def test_an_unknown_filter_column_is_a_usage_error_with_what_there_is(network: Network) -> None:
    done = ctl(network, "workers", "--filter", "unicorn:1")
    assert done.returncode == 2
    assert "heartbeat_age_us" in done.stderr


def test_config_goes_through_the_same_doors(network: Network, tmp_path: Path) -> None:
    shown = ctl(network, "config", "show", "--as", "toml", "--url", network.url)
    assert shown.returncode == 0, shown.stderr
    file = tmp_path / "network.toml"
    file.write_text(shown.stdout + "\n[service.greet]\ntimeout = 7.0\n")
    assert "service.greet added: timeout 7" in ctl(network, "config", "diff", str(file)).stdout
    refused = ctl(network, "config", "apply", str(file))
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    done = ctl(network, "config", "apply", str(file), "--yes", "-m", "a test", "--timeout", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a test" in ctl(network, "config", "history").stdout


def test_what_was_done_stands_in_events_and_audit(network: Network) -> None:
    assert ctl(network, "kick", "nobody").returncode == 1
    assert "kick_worker" in ctl(network, "events").stdout
    assert "kick_worker" in ctl(network, "audit").stdout
    verified = ctl(network, "audit", "--verify", "--file", str(next(network.folder.glob("audit*.log"))))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "none changed, removed or moved" in verified.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_gets_lines_that_fit_and_asks_for_the_name(network: Network, columns: int) -> None:
    variables = {"SCALE0_AUTH_ID": "ops", "SCALE0_AUTH_PASSWORD": "secret", "COLUMNS": str(columns), "TERM": "xterm"}
    code, out = in_terminal(["ctl", "workers"], network.endpoint, {**variables, "NO_COLOR": "1"})
    assert code == 0
    assert all(len(re.sub(r"\x1b\[\d+m", "", line)) <= columns for line in out.splitlines()), out
    assert "\x1b[3" not in out  # no colour
    code, out = in_terminal(["ctl", "disable"], network.endpoint, variables, answer=("Type eu-1 to go on", "eu-2\n"))
    assert code == 2
    assert "stay off over restarts" in out
    assert "was not confirmed: nothing was changed" in out


def in_terminal(
    words: list[str], broker: str, variables: dict[str, str], answer: tuple[str, str] | None = None
) -> tuple[int, str]:
    """Run a command in a terminal of its own, and type the answer when the question comes."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "scale0", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=environment(broker, **variables),
        start_new_session=True,
    )
    os.close(theirs)
    seen = ""
    try:
        while select.select([ours], [], [], LIMIT_S)[0]:
            try:
                seen += os.read(ours, 65_536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
            if answer is not None and answer[0] in seen:
                os.write(ours, answer[1].encode())
                answer = None
        return child.wait(LIMIT_S), seen.replace("\r\n", "\n")
    finally:
        child.kill()
        child.wait()
        os.close(ours)
