"""Every example runs as it is, against a broker of its own, and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import processes
from tests.cli.processes import LIMIT_S, MODULE_LIMIT_S, ROOT, environment

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that is no longer new: while it is, unknown services wait instead of 404."""
    settings = tmp_path_factory.mktemp("broker") / "broker.toml"
    settings.write_text("default_heartbeat_interval = 0.5\nliveness = 6\n")
    with processes.broker("--config", str(settings), limit_s=MODULE_LIMIT_S) as (_child, endpoint):
        processes.await_answer(endpoint, "nobody-serves-this", "error: 404")
        yield endpoint


def run(example: str, address: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(Path("examples") / example)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=ROOT,
        env=environment(address),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_greet_serves_what_ask_asks(address: str) -> None:
    with processes.running("worker", "examples.greet:worker", broker=address):
        processes.await_answer(address, "greet", "hello Ada")
        lines = run("ask.py", address)
    assert lines[:4] == ["hello Ada", "welcome Ada", "6.0", "1,000 replies, the last one: hello guest 999"]
    assert lines[4].startswith("refused by the annotations: EncodingError")
    assert lines[5] == "no such service; near: greet"


def test_stream_prints_parts_and_stops_when_it_has_seen_enough(address: str) -> None:
    assert run("stream.py", address) == ["1", "2", "3", "three times tick: enough"]


def test_images_passes_types_and_bytes(address: str) -> None:
    assert run("images.py", address) == ["8x4 became 4x2", "ff00"]


def test_network_gets_every_reply_although_a_broker_is_killed(address: str) -> None:
    assert run("network.py", address) == ["killed the worker's broker", "300 replies, all of them right"]


def test_simulated_tells_how_many_workers_are_needed(address: str) -> None:
    few, _, enough, _ = lines = run("simulated.py", address)
    assert few.startswith("2 workers: ")
    assert re.match(r"6 workers: (9\d|100)% of 610 tasks replied", enough)
    assert all(line.endswith("every promise held: True") for line in lines[1::2])


def test_every_example_is_tested_here_or_with_spark() -> None:
    with_spark = {name for name in EXAMPLES if name.startswith("spark_")}  # tests/pipeline/test_spark_examples.py
    assert set(EXAMPLES) - with_spark == {"ask.py", "greet.py", "images.py", "network.py", "simulated.py", "stream.py"}
