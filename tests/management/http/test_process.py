"""The page's process: real, beside a broker's end of the channel that the test holds, and beside a real broker."""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scale0.core.settings import ManagementSettings
from scale0.errors import SettingsError
from scale0.management import channel
from scale0.management.channel import Answer, Ask, Denied, Failed, FromPage, Hello, Listening, Pushed, Token, Used
from scale0.management.http.process import read_scrape_token, settings_of
from scale0.management.http.sessions import hashed
from scale0.management.users import read_users, write_users
from scale0.testing import broker, managed_by
from tests.management.http.support import LIMIT_S, events, until

MARA = ("mara", "correct horse")
COMMAND = [sys.executable, "-m", "scale0.management.http"]


class Broker:
    """The broker's end of the channel, held by a test."""

    def __init__(self, **settings: Any) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(LIMIT_S)
        self.process = subprocess.Popen(
            COMMAND, stdin=theirs.fileno(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        theirs.close()
        self.settings = {"http": "127.0.0.1:0", **settings}

    def hello(self, users: str = "", tokens: list[Token] | None = None) -> FromPage | None:
        """The process's first word."""
        self.say(Hello("eu-1", "prod", "0.1.0", users, tokens or [], self.settings))
        return channel.read_page(self.ours)

    def say(self, message: Any) -> None:
        self.ours.sendall(channel.frame(message))

    def answer(self) -> FromPage:
        """Answers listings until something else is said."""
        while True:
            said = channel.read_page(self.ours)
            assert said is not None
            if not isinstance(said, Ask) or said.command != "list":
                return said
            head = {"identity": "eu-1", "state": "active"}
            self.say(Answer(said.id, {"schema": "x/1", "at": "now", "complete": True, "broker": head, "rows": []}))

    def end(self) -> int:
        self.ours.close()
        return self.process.wait(LIMIT_S)


@contextlib.contextmanager
def beside(**settings: Any) -> Iterator[Broker]:
    one = Broker(**settings)
    try:
        yield one
    finally:
        one.ours.close()
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait(LIMIT_S)
        assert one.process.stdout is not None
        one.process.stdout.close()


def test_it_listens_where_it_says_and_ends_with_its_broker() -> None:
    with beside() as one:
        said = one.hello()
        assert isinstance(said, Listening)
        assert httpx.get(f"{said.url}/healthz", trust_env=False).text == "ok\n"
        assert one.end() == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{said.url}/healthz", trust_env=False)


def test_a_broker_that_ends_before_its_first_word_leaves_no_process() -> None:
    with beside() as one:
        assert one.end() == 0


def test_nothing_is_in_its_arguments() -> None:
    with beside() as one:
        one.hello(tokens=[Token(hashed("sesame"), "admin", time.time() + 60)])
        said = Path(f"/proc/{one.process.pid}/cmdline").read_bytes().split(b"\0")
        assert said[1:] == [b"-m", b"scale0.management.http", b""]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"http": "0.0.0.0:0"}, "without\n  TLS: set tls_cert"),
        ({"http": "0.0.0.0:0"}, "users: scale0 user add NAME"),
        ({"http": "nowhere"}, "is no address such as 127.0.0.1:8480"),
        ({"tls_cert": "none.pem"}, "cannot be read"),
        ({"scrape_token_file": "none"}, "cannot be read"),
        ({"allowed_hosts": "all"}, "Expected `array`"),
    ],
)
def test_what_is_not_safe_or_cannot_be_does_not_begin(settings: dict[str, Any], said: str) -> None:
    with beside(**settings) as one:
        failed = one.hello()
        assert isinstance(failed, Failed)
        assert said in failed.text
        assert one.process.wait(LIMIT_S) == 3


def test_a_port_that_is_taken_is_told_to_the_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with beside(http=f"127.0.0.1:{port}") as one:
            failed = one.hello()
            assert isinstance(failed, Failed)
            assert failed.text.startswith(f"cannot listen on 127.0.0.1:{port}: Address already in use")


def test_a_users_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    users = Path(managed_by(tmp_path, dict([MARA]))["users"])
    users.chmod(0o644)
    with beside() as one:
        failed = one.hello(str(users))
        assert isinstance(failed, Failed)
        assert "chmod 600" in failed.text


def test_a_token_is_used_once_and_the_broker_hears_of_it() -> None:
    with beside() as one:
        said = one.hello(tokens=[Token(hashed("sesame"), "operate", time.time() + 60)])
        assert isinstance(said, Listening)
        with httpx.Client(base_url=said.url, trust_env=False) as client:
            assert client.post("/api/v1/login/token", json={"token": "sesame"}).status_code == 204
            assert one.answer() == Used(hashed("sesame"))
            assert client.get("/api/v1/me").json()["role"] == "operate"
            assert client.post("/api/v1/login/token", json={"token": "sesame"}).status_code == 401
            assert one.answer() == Denied("one-time token", "127.0.0.1", "login by token", 401)
            one.say(Pushed("token", {"hash": hashed("open"), "role": "view", "until_s": time.time() + 60}))
            until(lambda: client.post("/api/v1/login/token", json={"token": "open"}).status_code == 204)


def test_a_signal_ends_it_gently() -> None:
    with beside() as one:
        one.hello()
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(LIMIT_S) == 0


def test_settings_of_others_are_passed_over() -> None:
    read = settings_of({"http": "127.0.0.1:1", "webhook": "https://x", "tls_cert": "both.pem", "colour": None})
    assert read.tls == ("both.pem", "both.pem")
    assert read.colour == ""


def test_a_scrape_token_is_secret_and_long(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef\n")
    with pytest.raises(SettingsError, match="chmod 600"):
        read_scrape_token(str(path))
    path.chmod(0o600)
    assert read_scrape_token(str(path)) == "0123456789abcdef"
    path.write_text("short")
    with pytest.raises(SettingsError, match="at least 16 characters"):
        read_scrape_token(str(path))
    assert read_scrape_token("") == ""


# --- beside a real broker -------------------------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    told = managed_by(tmp_path, dict([MARA]))
    management = {**told, "http": "127.0.0.1:0", "audit": str(tmp_path / "audit.log")}
    with broker(identity="eu-1", state_dir=tmp_path, management=management) as one:
        yield one, Path(told["users"])


def test_a_real_broker_is_looked_at_and_changed_through_it(page: tuple[Any, Path]) -> None:
    one, _ = page
    with httpx.Client(base_url=one.server.page_url, auth=MARA, timeout=LIMIT_S, trust_env=False) as client:
        for name in ("overview", "services", "workers", "brokers", "network", "tasks", "config", "audit", "alarms"):
            listing = client.get(f"/api/v1/{name}")
            assert listing.status_code == 200, listing.text
            assert listing.json()["broker"]["identity"] == "eu-1"
        assert client.get("/api/v1/overview").json()["verdict"]["text"]
        assert client.get("/readyz").status_code == 200
        with client.stream("GET", "/api/v1/stream?topic=workers") as answer:
            done = httpx.post(
                f"{one.server.page_url}/api/v1/commands/disable",
                json={"command_id": "d-1"},
                auth=MARA,
                timeout=LIMIT_S,
                trust_env=False,
            )
            assert done.status_code == 200, done.text
            live = events(answer)
            told = next(event for event in live if event.name == "event" and event.data["command_id"] == "d-1")
            assert told.data["command"] == "disable", "what the broker itself tells may come before it"
            states = (event.data["document"]["broker"]["state"] for event in live if event.name == "snapshot")
            assert "disabled" in states
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["state"]) == (503, "disabled")
        rows = client.get("/api/v1/audit").json()["rows"]
        assert {(row["command"], row["outcome"]) for row in rows} >= {("disable", "begun"), ("disable", "done")}
        assert client.post("/api/v1/commands/enable", json={}).status_code == 200
        metrics = client.get("/metrics").text
        assert "scale0_up 1.0" in metrics


def test_a_denial_at_the_page_is_in_the_brokers_audit(page: tuple[Any, Path]) -> None:
    one, users = page
    write_users(users, {name: _demoted(user) for name, user in read_users(users).items()})
    with httpx.Client(base_url=one.server.page_url, auth=MARA, timeout=LIMIT_S, trust_env=False) as client:
        assert client.post("/api/v1/commands/config_apply", json={"arguments": {"document": "{}"}}).status_code == 403

        def is_audited() -> bool:
            rows = client.get("/api/v1/audit").json()["rows"]
            return any(row["command"] == "config_apply" and row["outcome"] == "denied" for row in rows)

        until(is_audited)


def test_a_user_who_is_removed_from_the_file_sees_nothing_more(page: tuple[Any, Path]) -> None:
    one, users = page
    with httpx.Client(base_url=one.server.page_url, timeout=LIMIT_S, trust_env=False) as client:
        body = {"user": MARA[0], "password": MARA[1]}
        assert client.post("/api/v1/login", json=body).status_code == 204
        with client.stream("GET", "/api/v1/stream") as answer:
            write_users(users, {})
            assert next(event.data["reason"] for event in events(answer) if event.name == "bye") == "revoked"
        assert client.get("/api/v1/me").status_code == 401


def test_by_default_no_broker_has_a_page() -> None:
    assert ManagementSettings().http == ""
    with broker() as one, pytest.raises(SettingsError, match="--manage"):
        one.server.page_url  # noqa: B018


def test_a_page_whose_process_dies_is_back_at_once(page: tuple[Any, Path]) -> None:
    one, _ = page
    first = one.server.page_url
    os.kill(one.server.management._page.pid, signal.SIGKILL)
    credentials = base64.b64encode(":".join(MARA).encode()).decode()

    def is_back() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            url = one.server.page_url
            headers = {"Authorization": f"Basic {credentials}"}
            return url != first and httpx.get(f"{url}/api/v1/me", headers=headers, trust_env=False).status_code == 200
        return False

    until(is_back, 60)


def _demoted(user: Any) -> Any:
    return type(user)(user.password, "operate")
