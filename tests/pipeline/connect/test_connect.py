"""Over Spark Connect, from a process without Java: events, live tables, calls, writes and streams at a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.calls.posts import running_post
from tests.pipeline.cluster.standalone import LIMIT_S
from tests.pipeline.connect.server import running_server
from tests.pipeline.source.places import two_brokers

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(4 * LIMIT_S)
def test_everything_that_a_spark_program_can_do_works_over_connect(tmp_path: Path) -> None:
    place = tmp_path / "data"
    two_brokers(place)
    with running_server(tmp_path) as server, running_post() as post:
        order = {"server": server, "place": str(place), "broker": post.endpoint, "checkpoint": str(tmp_path / "query")}
        done = subprocess.run(
            [sys.executable, "-m", "tests.pipeline.connect.client", json.dumps(order)],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": ""},
            capture_output=True,
            text=True,
            timeout=2 * LIMIT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kind"].startswith("pyspark.sql.connect")
    assert told["zone"] == "UTC"
    assert told["events"] == {"eu-1": 300, "us-1": 100}
    assert told["late"] == 61
    assert {"double", "add", "pay"} <= set(told["services"])
    assert told["workers"] == 1
    assert told["sum"] == sum(2 * number for number in range(500) if number != 13)
    assert told["failed"] == ["ValueError: unlucky"]
    written = {number: runs for number, runs in post.runs.items() if number >= 1000}
    assert written == dict.fromkeys([*range(1000, 1010), *range(2010, 2020)], 1)
    assert "scale0-code.zip" in told["code"], "it is the client's code that the server runs"
