"""A network of two brokers as its operators run it: real processes, joined, looked at, changed, broken."""

from __future__ import annotations

import json
import signal
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from scale0.cli.failures import Exit
from scale0.testing import managed_by
from tests.cli import processes
from tests.cli.processes import MODULE_LIMIT_S, end, scale0

ATTEMPTS_MAX = 60  # each is a process of its own, so this neither spins nor sleeps
BEATS = "default_heartbeat_interval = 0.3\nliveness = 10\n"  # on a busy machine a broker may be late by some intervals
SETTINGS = f"""
network = "prod"
{BEATS}
[management]
users = "USERS"
"""


class Network(NamedTuple):
    """The addresses of eu-1, which sequences changes, and of eu-2, which joined it."""

    first: str
    second: str
    folder: Path

    def config(self, *words: str, password: str = "secret") -> subprocess.CompletedProcess[str]:
        return operate("config", *words, broker=self.first, password=password)

    def rows(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(scale0("network", "--json", broker=self.first).stdout)["rows"]
        return found


def operate(*words: str, broker: str, password: str = "secret") -> subprocess.CompletedProcess[str]:
    return scale0(*words, broker=broker, SCALE0_AUTH_ID="ops", SCALE0_AUTH_PASSWORD=password)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("network")
    settings = folder / "broker.toml"
    users = managed_by(settings.parent, {"ops": "secret"})["users"]
    settings.write_text(SETTINGS.replace("USERS", users))
    own = ("--config", str(settings), "--group", "eu")
    with (
        processes.broker("--identity", "eu-1", *own, limit_s=MODULE_LIMIT_S) as (_one, first),
        processes.broker("--identity", "eu-2", "--join", first, *own, limit_s=MODULE_LIMIT_S) as (_two, second),
    ):
        await_verdict(first, "● prod: 2 brokers, all active")
        yield Network(first, second, folder)


def await_verdict(address: str, verdict: str) -> str:
    """Ask until the network's verdict is this one; what was said then."""
    for _attempt in range(ATTEMPTS_MAX):
        said = scale0("network", broker=address).stdout
        if said.splitlines()[:1] == [verdict]:
            return said
    raise AssertionError(f"never {verdict!r}, but:\n{said}")


def test_both_brokers_show_the_same_network(network: Network) -> None:
    for address in (network.first, network.second):
        lines = await_verdict(address, "● prod: 2 brokers, all active").splitlines()
        assert lines[1].split()[:3] == ["GROUP", "BROKER", "STATE"]
        assert [line.split()[:4] for line in lines[2:4]] == [["eu", name, "●", "active"] for name in ("eu-1", "eu-2")]
        assert scale0("network", "--check", broker=address).returncode == Exit.GOOD


def test_what_is_shown_can_be_applied_and_changes_nothing(network: Network) -> None:
    shown = network.config("show").stdout
    assert shown.startswith("# prod 1.")
    assert [entry["identity"] for entry in tomllib.loads(shown)["brokers"]] == ["eu-1", "eu-2"]
    file = network.folder / "shown.toml"
    file.write_text(shown)
    done = network.config("apply", str(file))
    assert (done.returncode, done.stderr) == (Exit.GOOD, "")
    assert done.stdout.startswith("● nothing to change: prod runs it as 1.")


def test_a_change_reaches_every_broker_and_can_be_taken_back(network: Network) -> None:
    file = network.folder / "change.toml"
    file.write_text(f'network = "prod"\n{BEATS}[service.render]\ntimeout = 5\n')
    dry = network.config("apply", str(file), "--dry-run", password="")
    assert dry.stdout.splitlines()[1:] == ["service.render added: timeout 5", "dry run: nothing was changed"]
    done = network.config("apply", str(file), "-m", "renders are quick")
    assert done.returncode == Exit.GOOD, done.stderr
    version = done.stdout.splitlines()[-1].split()[2]
    assert done.stdout.splitlines()[-1] == f"● applied {version} to prod: 2 brokers run it"
    assert {row["config_version"] for row in network.rows()} == {version}
    newest, before = network.config("history").stdout.splitlines()[2:4]
    assert "● current" in newest
    assert " ".join(newest.split()).endswith("service.render added: timeout 5 renders are quick")
    number = before.split()[0]
    back = network.config("rollback", number)
    assert back.returncode == Exit.GOOD, back.stderr
    assert "service.render removed" in back.stdout
    assert network.config("diff", number, "--check").returncode == Exit.GOOD


def test_a_long_document_is_applied_through_a_broker_that_only_passes_it_on(network: Network) -> None:
    file = network.folder / "long.json"
    services = [{"name": f"a-service-with-a-rather-long-name-{number}", "timeout": 7.0} for number in range(1_500)]
    file.write_text(json.dumps({"network": "prod", **tomllib.loads(BEATS), "service": services}))
    done = operate("config", "apply", str(file), broker=network.second)
    assert done.returncode == Exit.GOOD, done.stderr
    assert done.stdout.splitlines()[0].endswith(": 1,500 changes")
    assert done.stdout.splitlines()[-1].endswith("to prod: 2 brokers run it")
    before = json.loads(network.config("history", "--json").stdout)["rows"][1]["version"]
    assert network.config("rollback", before).returncode == Exit.GOOD


def test_a_refused_change_says_why(network: Network) -> None:
    file = network.folder / "refused.toml"
    file.write_text('network = "prod"\nliveness = 5\n')
    done = network.config("apply", str(file), password="wrong")
    assert done.returncode == Exit.REFUSED
    assert "401" in done.stderr


def test_the_network_is_listed_for_managers_too(network: Network) -> None:
    listed = operate("manage", "list", "network", broker=network.first)
    assert [row["identity"] for row in json.loads(listed.stdout)["rows"]] == ["eu-1", "eu-2"], listed.stderr


def test_a_killed_broker_is_gone_and_the_next_command_brings_it_back(network: Network) -> None:
    with processes.broker("--identity", "eu-3", "--join", network.second, "--group", "eu") as (child, address):
        await_verdict(network.first, "● prod: 3 brokers, all active")
        child.kill()
        said = await_verdict(network.first, "✗ prod: 3 brokers, 1 gone")
        assert f"Next: scale0 broker --identity eu-3 --bind {address} --join {network.first} " in said
        assert scale0("network", "--check", broker=network.first).returncode == Exit.BAD_ANSWER
    with processes.broker("--identity", "eu-3", "--join", network.first, "--group", "eu") as (child, _address):
        await_verdict(network.first, "● prod: 3 brokers, all active")
        assert end(child, signal.SIGTERM)[0] == 0
    forgotten = operate("manage", "forget_broker", "eu-3", broker=network.first)
    assert forgotten.returncode == Exit.GOOD, forgotten.stderr
    await_verdict(network.first, "● prod: 2 brokers, all active")


def test_one_document_starts_each_of_its_brokers(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(
        'network = "listed"\ndefault_heartbeat_interval = 0.3\n'
        '[[brokers]]\nidentity = "a"\ngroup = "g"\n[[brokers]]\nidentity = "b"\ngroup = "g"\n'
    )
    with (
        processes.broker("--config", str(file), "--identity", "a") as (_a, first),
        processes.broker("--config", str(file), "--identity", "b", "--join", first) as (_b, _second),
    ):
        await_verdict(first, "● listed: 2 brokers, all active")
