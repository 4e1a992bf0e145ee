"""Signals, sent to a real process: the first drains, the second ends at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scale0.protocol.messages import Disconnect, Ready
from tests.worker.scripted import LIMIT_S, ScriptedBroker

SCRIPT = Path(__file__).parent / "signal_script.py"


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as scripted:
        yield scripted


@pytest.fixture
def process(broker: ScriptedBroker) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, str(SCRIPT), broker.endpoint], stderr=subprocess.PIPE) as process:
        broker.next(Ready)
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_and_leaves_cleanly(
    broker: ScriptedBroker, process: subprocess.Popen[bytes], number: signal.Signals, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    task_id = broker.submit("wait", str(over))
    assert broker.value(broker.submit("add", 1, 2)) == 3  # so the first one has come, too
    process.send_signal(number)
    broker.next(Ready, lambda ready: ready.capacity == 0)
    over.touch()
    assert broker.value(task_id) == "waited"
    broker.next(Disconnect)
    assert process.wait(LIMIT_S) == 0
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()


def test_a_second_signal_ends_at_once(broker: ScriptedBroker, process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    broker.submit("wait", str(tmp_path / "never"))
    assert broker.value(broker.submit("add", 1, 2)) == 3
    process.send_signal(signal.SIGTERM)
    broker.next(Ready, lambda ready: ready.capacity == 0)
    process.send_signal(signal.SIGTERM)
    broker.next(Disconnect)
    assert process.wait(LIMIT_S) == 1
