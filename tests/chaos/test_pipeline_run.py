"""That a run which kills the pipeline would notice what it is there to notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from scale0.telemetry.place import Place
from tests.chaos.pipeline_reader import Reader, committed
from tests.chaos.pipeline_run import kill_session
from tests.chaos.pipeline_tables import differences
from tests.chaos.stage import look_until

ROOT = Path(__file__).parents[2]

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are watched through /proc")


def rows(*batches: int) -> pa.Table:
    """One task a row, each brought by a batch: the first was refused, and the last but one settled twice."""
    ids = [f"c.00.{number}" for number in range(len(batches))]
    return pa.table(
        {
            "task_id": [*ids[:-1], ids[-2]],
            "is_origin": [True] * len(batches),
            "outcome": ["refused", *["replied"] * (len(batches) - 1)],
            "weight": pa.array([None] * len(batches), pa.int32()),
            "batch": list(batches),
        }
    )


def seen(totals: dict[str, list[int]]) -> Reader:
    reader = Reader(Place("."))
    reader.seen.update(totals)
    return reader


def test_committed_totals_are_those_after_each_batch() -> None:
    totals = committed(rows(1, 1, 2, 3, 3))
    assert totals["silver/tasks"] == totals["facts/minute"] == [0, 2, 3, 5]
    assert totals["facts/hour"] == [0, 1, 2, 4], "what was refused had no worker"
    assert totals["gold/service_1m"] == totals["gold/service_1d"] == [0, 2, 3, 4], "what was settled twice counts once"


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        ([2, 3, 5], ""),
        ([0, 5], ""),
        ([2, 4, 5], "saw 4, which no batch makes"),
        ([3, 2, 5], "saw 2 after 3"),
        ([2, 3], "saw [3] at the end, and there are 5"),
        ([], "saw [] at the end"),
    ],
)
def test_reader_notices_totals_that_were_never_committed(totals: list[int], words: str) -> None:
    gold = {name: [4] for name in ("gold/service_1m", "gold/service_1d")}
    reader = seen({"silver/tasks": [5], "facts/hour": [4], "facts/minute": totals, **gold})
    found = reader.breaches(rows(1, 1, 2, 3, 3))
    assert found == [] if not words else words in found[0]


def test_reader_that_meets_an_error_says_so() -> None:
    reader = seen({})
    reader.error = OSError("half a file")
    assert reader.breaches(rows(1, 1)) == ["a reader met OSError: half a file"]


def test_reader_samples_a_table_when_it_has_changed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    reader = Reader(place)
    for count in (3, 4):
        write_deltalake(place.uri("tables", "facts/minute"), pa.table({"count": [count]}), mode="append")
        reader.look()
        reader.look()
    assert reader.seen["facts/minute"] == [3, 7]


def test_facts_are_added_up_before_they_are_compared_and_other_figures_differ(tmp_path: Path) -> None:
    def split(name: str, *counts: tuple[int, int]) -> Place:
        place = Place(tmp_path / name)
        made = [
            {"day": "2026-03-01", "hour_us": 0, "service": "pay", "part": "queue", "bucket": 1, "count": n, "batch": b}
            for n, b in counts
        ]
        write_deltalake(place.uri("tables", "facts/split"), pa.Table.from_pylist(made))
        return place

    whole = split("whole", (7, 1))
    assert differences(whole, split("parts", (3, 1), (4, 2))) == []
    (sentence,) = differences(whole, split("doubled", (7, 1), (7, 2)))
    assert sentence.startswith("facts/split: 1 rows, and 1 where nothing was killed")


@linux
def test_a_whole_session_is_killed_whatever_group_its_processes_are_in() -> None:
    script = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], process_group=0)
print(child.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        assert int(leader.stdout.readline()) != leader.pid
        assert kill_session(leader.pid) == 2
        leader.wait()
    look_until(lambda: not kill_session(leader.pid), "both have ended")


def test_needs_at_least_one_kill() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--pipeline", "0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--pipeline are above zero" in done.stderr
