"""`scale0 worker module:app`: what is found, and what is said when it is not."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scale0.cli.worker_command import WorkerCommand, lines, load, run
from scale0.errors import UsageError

GOOD = """
from scale0.worker import Worker
number = 3
worker = Worker()

@worker.service("greet")
def greet(name: str) -> str:
    return f"hello {name}"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def _complaint(target: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(target)
    return str(caught.value)


def test_a_worker_is_found_by_module_and_name(here: Path) -> None:
    (here / "good_tasks.py").write_text(GOOD)
    assert load("good_tasks:worker").services == ["greet"]
    assert load("good_tasks").services == ["greet"]


def test_a_module_that_is_not_there_names_those_that_are(here: Path) -> None:
    (here / "image_tasks.py").write_text(GOOD)
    (here / "jobs").mkdir()
    (here / "jobs" / "__init__.py").write_text("")
    (here / "jobs" / "mailing.py").write_text(GOOD)
    text = _complaint("image_taks:worker")
    assert "there is no module 'image_taks'" in text
    assert "did you mean: image_tasks?" in text
    assert "did you mean: jobs.mailing?" in _complaint("jobs.maling:worker")


def test_settings_that_a_worker_refuses_are_no_fault_of_the_import(here: Path) -> None:
    (here / "hasty.py").write_text("from scale0 import Worker\nworker = Worker(capacity=0)\n")
    assert _complaint("hasty:worker").splitlines() == [
        "capacity is a whole number from 1 to 4,096, not 0",
        f"in {here / 'hasty.py'}, line 2",
    ]


def test_a_module_that_cannot_be_imported_says_where_and_why(here: Path) -> None:
    (here / "bad_import.py").write_text("x = 1\nimport surely_not_installed\n")
    text = _complaint("bad_import:worker")
    assert "ModuleNotFoundError: No module named 'surely_not_installed'" in text
    assert "bad_import.py, line 2" in text
    (here / "bad_syntax.py").write_text("def f(:\n")
    assert "bad_syntax.py, line 1" in _complaint("bad_syntax:worker")
    (here / "bad_exit.py").write_text("raise SystemExit(3)\n")
    assert "SystemExit: 3" in _complaint("bad_exit:worker")


def test_a_wrong_name_names_the_workers_that_are_there(here: Path) -> None:
    (here / "names.py").write_text(GOOD)
    assert "did you mean: names:worker?" in _complaint("names:wroker")
    assert "is not a Worker, but of type int" in _complaint("names:number")
    (here / "none.py").write_text("x = 1\n")
    assert "has no worker" in _complaint("none")
    assert "put one there" in _complaint("none:worker")
    (here / "two.py").write_text("from scale0.worker import Worker\na, b = Worker(), Worker()\n")
    assert "name one: two:a, two:b" in _complaint("two")


def test_a_file_instead_of_a_module_is_explained(here: Path) -> None:
    assert "try: scale0 worker jobs.mail:worker" in _complaint("jobs/mail.py:worker")
    assert "module:app" in _complaint(":worker")


def test_options_are_checked_before_anything_starts(here: Path) -> None:
    (here / "options_tasks.py").write_text(GOOD)
    with pytest.raises(UsageError, match="--processes is 1 or more"):
        run(WorkerCommand(target="options_tasks", processes=0))
    with pytest.raises(UsageError, match="capacity is"):
        run(WorkerCommand(target="options_tasks", capacity=-1))
    with pytest.raises(UsageError, match="not an address"):
        run(WorkerCommand(target="options_tasks", brokers=["nonsense"]))


def test_a_line_of_the_log_begins_with_the_time_in_utc_and_the_level() -> None:
    record = logging.LogRecord("scale0.worker", logging.WARNING, "", 0, "no answer", (), None)
    record.created, record.msecs = 86_400.007, 7.0
    assert lines().format(record) == "1970-01-02T00:00:00.007Z WARNING no answer"
