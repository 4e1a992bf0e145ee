from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scale0.protocol.messages import TaskReply
from tests.integration.wire import LIMIT_S, RawClient, RawWorker

SCRIPT = textwrap.dedent("""
    import sys
    from pathlib import Path
    from scale0.transport.process import run_broker
    from scale0.transport.settings_file import load, settings_of
    path = Path(sys.argv[1])
    def ready(server): print(*server.endpoints, flush=True)
    run_broker(settings_of(load(path)), "tcp://127.0.0.1:0", reread=lambda: load(path).document, ready=ready)
""")


@contextmanager
def broker_process(settings: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", SCRIPT, str(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def settings_file(directory: Path) -> Path:
    path = directory / "broker.toml"
    path.write_text('identity = "under-test"\n')
    return path


def test_sigterm_drains_and_ends_with_zero(tmp_path: Path) -> None:
    with (
        broker_process(settings_file(tmp_path)) as (process, endpoint),
        RawClient(endpoint) as client,
        RawWorker(endpoint) as worker,
    ):
        client.submit("echo", b"held")
        task = worker.take()
        process.send_signal(signal.SIGTERM)
        worker.reply(task, b"done")
        assert client.hear_a(TaskReply).body == (b"done",)
        assert process.wait(LIMIT_S) == 0


def test_second_signal_stops_at_once(tmp_path: Path) -> None:
    with (
        broker_process(settings_file(tmp_path)) as (process, endpoint),
        RawClient(endpoint) as client,
        RawWorker(endpoint) as worker,
    ):
        client.submit("echo", b"held")
        worker.take()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "draining" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0


def test_sighup_reads_the_settings_again(tmp_path: Path) -> None:
    path = settings_file(tmp_path)
    with broker_process(path) as (process, _):
        path.write_text('identity = "under-test"\nliveness = 5\n')
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        while "settings read again" not in process.stderr.readline():
            assert process.poll() is None
