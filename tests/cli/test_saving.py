"""What `scale0 worker` and `scale0 call` keep for the next start."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scale0.cli import saving, worker_command
from scale0.cli.main import main
from scale0.cli.worker_command import WorkerCommand
from scale0.worker import Worker
from tests.client.scripted import ScriptedBroker, scripted
from tests.contract.test_network import config_of

TASKS = """
from scale0.worker import Worker
worker = Worker("tcp://127.0.0.1:5999")
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "scale0"


def kept(state: Path) -> list[Path]:
    return [path for path in state.rglob("*") if path.is_file()] if state.exists() else []


def call(broker: ScriptedBroker, *options: str) -> int:
    return main(["call", "echo", '"Ada"', "--broker", broker.endpoint, *options])


def test_call_keeps_what_it_learned_and_the_next_one_uses_it(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scripted() as second:
        with scripted() as first:
            first.config = config_of(first, second)
            assert call(first) == 0
        assert len(kept(state)) == 1
        assert call(first) == 0, "the one that was given is down"
    assert capsys.readouterr().out.split() == ['"Ada"', '"Ada"']


def test_no_save_keeps_nothing(state: Path) -> None:
    with scripted() as broker:
        broker.config = config_of(broker)
        assert call(broker, "--no-save") == 0
    assert kept(state) == []


def test_a_place_that_cannot_be_written_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with caplog.at_level(logging.DEBUG, "scale0"), scripted() as broker:
        assert call(broker) == 0
    said = [record.levelname for record in caplog.records if "not saved" in record.getMessage()]
    assert said == ["DEBUG"]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    """The workers that were run, which end at once."""
    (tmp_path / "saving_tasks.py").write_text(TASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    run: list[Worker] = []

    def note_run(worker: Worker) -> int:
        run.append(worker)
        return 0

    monkeypatch.setattr(Worker, "run", note_run)
    yield run
    sys.modules.pop("saving_tasks", None)


def test_a_worker_keeps_a_file_for_the_brokers_that_it_was_given(state: Path, served: list[Worker]) -> None:
    worker_command.run(WorkerCommand(target="saving_tasks"))
    mine = saving.file_for("worker", ["tcp://127.0.0.1:5999"])
    assert served[-1].options.save_config == mine
    assert mine is not None
    assert mine.is_relative_to(state)


def test_a_worker_that_has_a_file_of_its_own_keeps_it(state: Path, served: list[Worker], tmp_path: Path) -> None:
    worker_command.load("saving_tasks").options.save_config = tmp_path / "own.json"
    worker_command.run(WorkerCommand(target="saving_tasks"))
    assert served[-1].options.save_config == tmp_path / "own.json"


def test_a_worker_can_be_told_to_keep_nothing(state: Path, served: list[Worker], tmp_path: Path) -> None:
    worker_command.load("saving_tasks").options.save_config = tmp_path / "own.json"
    worker_command.run(WorkerCommand(target="saving_tasks", is_saving=False))
    assert served[-1].options.save_config is None


def test_roles_and_brokers_have_files_of_their_own(state: Path) -> None:
    files = {
        saving.file_for("worker", ["tcp://a:1"]),
        saving.file_for("client", ["tcp://a:1"]),
        saving.file_for("client", ["tcp://a:1", "tcp://b:1"]),
    }
    assert len(files) == 3
    assert None not in files
