"""Live pages: a snapshot a second for all of them, one question for each; what ends a stream, and who is dropped."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any

import httpx
import pytest

from scale0.management.http import streams
from scale0.management.http.shapes import Refused
from scale0.management.http.snapshots import Snapshots, View
from scale0.management.http.streams import Stream, Streams
from scale0.management.vocabulary import Role
from tests.management.http.fake_door import FakeDoor
from tests.management.http.support import LIMIT_S, Event, Running, events, running, until


def first(page: Running, path: str, count: int, user: str = "viewer") -> list[Event]:
    with page.client(user) as client, client.stream("GET", path) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = []
        for event in events(answer):
            found.append(event)
            if len(found) == count:
                break
        return found


def test_a_stream_begins_with_alarms_the_overview_and_its_topic(page: Running) -> None:
    found = first(page, "/api/v1/stream?topic=workers&filter=state:full&sort=-busy&limit=2", 3)
    assert found[0].name == "alarms"
    assert found[0].data[0]["name"] == "service_without_worker"
    assert [event.data["topic"] for event in found[1:]] == ["overview", "workers"]
    document = found[2].data["document"]
    assert document["shown"] == 2
    assert {row["state"] for row in document["rows"]} == {"full"}
    assert found[1].data["document"]["verdict"]["level"] == "bad"
    assert found[1].data["at"]


def test_snapshots_go_on_with_rising_numbers(page: Running) -> None:
    found = first(page, "/api/v1/stream", 4)
    seqs = [event.data["seq"] for event in found if event.name == "snapshot"]
    assert len(seqs) == 3
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("topic=nothing", 400),
        ("topic=workers&filter=colour:red", 400),
        ("topic=workers&filter=hb>soon", 400),
        ("topic=workers&limit=0", 400),
        ("topic=audit", 403),
    ],
)
def test_a_stream_that_cannot_be_is_refused_before_it_begins(page: Running, query: str, code: int) -> None:
    answer = page.get(f"/api/v1/stream?{query}", "viewer")
    assert answer.status_code == code
    assert answer.json()["code"] == code
    assert len(page.site.streams) == 0


def test_asking_for_the_head_of_a_stream_opens_none(page: Running) -> None:
    with page.client("viewer") as client:
        answer = client.head("/api/v1/stream")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_operators_may_follow_the_audit(page: Running) -> None:
    found = first(page, "/api/v1/stream?topic=audit", 3, "operator")
    assert found[2].data["topic"] == "audit"


def test_what_the_broker_says_unasked_reaches_every_page() -> None:
    with running() as page, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(page.client("viewer")) for _ in range(2)]
        answers = [opened.enter_context(client.stream("GET", "/api/v1/stream")) for client in clients]
        until(lambda: len(page.site.streams) == 2)
        page.do(lambda: page.door.push("event", {"command": "drain", "command_id": "7"}))
        page.do(lambda: page.door.push("alarms", []))
        for answer in answers:
            told = [event for event, _ in zip(events(answer), range(5), strict=False) if event.name != "snapshot"]
            assert Event("event", {"command": "drain", "command_id": "7"}) in told
            assert Event("alarms", []) in told


def test_a_command_comes_back_as_an_event_with_its_id() -> None:
    with running() as page, page.client("operator") as client, client.stream("GET", "/api/v1/stream") as answer:
        until(lambda: len(page.site.streams) == 1)
        done = page.post("/api/v1/commands/drain", {"command_id": "abc-1"}, "operator")
        assert done.json()["command_id"] == "abc-1"
        told = next(event for event in events(answer) if event.name == "event")
        assert (told.data["command"], told.data["command_id"]) == ("drain", "abc-1")


def ended(answer: httpx.Response) -> str:
    """The reason of the stream's end."""
    return next(str(event.data["reason"]) for event in events(answer) if event.name == "bye")


def test_logging_out_ends_the_sessions_open_pages() -> None:
    with running() as page, page.logged_in("viewer") as client, client.stream("GET", "/api/v1/stream") as answer:
        until(lambda: len(page.site.streams) == 1)
        with page.client(cookies=client.cookies) as other:
            assert other.post("/api/v1/logout").status_code == 204
        assert ended(answer) == "revoked"
        until(lambda: len(page.site.streams) == 0)


@pytest.mark.parametrize("change", ["removed", "changed"])
@pytest.mark.parametrize("way", ["cookie", "password"])
def test_a_removed_or_changed_user_sees_nothing_more(change: str, way: str) -> None:
    with running() as page:
        client = page.logged_in("operator") if way == "cookie" else page.client("operator")
        with client, client.stream("GET", "/api/v1/stream") as answer:
            until(lambda: len(page.site.streams) == 1)
            users = page.accounts.users
            page.do(lambda: users.pop("operator") if change == "removed" else users.update(operator=Role.VIEW))
            assert ended(answer) == "revoked"


def test_a_broker_that_does_not_answer_delays_no_revocation() -> None:
    with running() as page, page.logged_in("viewer") as client, client.stream("GET", "/api/v1/stream") as answer:
        until(lambda: len(page.site.streams) == 1)
        page.do(page.door.hold)
        page.do(page.accounts.users.clear)
        assert ended(answer) == "revoked"


def test_pages_are_told_when_the_process_stops() -> None:
    with running() as page, page.client("viewer") as client, client.stream("GET", "/api/v1/stream") as answer:
        until(lambda: len(page.site.streams) == 1)
        page.server.stop()
        assert ended(answer) == "stopping"


def test_a_page_that_goes_away_is_forgotten() -> None:
    with running() as page:
        with page.client("viewer") as client, client.stream("GET", "/api/v1/stream"):
            until(lambda: len(page.site.streams) == 1)
        until(lambda: len(page.site.streams) == 0)


def test_there_are_at_most_so_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAMS_MAX", 2)
    with running() as page, contextlib.ExitStack() as opened:
        for _ in range(2):
            client = opened.enter_context(page.client("viewer"))
            opened.enter_context(client.stream("GET", "/api/v1/stream"))
        until(lambda: len(page.site.streams) == 2)
        answer = page.get("/api/v1/stream", "viewer")
        assert answer.status_code == 503
        assert answer.headers["retry-after"]


def test_a_reader_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WRITE_WITHIN_S", 0.2)
    with running(FakeDoor(workers=5_000, services=200)) as page:
        host, port = page.url.removeprefix("http://").split(":")
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.connect((host, int(port)))
        with raw:
            raw.sendall(
                b"GET /api/v1/stream?topic=workers&limit=5000 HTTP/1.1\r\nHost: localhost\r\n"
                b"Authorization: Basic dmlld2VyOnZpZXdlcnZpZXdlcg==\r\n\r\n"
            )
            until(lambda: page.site.streams.dropped == 1)
            until(lambda: len(page.site.streams) == 0)
            until(lambda: not page.server._transports)


def test_a_quiet_stream_says_that_it_lives() -> None:
    async def run() -> None:
        beat = Streams(Snapshots(FakeDoor()), lambda: None)
        stream = Stream("overview", View(), lambda: True)
        await beat.add(stream)
        messages = stream.messages()
        assert (await anext(messages)).startswith(b"retry: ")
        assert b"event: snapshot" in await anext(messages)
        beat.attend(stream.said_s + streams.HEARTBEAT_S / 2)
        beat.attend(stream.said_s + streams.HEARTBEAT_S)
        assert await anext(messages) == b": still here\n\n"
        assert not stream._wake.is_set()

    asyncio.run(run())


def test_snapshots_of_one_beat_leave_in_one_write_and_events_at_once() -> None:
    async def run() -> None:
        snapshots = Snapshots(FakeDoor())
        beat = Streams(snapshots, lambda: None)
        stream = Stream("workers", View(), lambda: True)
        await beat.add(stream)
        messages = stream.messages()
        await anext(messages)
        await anext(messages)
        snapshots.spoil()
        beat.look(0.0)
        told = await anext(messages)
        assert told.count(b"event: snapshot") == 2
        beat.push("event", {"command": "drain"})
        assert (await anext(messages)).startswith(b"event: event")

    asyncio.run(run())


def test_what_was_not_read_is_replaced_and_events_are_bounded() -> None:
    async def run() -> None:
        stream = Stream("workers", View(), lambda: True)
        messages = stream.messages()
        await anext(messages)
        for number in range(1_000):
            stream.put("workers", b"snapshot %d\n" % number)
            stream.tell(b"event %d\n" % number)
        told = (await anext(messages)).split(b"\n")
        assert told[-2] == b"snapshot 999"
        assert sum(line.startswith(b"snapshot") for line in told) == 1
        assert sum(line.startswith(b"event") for line in told) == streams.EVENTS_KEPT_MAX

    asyncio.run(run())


def test_nothing_is_asked_while_nobody_looks_but_for_readiness() -> None:
    async def run() -> None:
        door = FakeDoor()
        beat = Streams(Snapshots(door), lambda: None)
        for second in range(20):
            beat.look(100.0 + second)
            await asyncio.gather(*beat.looking.values())
        assert door.count("snapshot") == 0
        assert 1 <= door.count("list") <= 4
        assert beat.state == "active"

    asyncio.run(run())


def test_fifty_pages_cost_one_question_and_one_serialisation_a_topic() -> None:
    async def run() -> None:
        door = FakeDoor(workers=200)
        snapshots = Snapshots(door)
        beat = Streams(snapshots, lambda: None)
        opened = [Stream("workers", View(), lambda: True) for _ in range(50)]
        for stream in opened:
            await beat.add(stream)
        assert door.count("snapshot") == 2
        snapshots.spoil()
        beat.look(0.0)
        await asyncio.gather(*beat.looking.values())
        assert door.count("snapshot") == 4
        workers = await snapshots.get("workers")
        assert len(workers._views) == 1
        assert len({id(stream._newest["workers"]) for stream in opened}) == 1

    asyncio.run(run())


def test_a_listing_that_takes_long_delays_no_other() -> None:
    class Slow(FakeDoor):
        async def ask(self, principal: Any, command: str, arguments: dict[str, Any], **more: Any) -> Any:
            if arguments.get("parts") == ["workers"]:
                await asyncio.Event().wait()
            return await super().ask(principal, command, arguments, **more)

    async def run() -> None:
        door = FakeDoor()
        snapshots = Snapshots(door)
        beat = Streams(snapshots, lambda: None)
        stream = Stream("workers", View(), lambda: True)
        await beat.add(stream)
        snapshots._door = Slow()
        for number in range(3):
            snapshots.spoil()
            before = stream.seen["overview"]
            beat.look(float(number))
            await beat.looking["overview"]
            assert stream.seen["overview"] > before
        assert list(beat.looking) == ["workers"]
        beat.looking["workers"].cancel()

    asyncio.run(run())


def test_a_stream_beyond_the_last_is_refused_and_leaves_nothing() -> None:
    async def run() -> None:
        door = FakeDoor()
        door.silence()
        beat = Streams(Snapshots(door), lambda: None)
        with pytest.raises(Exception, match="503"):
            await beat.add(Stream("workers", View(), lambda: True))
        assert len(beat) == 0
        door.refused.clear()
        for _ in range(streams.STREAMS_MAX):
            await beat.add(Stream("overview", View(), lambda: True))
        with pytest.raises(Refused):
            await beat.add(Stream("overview", View(), lambda: True))

    asyncio.run(run())


def test_many_pages_at_once_all_get_their_snapshots() -> None:
    with running(FakeDoor(workers=300)) as page:
        found: list[int] = []

        def look() -> None:
            found.append(len(first(page, "/api/v1/stream?topic=workers&limit=50", 5)))

        threads = [threading.Thread(target=look) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert found == [5] * 50
