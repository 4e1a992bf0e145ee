"""What can run in README and `docs/`, runs: against a real broker, with the workers that the documents show.

A Python block with a title is a worker's file; it is started as a process of its own. Any other Python block is
executed, and what it prints must be what its comments `# prints: …` say (`|` parts lines). In a console block each
`$ scale0 …` line is run and its output compared; commands that do not end by themselves end with the test.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import scale0.testing
from scale0 import Client

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHOWN_ENDPOINT = "tcp://127.0.0.1:5555"
LIMIT_S = 60
SETTLING_S = 0.6
ENDLESS = ("broker", "worker")


class Block(NamedTuple):
    document: Path
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks() -> Iterator[Block]:
    fence = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
    for document in DOCUMENTS:
        text = document.read_text()
        for found in fence.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(document, line, found[1], found[2] or "", found[3])


BLOCKS = list(blocks())
FILES = [block for block in BLOCKS if block.title]
SCRIPTS = [block for block in BLOCKS if block.language == "python" and not block.title]
COMMANDS = [block for block in BLOCKS if block.language == "console" and "$ scale0" in block.text]


class Stage(NamedTuple):
    """A broker, the documents' workers, and where their files are."""

    endpoint: str
    folder: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "SCALE0_BROKER": self.endpoint, "NO_COLOR": "1", "PYTHONPATH": str(self.folder)}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("documents")
    processes: list[subprocess.Popen[bytes]] = []
    with scale0.testing.broker(default_heartbeat_interval_s=SETTLING_S / 3, liveness=3) as broker:
        stage = Stage(broker.endpoint, folder)
        for block in FILES:
            file = folder / block.title
            file.write_text(block.text.replace(SHOWN_ENDPOINT, broker.endpoint))
            processes.append(subprocess.Popen([sys.executable, str(file)], env=stage.environment(), cwd=folder))
        try:
            wait_until_served(broker.endpoint)
            yield stage
            for process in processes:
                process.terminate()
            assert [process.wait(LIMIT_S) for process in processes] == [0] * len(processes), "SIGTERM: a clean leave"
        finally:
            for process in processes:
                process.kill()
                process.wait(LIMIT_S)


def wait_until_served(endpoint: str) -> None:
    """Until each service of the documents has a worker, and the broker answers 404 again (rule 4)."""
    wanted = {name for block in FILES for name in re.findall(r'@worker\.service\("(\w+)"', block.text)}
    until_s = time.monotonic() + LIMIT_S
    with Client(endpoint) as client:
        while time.monotonic() < until_s:
            listing = client.call("scale0.services")
            served = {row["name"] for row in listing["rows"] if row["workers"]}
            if served >= wanted and listing["broker"]["uptime_us"] > SETTLING_S * 1e6:
                return
    raise AssertionError(f"not served after {LIMIT_S} s: {wanted - served}")


@pytest.mark.parametrize("block", SCRIPTS, ids=str)
def test_python_block_prints_what_it_says(block: Block, stage: Stage) -> None:
    script = block.text.replace(SHOWN_ENDPOINT, stage.endpoint)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=stage.environment(),
        cwd=stage.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    promised = [line.strip() for said in re.findall(r"# prints: (.*)", block.text) for line in said.split("|")]
    assert done.stdout.splitlines() == promised


@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_console_block_shows_what_comes_out(block: Block, stage: Stage) -> None:
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command, output in re.findall(r"^\$ scale0 (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
            arguments = [sys.executable, "-m", "scale0", *shlex.split(command, comments=True)]
            if arguments[3] in ENDLESS:
                assert not output, "what does not end by itself is shown without its output"
                if arguments[3] == "broker":  # the stage has one; a second one shows that the command line is right
                    arguments += ["--bind", "tcp://127.0.0.1:0"]
                started.append(
                    subprocess.Popen(arguments, env=stage.environment(), cwd=stage.folder, stdout=subprocess.DEVNULL)
                )
                continue
            done = subprocess.run(
                arguments,
                env=stage.environment(),
                cwd=stage.folder,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            assert done.stdout == output, done.stderr
        assert all(process.poll() is None for process in started), "it ended by itself"
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait(LIMIT_S)


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for target in re.findall(r"(?:`|\$ )make ([a-z][\w-]*)", document.read_text()):
            assert target in targets, f"{document.name}: make {target}"


def test_every_command_that_the_readme_names_exists() -> None:
    from scale0.cli.main import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    named = set(re.findall(r"`scale0 ([a-z][a-z-]*)", (ROOT / "README.md").read_text()))
    assert named <= known
