"""No secret leaves its place: neither in a log at DEBUG, nor in a process's arguments, nor in an answer of the API.

A real broker, encrypted, with users, a page, a scrape token, a webhook and a collector whose addresses hold secrets; it
is asked through every door, with the right credentials and with wrong ones. Then everything that it wrote and answered
is searched for each of the secrets.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scale0.management.vocabulary import LISTINGS
from tests.management.receivers import Receiver, receiver

LIMIT_S = 60.0
PASSWORD, WRONG_PASSWORD = "R1ght-P4ssword-of-ana", "Wr0ng-P4ssword-of-ana"
WEBHOOK_SECRET, COLLECTOR_SECRET = "W3bh00k-T0ken", "C0llector-T0ken"
WRONG_TOKEN = "Wr0ng-Scr4pe-T0ken"


class Place:
    """A home of its own, and the commands of `scale0` in it."""

    def __init__(self, home: Path, collector: Receiver) -> None:
        self.home = home
        self.config = home / "config" / "scale0"
        self.printed: list[str] = []
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SCALE0_", "OTEL_"))}
        places = {"XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state"), "HOME": str(home)}
        self.environment = {**clean, **places, "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={COLLECTOR_SECRET}"}
        self.run("user", "add", "ana", "--role", "admin", given=PASSWORD)
        self.run("user", "token", str(home / "scrape.token"))
        for name in ("eu-1", "shop"):
            self.run("keys", "new", name)
        self.run("keys", "allow", self.public("shop"), "--name", "shop", "--kind", "any")
        (home / "broker.toml").write_text(
            f"""
            identity = "eu-1"
            [management]
            http = "127.0.0.1:0"
            scrape_token_file = "{home / "scrape.token"}"
            webhook = "{collector.url}/{WEBHOOK_SECRET}"
            otlp = "{collector.url}/v1"
            """
        )

    def run(self, *words: str, given: str = "", **environment: str) -> str:
        """One command; what it printed counts as an answer."""
        command = [sys.executable, "-m", "scale0", *words]
        done = subprocess.run(
            command,
            env={**self.environment, **environment},
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            text=True,
            check=False,
        )
        self.printed.append(done.stdout)
        return done.stdout

    def public(self, name: str) -> str:
        return str(json.loads((self.config / "keys" / f"{name}.key").read_text())["public"])

    def secrets(self) -> dict[str, str]:
        """All of them, by what they are."""
        users = json.loads((self.config / "users.json").read_text())
        hashes = [word for word in json.dumps(users).split('"') if word.startswith("$argon2")]
        assert hashes, "users.json holds hashes"
        return {
            "password": PASSWORD,
            "wrong password": WRONG_PASSWORD,
            "hash": hashes[0],
            "scrape token": (self.home / "scrape.token").read_text().strip(),
            "wrong token": WRONG_TOKEN,
            "webhook": WEBHOOK_SECRET,
            "collector": COLLECTOR_SECRET,
            **{
                f"secret key of {name}": json.loads((self.config / "keys" / f"{name}.key").read_text())["secret"]
                for name in ("eu-1", "shop")
            },
        }


class BrokerProcess:
    """`scale0 broker` with everything on, and its log line by line."""

    def __init__(self, place: Place) -> None:
        command = [sys.executable, "-m", "scale0", "broker", "--config", str(place.home / "broker.toml")]
        command += ["--bind", "tcp://127.0.0.1:0", "--key", "eu-1", "--log-json", "--verbose"]
        self.process = subprocess.Popen(
            command, env=place.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().split()[-1]
        self.lines: list[str] = []
        self._unread: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def expect(self, event: str) -> dict[str, str]:
        """The next line of the log about this."""
        while True:
            line = self._unread.get(timeout=LIMIT_S)
            assert line, f"the broker ended before it logged {event!r}"
            if line.startswith("{") and (told := json.loads(line))["event"] == event:
                found: dict[str, str] = told
                return found

    def end(self) -> None:
        self.process.terminate()
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            self._unread.put(line)
        self._unread.put("")


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiver() as running:
        running.status = 400  # it refuses everything, which is logged
        yield running


def test_no_secret_in_logs_arguments_or_answers(tmp_path: Path, collector: Receiver) -> None:
    place = Place(tmp_path, collector)
    broker = BrokerProcess(place)
    try:
        url = broker.expect("page")["url"]
        answers = asked_over_http(url, place)
        reach = {"SCALE0_BROKER": broker.endpoint, "SCALE0_KEY": "shop", "SCALE0_SERVER_KEY": place.public("eu-1")}
        for password, words in ((PASSWORD, ("audit", "--json")), (WRONG_PASSWORD, ("reload",))):
            place.run("ctl", *words, **reach, SCALE0_AUTH_ID="ana", SCALE0_AUTH_PASSWORD=password)
        broker.expect("denied")
        arguments = arguments_of(broker.process.pid)
    finally:
        broker.end()
    answered = "\n".join(place.printed)
    assert '"command": "reload_config"' in "".join(broker.lines), "commands are lines of the log"
    assert "eu-1" in answered, "the command line got answers"
    assert len(arguments) >= 2, "the broker's process, and that of its page"
    audit = "".join(path.read_text() for path in tmp_path.rglob("audit*.log"))
    assert "ana" in audit, "the audit trail tells who"
    places = {
        "the log": "".join(broker.lines),
        "process arguments": "\n".join(arguments),
        "answers of the API": "\n".join(answers),
        "what commands print": answered,
        "the audit trail": audit,
    }
    found = [
        f"{what} in {where}" for where, text in places.items() for what, secret in secrets_of(place) if secret in text
    ]
    assert not found


def secrets_of(place: Place) -> list[tuple[str, str]]:
    """Each secret, and as JSON writes it."""
    plain = place.secrets()
    return [*plain.items(), *((f"{what} (as JSON)", json.dumps(secret)[1:-1]) for what, secret in plain.items())]


def asked_over_http(url: str, place: Place) -> list[str]:
    """Everything that the page's process answers to somebody who may see all, and to somebody who may nothing."""
    token = (place.home / "scrape.token").read_text().strip()
    answers: list[str] = []

    def keep(response: httpx.Response) -> None:
        headers = {name: value for name, value in response.headers.items() if name != "set-cookie"}
        answers.append(f"{response.status_code} {headers} {response.text}")

    with httpx.Client(base_url=url, timeout=LIMIT_S) as page:
        keep(page.post("/api/v1/login", json={"user": "ana", "password": WRONG_PASSWORD}))
        keep(page.get("/metrics", headers={"Authorization": f"Bearer {WRONG_TOKEN}"}))
        keep(page.get("/metrics", headers={"Authorization": f"Bearer {token}"}))
        keep(page.get("/api/v1/overview", auth=("ana", PASSWORD)))
        assert page.post("/api/v1/login", json={"user": "ana", "password": PASSWORD}).status_code == 204
        for path in ("/", "/api/v1/me", "/openapi.json", "/healthz", "/readyz", "/no-such-place"):
            keep(page.get(path))
        for name in LISTINGS:
            response = page.get(f"/api/v1/{name}")
            assert response.status_code == 200, f"{name}: {response.text}"
            keep(response)
        for name, arguments in (("reload_config", {}), ("config_check", {"document": "password = 1"}), ("none", {})):
            keep(page.post(f"/api/v1/commands/{name}", json={"arguments": arguments}))
        keep(page.post("/api/v1/logout"))
    return answers


def arguments_of(pid: int) -> list[str]:
    """The arguments of a process and of all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        each = waiting.pop()
        waiting += children.get(each, [])
        found.append(Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
