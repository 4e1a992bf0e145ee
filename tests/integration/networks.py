"""Networks of real broker processes on loopback: start them, break them, ask them, and wait until something is so.

Each broker is `scale0 broker` with a settings file, a state directory and a port of its own. It is asked by
MANAGEMENTREQ, which needs no session: so nobody who asks is counted as a client, or sent away by a broker that drains.
Nothing here waits for a time: `until` looks again and again until what is waited for is so, and only a hang reaches its
limit.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from scale0.client.manager import manage
from scale0.errors import Scale0Error
from scale0.testing import managed_by
from tests.cli.processes import ROOT, environment

LIMIT_S = 90.0  # far beyond what anything here takes; only a hang reaches it
LOOK_S = 0.03  # between two looks
ASK_S = 20.0  # one answer of a broker
INTERVAL_S = 0.3  # of heartbeats: short, so that silence is noticed soon
PATIENCE = 10  # `liveness` where nobody is to be missed: a busy machine keeps anyone waiting for some intervals
ANY_PORT = "tcp://127.0.0.1:0"
OPERATOR, PASSWORD = "ops", "a secret for tests"

_READY = re.compile(r"^scale0 broker (\S+) ready on (.+)$")
_pause = threading.Event()  # never set

Row = dict[str, Any]
Keys = dict[str, Any]


def until(is_so: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    """Look until it is so. A broker that does not answer is looked at again; `what` says what was waited for."""
    end_s = time.monotonic() + limit_s
    while True:
        trouble = ""
        try:
            if is_so():
                return
        except Scale0Error as error:
            trouble = f" ({error})"
        assert time.monotonic() < end_s, f"not within {limit_s:g} s: {what}{trouble}"
        _pause.wait(LOOK_S)


def document(**keys: Any) -> Keys:
    """Keys of a network's document for tests: quick heartbeats, and a name that no other network has."""
    return {"network": "under-test", "default_heartbeat_interval": INTERVAL_S, **keys}


class BrokerProcess:
    """One broker. Its address stays the same from its first start on; what it logs is kept."""

    def __init__(
        self,
        identity: str,
        directory: Path,
        keys: Keys,
        *,
        seeds: Sequence[str] = (),
        options: Sequence[str] = (),
        bind: str = ANY_PORT,
        door: str = "",
        command: Sequence[str] = (),
    ) -> None:
        self.identity = identity
        self.endpoint = bind
        self._door = door  # where tests come in, if they cannot reach `endpoint`
        self.seeds = list(seeds)
        self.directory = directory
        self.file = directory / f"{identity}.toml"
        self.state_dir = directory / f"{identity}-state"
        self.is_ready = False  # its ports are bound
        self.said: list[Row] = []  # its log, oldest first, over all its lives
        self._options = list(options)
        self._command = list(command)  # what comes before the command line: a namespace to run in
        self._process: subprocess.Popen[str] | None = None
        self.write(keys)

    def write(self, keys: Keys) -> None:
        """Put these keys into its settings file."""
        # Beside the state: a file that is open for writing would keep the state's disk from being made read-only.
        audit = {"audit": f"audit-{self.identity}.log"}
        management = managed_by(self.directory, {OPERATOR: PASSWORD}) | audit
        self.file.write_text(tomli_w.dumps({**keys, "management": management}))

    @property
    def door(self) -> str:
        """Where this process reaches it."""
        return self._door or self.endpoint

    # --- its life ---------------------------------------------------------------------------------------------------

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, f"{self.identity} does not run"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Begin to start it; `await_ready` sees it through."""
        assert self._process is None, f"{self.identity} runs already"
        arguments = ["broker", "--identity", self.identity, "--config", str(self.file), "--bind", self.endpoint]
        arguments += ["--state-dir", str(self.state_dir), "--log-json", *self._options]
        for seed in self.seeds:
            arguments += ["--join", seed]
        self._process = subprocess.Popen(
            [*self._command, sys.executable, "-m", "tests.integration.broker_process", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def await_ready(self) -> None:
        """Until it has bound its ports."""
        process = self.process
        assert process.stdout is not None
        guard = threading.Timer(LIMIT_S, process.kill)
        guard.start()
        found = _READY.match(process.stdout.readline().strip())
        guard.cancel()
        assert found, f"{self.identity} did not start: {self.said[-5:]}"
        self.endpoint = found[2].split()[0]
        self.is_ready = True

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """SIGTERM: it drains, and ends. Its exit code."""
        self.process.terminate()
        return self._reap()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)

    def end(self) -> None:
        """Whatever it does: it is over."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def _reap(self) -> int:
        process, self._process = self.process, None
        self.is_ready = False
        try:
            return process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT_S)
            raise AssertionError(f"{self.identity} did not end within {LIMIT_S:g} s: {self.said[-5:]}") from None
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self.said.append(json.loads(line) if line.startswith("{") else {"event": line.rstrip()})

    # --- what it says -------------------------------------------------------------------------------------------------

    def manage(self, command: str, **arguments: Any) -> Any:
        """Have it carry out an operator's command."""
        return manage(self.door, command, arguments, auth_id=OPERATOR, auth_password=PASSWORD, timeout_s=ASK_S)

    def rows(self, what: str) -> list[Row]:
        rows: list[Row] = self.manage("list", what=what)["rows"]
        return rows

    def sees(self) -> dict[str, Row]:
        """The network as this broker sees it, by identity."""
        return {row["identity"]: row for row in self.rows("network")}

    def own(self) -> Row:
        return self.sees()[self.identity]

    def counters(self) -> dict[str, int]:
        counted: dict[str, int] = self.rows("brokers")[0]["counters"]
        return counted

    def version(self) -> str:
        return str(self.rows("config")[0]["version"])

    def apply(self, keys: Keys, *, force: bool = False, base: str | None = None) -> str:
        """Apply a document; the version that it got."""
        done = self.manage("config_apply", document=json.dumps(keys), base=base, comment="by a test", force=force)
        return str(done["version"])

    def alarms(self, name: str) -> list[str]:
        return [line["event"] for line in list(self.said) if line.get("alarm") == name]

    def has_said(self, text: str) -> bool:
        return any(text in line["event"] for line in list(self.said))


def until_each(brokers: Iterable[BrokerProcess], is_so: Callable[[BrokerProcess], object], what: str) -> None:
    """Look until it is so at each of the brokers."""
    for broker in brokers:
        until(functools.partial(is_so, broker), f"{broker.identity} {what}")


class BrokerNetwork:
    """Brokers that know one another."""

    def __init__(self, directory: Path, keys: Keys) -> None:
        self.directory = directory
        self.keys = keys
        self.brokers: dict[str, BrokerProcess] = {}

    def __getitem__(self, identity: str) -> BrokerProcess:
        return self.brokers[identity]

    @property
    def endpoints(self) -> list[str]:
        return [broker.endpoint for broker in self.brokers.values()]

    @property
    def running(self) -> list[BrokerProcess]:
        return [broker for broker in self.brokers.values() if broker.is_running]

    def add(self, *identities: str, keys: Keys | None = None, **options: Any) -> list[BrokerProcess]:
        """More brokers, that join by those that run. They start side by side; the very first starts alone."""
        for identity in identities:
            seeds = [broker.endpoint for broker in self.running if broker.is_ready]
            given = {"seeds": seeds, **options}
            made = BrokerProcess(identity, self.directory, {**self.keys, **(keys or {})}, **given)
            self.brokers[identity] = made
            made.launch()
            if not seeds:
                made.await_ready()
        for identity in identities:
            if not self.brokers[identity].is_ready:
                self.brokers[identity].await_ready()
        for broker in self.brokers.values():  # who is started again joins by any of the others
            broker.seeds = [other.endpoint for other in self.brokers.values() if other is not broker]
        return [self.brokers[identity] for identity in identities]

    def await_complete(self) -> None:
        """Until all that run are active, linked with one another, and have one config."""
        missing = ["nobody was asked"]

        def is_complete() -> bool:
            missing[0] = "nobody answers"
            missing[0] = self._missing()
            return not missing[0]

        try:
            until(is_complete, "all brokers are active and linked")
        except AssertionError as error:
            raise AssertionError(f"{error}: {missing[0]}") from None

    def _missing(self) -> str:
        running = self.running
        versions = set()
        for asked in running:
            seen = asked.sees()
            for other in running:
                row = seen.get(other.identity)
                if row is None or row["state"] != "active" or row["link"] not in ("self", "up"):
                    return f"to {asked.identity}, {other.identity} is {row and (row['state'], row['link'])}"
                versions.add(row["config_version"])
        return "" if len(versions) == 1 else f"config versions differ: {versions}"

    def await_services(self, *names: str) -> None:
        """Until somebody serves each of these, and every broker knows of everybody who does."""

        def is_known() -> bool:
            views = {broker.identity: broker.sees() for broker in self.running}
            offered = {identity: set(view[identity]["services"]) & set(names) for identity, view in views.items()}
            are_told = all(
                set(view[identity]["services"]) >= services
                for view in views.values()
                for identity, services in offered.items()
                if identity in view
            )
            return are_told and set().union(*offered.values()) >= set(names)

        until(is_known, f"all brokers know of {', '.join(names)}")

    def workers(self) -> dict[str, int]:
        """How many workers each running broker has."""
        return {broker.identity: broker.own()["workers"] for broker in self.running}

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.end()


@contextlib.contextmanager
def network(directory: Path, *identities: str, group: str = "", **keys: Any) -> Iterator[BrokerNetwork]:
    """These brokers of one group, linked. `keys` are of the document."""
    made = BrokerNetwork(directory, document(**keys, **({"group": group} if group else {})))
    try:
        made.add(*identities)
        made.await_complete()
        yield made
    finally:
        made.end()
