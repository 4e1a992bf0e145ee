"""What can run in README and `docs/`, runs: against a real broker, with the workers that the documents show.

A block with a title is a file. One in Python is a worker's, and is started as a process of its own. Any other Python
block is executed, and what it prints must be what its comments `# prints: …` say (`|` parts lines).

In a console block each `$ scale0 …` line is run and its output compared, errors included; commands that do not end by
themselves end with the test. A block that starts brokers is a play of its own: these run on free ports, whatever
addresses are shown, and in what comes out times, ages and hashes may differ. Where a file says on which addresses its
brokers listen, it gets free ones too.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import scale0.testing
from scale0 import Client

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUN_ELSEWHERE = ("spark.md",)  # one program, on one Spark: tests/pipeline/test_spark_doc.py
SHOWN_ENDPOINT = "tcp://127.0.0.1:5555"
LIMIT_S = 120
SETTLING_S = 3.0
ENDLESS = ("broker", "worker")
LISTINGS = ("network", "services", "workers")
LIVENESS = 6
LOOK_S = 0.05  # between two looks
_pause = threading.Event()  # never set


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
        if document.name in RUN_ELSEWHERE:
            continue
        text = document.read_text()
        for found in fence.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(document, line, found[1], found[2] or "", found[3])


BLOCKS = list(blocks())
FILES = [block for block in BLOCKS if block.title]
WORKERS = [block for block in FILES if block.language == "python"]
SCRIPTS = [block for block in BLOCKS if block.language == "python" and not block.title]
CONSOLE = [block for block in BLOCKS if block.language == "console" and "$ scale0" in block.text]
PLAYS = [block for block in CONSOLE if "$ scale0 broker" in block.text]
COMMANDS = [block for block in CONSOLE if block not in PLAYS]
RECORDED = [block for block in BLOCKS if block.language == "sh" and "scale0 pipeline run" in block.text]


def write_files(folder: Path, endpoint: str) -> None:
    """The documents' files, with the address of a broker that is there."""
    for block in FILES:
        text = block.text.replace(SHOWN_ENDPOINT, endpoint) if block.language == "python" else block.text
        (folder / block.title).write_text(text)


def commands_of(block: Block) -> list[tuple[list[str], str]]:
    """What is typed after `scale0`, and what comes out."""
    found = re.findall(r"^\$ scale0 (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    return [(shlex.split(typed, comments=True), output) for typed, output in found]


def lists_brokers(name: str) -> bool:
    """Whether the documents' file of this name says where brokers listen."""
    return any(block.title == name and "[[brokers]]" in block.text for block in FILES)


class Stage(NamedTuple):
    """A broker, the documents' workers, and where their files are."""

    endpoint: str
    folder: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "SCALE0_BROKER": self.endpoint, "NO_COLOR": "1", "PYTHONPATH": str(self.folder)}

    def start(self, words: list[str], **variables: str) -> subprocess.Popen[str]:
        """A command that does not end by itself."""
        return subprocess.Popen(
            [sys.executable, "-m", "scale0", *words],
            env={**self.environment(), **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE if words[0] == "broker" else subprocess.DEVNULL,
            text=True,
        )

    def run(self, words: list[str], **variables: str) -> str:
        """What a command says, on stdout and stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "scale0", *words],
            env={**self.environment(), **variables},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("documents")
    processes: list[subprocess.Popen[bytes]] = []
    with scale0.testing.broker(default_heartbeat_interval_s=SETTLING_S / LIVENESS, liveness=LIVENESS) as broker:
        stage = Stage(broker.endpoint, folder)
        write_files(folder, broker.endpoint)
        for block in WORKERS:
            command = [sys.executable, str(folder / block.title)]
            processes.append(subprocess.Popen(command, env=stage.environment(), cwd=folder))
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
    wanted = {name for block in WORKERS for name in re.findall(r'@worker\.service\("(\w+)"', block.text)}
    until_s = time.monotonic() + LIMIT_S
    with Client(endpoint) as client:
        while time.monotonic() < until_s:
            listing = client.call("scale0.services")
            served = {row["name"] for row in listing["rows"] if row["workers"]}
            if served >= wanted and listing["broker"]["uptime_us"] > SETTLING_S * 1e6:
                return
            _pause.wait(LOOK_S)
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
    for words, output in commands_of(block):
        assert words[0] not in ENDLESS, "whoever starts a worker shows the broker too"
        assert stage.run(words) == output


# --- plays ----------------------------------------------------------------------------------------------------------


class Play:
    """A console block with brokers of its own. Addresses as they are shown stand for those that were really bound."""

    def __init__(self, block: Block, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []
        self._real: dict[str, str] = {}
        self._reserved: list[socket.socket] = []
        self._listing = {name for name in re.findall(r"--config (\S+)", block.text) if lists_brokers(name)}
        write_files(folder, SHOWN_ENDPOINT)
        for name in self._listing:
            for shown in re.findall(r"tcp://127\.0\.0\.1:\d+", (folder / name).read_text()):
                self._real[shown] = self._reserve()
        self._write_files()
        exported = [
            word.partition("=")
            for line in re.findall(r"^\$ export (.*)", block.text, re.MULTILINE)
            for word in shlex.split(line)
        ]
        self._variables = {name: value for name, _, value in exported} | {
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        if "SCALE0_AUTH_ID" in self._variables:  # the document has shown how such a user is added
            user = {self._variables["SCALE0_AUTH_ID"]: self._variables["SCALE0_AUTH_PASSWORD"]}
            scale0.testing.managed_by(folder / "config" / "scale0", user)

    def _reserve(self) -> str:
        """A free port that stays so: it is bound here, and who listens there may bind it too."""
        reserved = socket.socket()
        self._reserved.append(reserved)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{reserved.getsockname()[1]}"

    def _write_files(self) -> None:
        write_files(self.folder, self._real.get(SHOWN_ENDPOINT, SHOWN_ENDPOINT))
        for name in self._listing:
            text = (self.folder / name).read_text()
            for shown, real in self._real.items():
                text = text.replace(shown, real)
            (self.folder / name).write_text(text)

    def end(self) -> None:
        for process in self.started:
            process.kill()
        for process in self.started:
            process.communicate(timeout=LIMIT_S)
        for reserved in self._reserved:
            reserved.close()

    def perform(self, words: list[str], output: str) -> None:
        words = [self._real.get(word, word) for word in words]
        if words[0] == "broker":
            self._start_broker(words)
        elif words[0] in ENDLESS:
            self.started.append(self._stage.start(words, **self._variables))
        elif words[0] in LISTINGS or words[:2] == ["config", "history"]:
            self._await(words, output)
        else:
            assert self._masked(self._stage.run(words, **self._variables)) == self._masked(output)
        if words[0] in ENDLESS:
            assert not output, "what does not end by itself is shown without its output"

    @property
    def _stage(self) -> Stage:
        return Stage(self._real.get(SHOWN_ENDPOINT, ""), self.folder)

    def _start_broker(self, words: list[str]) -> None:
        shown = words.pop(words.index("--bind") + 1) if "--bind" in words else SHOWN_ENDPOINT
        if "--bind" in words:
            words.remove("--bind")
        if not self._listing.intersection(words):
            words = [*words, "--bind", "tcp://127.0.0.1:0"]
        broker = self._stage.start(words, **self._variables)
        self.started.append(broker)
        assert broker.stdout is not None
        found = re.search(r"ready on (\S+)", broker.stdout.readline())
        assert found, "it did not start"
        bound = found[1]
        self._real.setdefault(shown, bound)  # a second one without an address takes a free port
        self._write_files()
        if "--join" in words:
            self._await_joined(bound)

    def _await_joined(self, bound: str) -> None:
        """Who types the next command does so when the broker has joined."""
        until_s = time.monotonic() + LIMIT_S
        while "joining" in (seen := self._stage.run(["network", "--json", "--broker", bound], **self._variables)):
            assert time.monotonic() < until_s, seen

    def _await(self, words: list[str], output: str) -> None:
        """A listing follows the network: it is asked for until it shows what the document says."""
        until_s = time.monotonic() + LIMIT_S
        while (seen := self._masked(self._stage.run(words, **self._variables))) != self._masked(output):
            assert time.monotonic() < until_s, seen
            assert all(process.poll() is None for process in self.started), "it ended by itself"

    def _masked(self, text: str) -> str:
        """Without what is another one each time: addresses, hashes, times, and how many blanks make a column."""
        for shown, real in self._real.items():
            text = text.replace(real, shown)
        text = re.sub(r"(\d+\.\d+)\.[0-9a-f]{8}\b", r"\1.HASH", text)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
        text = re.sub(r" \d+\.\d+$", " AGE", text, flags=re.MULTILINE)
        text = re.sub(r"after [\d.,]+ m?s", "after TIME", text)
        return re.sub(r"[ ]+", " ", text)


@pytest.mark.parametrize("block", PLAYS, ids=str)
def test_console_block_that_starts_brokers_shows_what_comes_out(block: Block, tmp_path: Path) -> None:
    play = Play(block, tmp_path)
    try:
        for words, output in commands_of(block):
            play.perform(words, output)
        assert all(process.poll() is None for process in play.started), "it ended by itself"
    finally:
        play.end()


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for target in re.findall(r"(?:`|\$ )make ([a-z][\w-]*)", document.read_text()):
            assert target in targets, f"{document.name}: make {target}"


def test_every_command_that_the_readme_names_exists() -> None:
    from scale0.cli.main import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups if group.name}
    named = set(re.findall(r"`scale0 ([a-z][a-z-]*)", (ROOT / "README.md").read_text()))
    assert named <= known


@pytest.mark.slow
@pytest.mark.parametrize("block", RECORDED, ids=str)
def test_shell_block_that_records_ends_in_a_report(block: Block, tmp_path: Path) -> None:
    """The commands as they are typed; what needs the first segment is typed again until it has come."""
    variables = {"XDG_STATE_HOME": str(tmp_path / "state")}
    stage = Stage("", tmp_path)
    typed = re.findall(r"^scale0 (.*)", block.text, re.MULTILINE)
    first, *others = [shlex.split(line, comments=True) for line in typed]
    broker = stage.start([*first, "--bind", "tcp://127.0.0.1:0"], **variables)
    try:
        for words in others:
            until_s = time.monotonic() + LIMIT_S
            while "no segments" in (said := stage.run(words, **variables)):
                assert time.monotonic() < until_s, said
                _pause.wait(LOOK_S)
            assert "error" not in said
        assert list(tmp_path.glob("*.html"))
    finally:
        broker.kill()
        broker.communicate(timeout=LIMIT_S)
