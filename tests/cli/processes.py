"""Real processes of the command line, each ended with its test."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 120.0  # far beyond what anything here takes; only a hang reaches it
MODULE_LIMIT_S = 600.0  # for what serves all tests of a module
READY = re.compile(r"^scale0 broker (\S+) ready on (.+)$")


def environment(broker: str = "", **more: str) -> dict[str, str]:
    """This process's environment without what would change the command line's answers."""
    unset = {"SCALE0_BROKER", "SCALE0_DEBUG", "SCALE0_AUTH_ID", "SCALE0_AUTH_PASSWORD", "NO_COLOR", "FORCE_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    return {**kept, **({"SCALE0_BROKER": broker} if broker else {}), **more}


def scale0(
    *arguments: str, broker: str = "", stdin: bytes = b"", limit_s: float = LIMIT_S, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "scale0", *arguments],
        input=stdin,
        capture_output=True,
        timeout=limit_s,
        cwd=ROOT,
        env=environment(broker, **variables),
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@contextlib.contextmanager
def running(
    *arguments: str, broker: str = "", limit_s: float = LIMIT_S, **variables: str
) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on until it is told to stop, with its stdout to read."""
    child = subprocess.Popen(
        [sys.executable, "-m", "scale0", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(broker, PYTHONUNBUFFERED="1", **variables),
    )
    guard = threading.Timer(limit_s, child.kill)  # a test that waits for its output must not wait for ever
    guard.start()
    try:
        yield child
    finally:
        guard.cancel()
        if child.poll() is None:
            child.kill()
        child.communicate()


@contextlib.contextmanager
def broker(*arguments: str, limit_s: float = LIMIT_S) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker on a free port, and its address."""
    with running("broker", "--bind", "tcp://127.0.0.1:0", "--quiet", *arguments, limit_s=limit_s) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        found = READY.match(line.strip())
        assert found, f"no ready line: {line!r} {child.communicate()}"
        yield child, found[2].split()[0]


def await_answer(address: str, service: str, answer: str) -> None:
    """Call a service until its outcome says `answer`. Each call waits in the broker, so this does not spin."""
    for _attempt in range(100):
        done = scale0("call", service, '"Ada"', "--timeout", "10", broker=address)
        if answer in done.stdout + done.stderr:
            return
    raise AssertionError(f"{service} never answered {answer!r}: {done.stdout}{done.stderr}")


def end(child: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str]:
    """Ask the process to end; its exit code and its stderr."""
    child.send_signal(number)
    _out, err = child.communicate(timeout=LIMIT_S)
    return child.returncode, err
