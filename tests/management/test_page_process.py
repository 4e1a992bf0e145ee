"""The process of the page as its broker sees it: started, spoken with, started again, ended. Small programs play it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scale0.errors import ProtocolError, SettingsError
from scale0.management import page_process
from scale0.management.channel import Hello
from scale0.management.page_process import PageProcess
from scale0.management.vocabulary import Role
from scale0.transport.logs import make_log
from tests.management.engine import LIMIT_S, FakeEngine, gate_at, settle

PRELUDE = """
import asyncio, os, socket, sys
from scale0.management.channel import *
from scale0.management.vocabulary import Principal, Role
async def main():
    page = await PageChannel.open(socket.socket(fileno=0))
    pushed = asyncio.Queue()
    page.on_push = lambda topic, payload: pushed.put_nowait((topic, payload))
    ann = Principal("ann", Role.OPERATE, "http", "10.0.0.7")
"""
UP = """
    page.say(Listening("http://127.0.0.1:1"))
"""
WAIT = """
    await page.closed()
asyncio.run(main())
"""


@contextmanager
def page_of(directory: Path, engine: FakeEngine, *parts: str) -> Iterator[PageProcess]:
    program = "".join((PRELUDE, *parts, WAIT))
    with gate_at(directory, engine) as gate:
        hello = Hello("b1", "prod", "1.0", "", [], {})
        page = PageProcess(gate, hello, make_log(is_quiet=True), command=(sys.executable, "-c", program))
        gate.events.on_event = lambda row: page.push("event", row)
        page.begin()
        try:
            yield page
        finally:
            page.close()


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, what
        threading.Event().wait(0.02)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


def test_it_is_up_when_it_says_so_and_ends_with_its_channel(tmp_path: Path, engine: FakeEngine) -> None:
    with page_of(tmp_path, engine, UP) as page:
        assert page.url() == "http://127.0.0.1:1"
        assert page.why == ""
        pid = page.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_it_asks_passes_the_gate(tmp_path: Path, engine: FakeEngine) -> None:
    asks = """
    done = await page.ask(ann, "drain", {}, command_id="c-1")
    assert done == {"done": "drain"}, done
    try:
        await page.ask(ann, "takeover", {})
    except Exception as error:
        assert error.code == 403, error
    topic, row = await pushed.get()
    assert (topic, row["command_id"]) == ("event", "c-1"), row
    page.denied("eve", "10.0.0.9", "login", 401)
    """
    with page_of(tmp_path, engine, asks, UP) as page:
        page.url()
        assert [command for command, _ in engine.asked] == ["drain"]
        gate = page._gate
        assert gate.audit is not None
        until(lambda: gate.audit is not None and len(gate.audit.rows) == 4, "all is audited")
        settle(gate)
        assert [(row["user"], row["command"], row["outcome"], row["door"]) for row in reversed(gate.audit.rows)] == [
            ("ann", "drain", "begun", "http"),
            ("ann", "drain", "done", "http"),
            ("ann", "takeover", "denied", "http"),
            ("eve", "login", "denied", "http"),
        ]


def test_one_that_dies_is_started_again_after_a_pause(tmp_path: Path, engine: FakeEngine) -> None:
    mark = tmp_path / "mark"
    dies = f"""
    if not os.path.exists({str(mark)!r}):
        open({str(mark)!r}, "w").close()
        os._exit(7)
    """
    with page_of(tmp_path, engine, dies, UP) as page:
        assert page.url() == "http://127.0.0.1:1"


def test_one_that_cannot_be_up_says_why_and_is_not_started_again(tmp_path: Path, engine: FakeEngine) -> None:
    fails = """
    page.say(Failed("the port is taken"))
    await page._writer.drain()
    os._exit(3)
    """
    with page_of(tmp_path, engine, fails) as page:
        with pytest.raises(SettingsError, match="the port is taken"):
            page.url()
        page._thread.join(LIMIT_S)
        assert page.why == "the port is taken"
        assert page.pid == 0


def test_a_token_is_told_by_its_hash_and_forgotten_when_it_was_used(tmp_path: Path, engine: FakeEngine) -> None:
    uses = """
    while True:
        topic, token = await pushed.get()
        assert topic == "token" and set(token) == {"hash", "role", "until_s"}, token
        page.say(Used(token["hash"]))
    """
    with page_of(tmp_path, engine, UP, uses) as page:
        page.url()
        text = page.new_token(Role.VIEW)
        assert len(text) >= 43
        assert text not in page._tokens, "only its hash is kept"
        until(lambda: not page._tokens, "it was used")


def test_tokens_that_wait_are_told_to_a_new_process_and_end_with_time(
    tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_process, "TOKENS_MAX", 3)
    looks = """
    assert [token.role for token in page.hello.tokens] == ["admin"], page.hello.tokens
    """
    with gate_at(tmp_path, engine) as gate:
        program = "".join((PRELUDE, looks, UP, WAIT))
        hello = Hello("b1", "prod", "1.0", "", [], {})
        page = PageProcess(gate, hello, make_log(is_quiet=True), command=(sys.executable, "-c", program))
        page.new_token(Role.VIEW, for_s=-1.0)
        page.new_token(Role.ADMIN)
        page.begin()
        assert page.url() == "http://127.0.0.1:1"
        page.new_token(Role.VIEW)
        page.new_token(Role.VIEW)
        with pytest.raises(ProtocolError, match="3 tokens wait"):
            page.new_token(Role.VIEW)
        page.close()


def test_one_that_takes_nothing_any_more_is_started_anew(
    tmp_path: Path, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_process, "WAITING_MAX", 10)
    monkeypatch.setattr(page_process, "END_S", 0.2)
    mark = tmp_path / "mark"
    stuck = f"""
    if not os.path.exists({str(mark)!r}):
        open({str(mark)!r}, "w").close()
        import signal
        signal.pause()
    """
    with page_of(tmp_path, engine, UP, stuck) as page:
        page.url()
        first = page.pid
        until(mark.exists, "it is stuck")

        def is_anew() -> bool:
            page.push("event", {"text": "x" * 100_000})
            return page.pid not in (0, first)

        until(is_anew, "it is started anew")
