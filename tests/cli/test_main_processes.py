"""The command line as its users run it: real processes, a real broker, loopback."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from scale0.cli.failures import Exit
from scale0.testing import managed_by
from tests.cli import processes
from tests.cli.processes import MODULE_LIMIT_S, end, running, scale0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A broker with one worker: `examples.greet`."""
    with (
        processes.broker("--identity", "eu-1", limit_s=MODULE_LIMIT_S) as (_child, endpoint),
        running("worker", "examples.greet:worker", "--broker", endpoint, "--capacity", "3", limit_s=MODULE_LIMIT_S),
    ):
        processes.await_answer(endpoint, "greet", "hello Ada")
        yield endpoint


def test_a_call_prints_json(address: str) -> None:
    done = scale0("call", "greet", '"Ada"', broker=address)
    assert (done.returncode, done.stdout, done.stderr) == (0, '"hello Ada"\n', "")


def test_a_call_takes_keywords_and_the_broker_as_an_option(address: str) -> None:
    done = scale0("call", "greet", '{"name": "Ada", "greeting": "welcome"}', "--broker", address)
    assert json.loads(done.stdout) == "welcome Ada"


def test_a_call_reads_its_argument_from_stdin(address: str) -> None:
    assert json.loads(scale0("call", "add", "-", broker=address, stdin=b"[1, 2]").stdout) == 3


def test_a_handlers_error_is_a_bad_answer(address: str) -> None:
    done = scale0("call", "greet", "42", broker=address)
    assert done.returncode == Exit.BAD_ANSWER
    assert done.stderr.startswith("error: EncodingError")
    assert "Traceback" not in done.stderr


def test_services_are_listed_verdict_first(address: str) -> None:
    done = scale0("services", broker=address)
    assert done.returncode == 0
    verdict, header, *rows = done.stdout.splitlines()
    assert verdict.startswith("● 2 services, all served (eu-1, config v")
    assert header.split()[:2] == ["SERVICE", "STATE"]
    assert [row.split()[0] for row in rows] == ["add", "greet"]
    assert "0/3" in rows[0] or "3/3" in rows[0]


@pytest.mark.parametrize("name", ["services", "workers", "clients", "brokers", "dead-letters"])
def test_every_listing_speaks_json_and_prose(address: str, name: str) -> None:
    document = json.loads(scale0(name, "--json", broker=address).stdout)
    assert document["schema"] == f"scale0.{name.replace('-', '_')}/1"
    assert document["complete"] is True
    prose = scale0(name, "--wide", broker=address)
    assert prose.returncode == 0, prose.stderr
    assert "(eu-1, config v" in prose.stdout.splitlines()[0]


def test_the_workers_row_names_what_it_serves(address: str) -> None:
    [row] = json.loads(scale0("workers", "--json", broker=address).stdout)["rows"]
    assert row["services"] == ["greet", "add"]
    assert row["capacity"] == 3


def test_watching_as_json_gives_a_line_each_time(address: str) -> None:
    with running("services", "--watch", "--json", broker=address) as child:
        assert child.stdout is not None
        for _time in range(2):
            assert json.loads(child.stdout.readline())["schema"] == "scale0.services/1"
        assert end(child, signal.SIGINT)[0] == 0


def test_ascii_is_enough_for_a_listing(address: str) -> None:
    done = scale0("services", broker=address, PYTHONIOENCODING="ascii")
    assert done.stdout.startswith("* 2 services")


def test_output_that_nobody_reads_is_no_error(address: str) -> None:
    with running("services", "--watch", broker=address) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        child.stdout = None
        _out, err = child.communicate(timeout=processes.LIMIT_S)
        assert (child.returncode, err) == (0, "")


def test_a_taken_port_is_refused_and_its_owner_named(address: str) -> None:
    done = scale0("broker", "--bind", address)
    assert done.returncode == Exit.REFUSED
    assert done.stderr.startswith(f"error: cannot listen on {address}: the port is taken")
    assert done.stdout == ""


def test_nobody_there_is_unreachable() -> None:
    # Port 9 of loopback: nothing listens there, and nothing that a test starts is ever given it.
    done = scale0("call", "ocr", "{}", broker="tcp://127.0.0.1:9")
    assert done.returncode == Exit.UNREACHABLE
    cause, *cure = done.stderr.splitlines()
    assert re.fullmatch(r"error: no broker at tcp://127\.0\.0\.1:9 after \d+(\.\d+)? s", cause), cause
    assert cure == ["  nothing listens on that port", "  start one: scale0 broker"]


def test_a_broker_drains_and_ends_at_a_signal() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with processes.broker() as (child, _endpoint):
            assert end(child, number)[0] == 0


def test_a_worker_leaves_cleanly_at_a_signal() -> None:
    with (
        processes.broker() as (_broker, endpoint),
        running("worker", "examples.greet:worker", "--broker", endpoint) as worker,
    ):
        processes.await_answer(endpoint, "greet", "hello Ada")
        code, err = end(worker)
        assert code == 0, err
        assert json.loads(scale0("workers", "--json", broker=endpoint).stdout)["rows"] == []


def test_a_settings_file_is_read_and_its_errors_are_placed(tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    good.write_text('identity = "from-file"\n')
    with processes.broker("--config", str(good)) as (_child, endpoint):
        assert "(from-file, config" in scale0("services", broker=endpoint).stdout
    bad = tmp_path / "bad.toml"
    bad.write_text('identity = "x"\nlivenes = 3\n')
    done = scale0("broker", "--config", str(bad))
    assert done.returncode == Exit.USAGE
    assert "line 2" in done.stderr
    assert "liveness" in done.stderr


def test_managing_needs_the_right_password(tmp_path: Path) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text(tomli_w.dumps({"management": managed_by(tmp_path, {"ops": "secret"})}))
    with processes.broker("--config", str(settings)) as (child, endpoint):
        refused = manage(endpoint, "drain", password="wrong")
        assert refused.returncode == Exit.REFUSED
        assert "wrong" not in refused.stderr
        listed = manage(endpoint, "list", "what=brokers")
        assert json.loads(listed.stdout)["rows"][0]["state"] == "active", listed.stderr
        unknown = manage(endpoint, "frobnicate")
        assert unknown.returncode == Exit.BAD_ANSWER
        assert "501" in unknown.stderr
        assert json.loads(manage(endpoint, "disable").stdout)["state"] in {"disabling", "disabled"}
        assert json.loads(manage(endpoint, "enable").stdout)["state"] == "active"
        assert end(child)[0] == 0


def manage(endpoint: str, *words: str, password: str = "secret") -> subprocess.CompletedProcess[str]:
    return scale0("manage", *words, broker=endpoint, SCALE0_AUTH_ID="ops", SCALE0_AUTH_PASSWORD=password)
