"""Every block of docs/spark.md runs, one after another in one program, and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import scale0.testing
from scale0 import Client
from scale0.telemetry.place import Place
from scale0.telemetry.segments import write_segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "spark.md"
ENDPOINT = "tcp://127.0.0.1:5555"
DATA = "/var/lib/scale0"
LIMIT_S = 120
MORNING_US = 1_772_352_000_000_000  # 2026-03-01 08:00 UTC
_pause = threading.Event()  # never set


def blocks() -> list[tuple[str, str]]:
    """Title and text of each block of Python."""
    fence = re.compile(r'^```python(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
    return [(title, text) for title, text in fence.findall(DOCUMENT.read_text())]


def record(folder: Path) -> None:
    """A morning: 80 tasks of score, two of which were late, 40 of render, and one from the night before."""
    tasks: list[dict[str, Any]] = []
    for number in range(121):
        service, took_us = ("render", 90_000) if number % 3 == 0 else ("score", 20_000)
        at_us = MORNING_US + number * 1_000_000 if number else MORNING_US - 3_600_000_000
        code = 504 if number in (4, 5) else 200
        tasks.append(
            {"seq": number + 1, "ts_us": at_us, "received_us": at_us - took_us, "service": service, "code": code}
        )
    table = pa.Table.from_pylist(
        [{"v": 1, "kind": "task", "role": "origin", "broker": "eu-1", "boot": "b", **one} for one in tasks]
    )
    write_segment(Place(str(folder)), table, "eu-1", "b", "generate")


@contextlib.contextmanager
def scoring(folder: Path, endpoint: str) -> Iterator[None]:
    """The document's worker, as a process of its own."""
    ((title, text),) = [(title, text) for title, text in blocks() if title]
    (folder / title).write_text(text.replace(ENDPOINT, endpoint))
    process = subprocess.Popen([sys.executable, folder / title])
    try:
        until_s = time.monotonic() + LIMIT_S
        with Client(endpoint) as client:
            while not client.call("scale0.workers")["rows"]:
                assert time.monotonic() < until_s
                assert process.poll() is None
                _pause.wait(0.05)
        yield
    finally:
        process.terminate()
        process.wait(LIMIT_S)


@pytest.mark.spark
def test_every_block_of_the_document_prints_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    record(tmp_path / "data")
    names: dict[str, Any] = {}
    with scale0.testing.broker() as broker, scoring(tmp_path, broker.endpoint):
        for title, text in blocks():
            if title:
                continue
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(text.replace(ENDPOINT, broker.endpoint).replace(DATA, str(tmp_path)), names)
            promised = [line.strip() for line in re.findall(r"# prints: (.*)", text) for line in line.split("|")]
            assert [line.strip() for line in said.getvalue().splitlines()] == promised, text


def test_the_document_shows_five_things() -> None:
    assert re.findall(r"^## (\d)\.", DOCUMENT.read_text(), re.MULTILINE) == ["1", "2", "3", "4", "5"]
