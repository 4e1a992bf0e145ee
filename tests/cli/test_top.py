"""scale0 top on a screen that a test can press keys on, against a real broker over MANAGEMENTREQ."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import select
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from scale0 import Worker, testing
from scale0.cli.ctl_doors import RequestDoor
from scale0.cli.manage_command import Credentials
from scale0.cli.top import Top
from scale0.cli.top_dialogs import Choice, Confirm, Detail, Help
from scale0.cli.top_table import ListingTable
from scale0.testing import TestBroker
from tests.cli.processes import LIMIT_S, ROOT, environment, scale0

OPS = Credentials("ops", "secret")
HOSTILE = "w-[red]"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    folder = tmp_path_factory.mktemp("top")
    with testing.broker(identity="eu-1", management=testing.managed_by(folder, {"ops": "secret"})) as running:
        workers = [Worker(running.endpoint, identity=name) for name in ("w-1", HOSTILE)]
        with contextlib.ExitStack() as ends:
            for worker in workers:
                worker.add_service("greet", lambda name="you": f"hello {name}")
                ends.enter_context(worker)
            yield running


async def until(pilot: Pilot[int], is_so: Callable[[], bool]) -> None:
    """Let the screen go on until something is so."""

    async def look() -> None:
        while not is_so():
            await pilot.pause(0.02)

    await asyncio.wait_for(look(), LIMIT_S)


@contextlib.asynccontextmanager
async def shown(broker: TestBroker, **options: object) -> AsyncIterator[tuple[Top, Pilot[int]]]:
    app = Top(RequestDoor([broker.endpoint], OPS, 10.0), **options)  # type: ignore[arg-type]
    async with app.run_test(size=(110, 32)) as pilot:
        await until(pilot, lambda: app.seen.overview is not None and len(below(app)._rows) == 2)
        yield app, pilot


def below(app: Top) -> ListingTable:
    return app.query_one("#below", ListingTable)


def chosen(app: Top) -> str:
    """Whom the cursor is on; figures of a row may be newer at the next look."""
    return str((below(app).row or {}).get("identity", ""))


def test_verdict_figures_services_and_workers_are_shown(broker: TestBroker, tmp_path: Path) -> None:
    async def look() -> None:
        async with shown(broker) as (app, pilot):
            await pilot.pause()
            picture = app.export_screenshot().replace("&#160;", " ")
            for words in ("tasks/s", "SERVICES", "greet", "WORKERS", "w-1", HOSTILE, "eu-1", "live"):
                assert words in picture, words
            (tmp_path / "top.svg").write_text(picture)

    asyncio.run(look())


def test_the_pages_keys_move_filter_and_go(broker: TestBroker) -> None:
    async def press() -> None:
        async with shown(broker) as (app, pilot):
            first = chosen(app)
            await pilot.press("j")
            await until(pilot, lambda: chosen(app) not in ("", first))
            await pilot.press("k")
            await until(pilot, lambda: chosen(app) == first)
            await pilot.press("slash", *"id:w-1", "enter")
            await until(pilot, lambda: [row["identity"] for row in below(app)._rows] == ["w-1"])
            await pilot.press("escape")
            await until(pilot, lambda: app.words == "")
            await pilot.press("e")
            await until(pilot, lambda: app.words == "is:problem")
            await pilot.press("e")
            await until(pilot, lambda: app.words == "" and len(below(app)._rows) == 2)
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, Detail))
            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, Detail))
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, Help))
            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, Help))
            await pilot.press("g", "b")
            await until(pilot, lambda: [row.get("identity") for row in below(app)._rows] == ["eu-1"])
            assert app.below == "network"
            await pilot.press("g", "s")
            await until(pilot, lambda: app.current.listing == "services")

    asyncio.run(press())


def test_it_only_looks_unless_it_may_operate(broker: TestBroker) -> None:
    async def press() -> None:
        async with shown(broker) as (app, pilot):
            await pilot.press("x")
            await pilot.pause()
            assert not isinstance(app.screen, Choice)

    asyncio.run(press())


def test_an_operator_sends_a_test_task_and_leaves_a_worker_alone(broker: TestBroker) -> None:
    told: list[str] = []

    async def press() -> None:
        async with shown(broker, is_operating=True) as (app, pilot):
            app.notify = lambda message, **_options: told.append(message)  # type: ignore[method-assign]
            await pilot.press("x")
            await until(pilot, lambda: isinstance(app.screen, Choice))
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, Confirm | Choice))
            await pilot.press("g", "s")
            await until(pilot, lambda: app.current.listing == "services")
            await pilot.press("x")
            await until(pilot, lambda: isinstance(app.screen, Choice))
            await pilot.press("enter")
            await until(pilot, lambda: any("answered by" in message for message in told))

    asyncio.run(press())
    assert broker.listing("workers")["total"] == 2


def test_what_is_dangerous_wants_the_name(broker: TestBroker) -> None:
    async def press() -> None:
        async with shown(broker, is_operating=True) as (app, pilot):
            await pilot.press("g", "b")
            await until(pilot, lambda: bool(below(app)._rows) and app.below == "network")
            await pilot.press("x")
            await until(pilot, lambda: isinstance(app.screen, Choice))
            await pilot.press("j", "enter")  # Disable
            await until(pilot, lambda: isinstance(app.screen, Confirm))
            await pilot.press(*"eu-9", "enter")
            await until(pilot, lambda: app.screen.query_one(Input).value == "eu-9")
            assert isinstance(app.screen, Confirm)
            assert app.screen.query_one("#do").disabled
            app.screen.query_one(Input).value = ""
            await pilot.press(*"eu-1")
            await until(pilot, lambda: not app.screen.query_one("#do").disabled)
            await pilot.press("escape")

    asyncio.run(press())
    assert broker.listing("brokers")["broker"]["state"] == "active"


def test_old_answers_are_told_and_actions_are_off(broker: TestBroker) -> None:
    now_s = 1_000.0

    async def age() -> None:
        nonlocal now_s
        async with shown(broker, is_operating=True, now_s=lambda: now_s) as (app, pilot):
            app._ended.set()  # nothing newer is heard
            now_s += 14.0
            await until(pilot, lambda: app.query_one("#banner").display)
            assert app.is_stale
            assert app.has_class("stale")
            await pilot.press("x")
            assert not isinstance(app.screen, Choice)

    asyncio.run(age())


def test_a_broker_that_is_gone_is_told(tmp_path: Path) -> None:
    async def look() -> None:
        app = Top(RequestDoor(["tcp://127.0.0.1:1"], OPS, 0.2))
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda: app.query_one("#banner").display)
            assert "no broker at tcp://127.0.0.1:1" in app.seen.error

    asyncio.run(look())


def test_an_answer_that_comes_while_the_screen_is_taken_down_goes_nowhere(broker: TestBroker) -> None:
    async def end() -> None:
        async with shown(broker) as (app, _pilot):
            await app.query_one("#head").remove()
            app.show_all()
            app.show_clock()

    asyncio.run(end())


def test_without_a_terminal_it_says_what_to_do_instead(broker: TestBroker) -> None:
    done = scale0("top", broker=broker.endpoint, SCALE0_AUTH_ID="ops", SCALE0_AUTH_PASSWORD="secret")
    assert done.returncode == 2
    assert "scale0 ctl overview --watch" in done.stderr


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_q_and_ctrl_c_end_it_cleanly(broker: TestBroker, key: bytes) -> None:
    ours, theirs = pty.openpty()
    variables = {"SCALE0_AUTH_ID": "ops", "SCALE0_AUTH_PASSWORD": "secret", "TERM": "xterm-256color"}
    variables |= {"NO_COLOR": "1", "COLUMNS": "100", "LINES": "30"}
    child = subprocess.Popen(
        [sys.executable, "-m", "scale0", "top"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,  # where Textual draws
        cwd=ROOT,
        env=environment(broker.endpoint, **variables),
        start_new_session=True,
    )
    os.close(theirs)
    guard = threading.Timer(LIMIT_S, child.kill)
    guard.start()
    seen = b""
    try:
        while select.select([ours], [], [], LIMIT_S)[0]:
            try:
                seen += os.read(ours, 65_536)
            except OSError:
                break
            if b"WORKERS" in seen and key:
                os.write(ours, key)
                key = b""
        assert child.wait(LIMIT_S) == 0
        assert b"Traceback" not in seen
        assert b"\x1b[?1049l" in seen  # the screen that was there before is back
    finally:
        guard.cancel()
        child.kill()
        child.wait()
        os.close(ours)
