"""The channel between the broker and the page's process: frames both ways, and an end that both sides see."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from scale0.errors import ProtocolError
from scale0.management import channel
from scale0.management.channel import (
    Answer,
    Ask,
    Denied,
    Failed,
    FromPage,
    Hello,
    Listening,
    PageChannel,
    Pushed,
    Refused,
    Token,
    Used,
)
from scale0.management.vocabulary import Principal, Role

HELLO = Hello("b1", "prod", "1.0", "users.json", [Token("ab", "view", 5.0)], {"http": "127.0.0.1:0"})
ANN = Principal("ann", Role.OPERATE, "http", "10.0.0.7", ["render"])


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[PageChannel, socket.socket]]:
    """The page's end, and the broker's socket."""
    ours, theirs = socket.socketpair()
    ours.sendall(channel.frame(HELLO))
    page = await PageChannel.open(theirs)
    try:
        yield page, ours
    finally:
        ours.close()
        await page.closed()


async def heard(connection: socket.socket) -> FromPage | None:
    return await asyncio.to_thread(channel.read_page, connection)


def test_the_first_word_is_the_brokers_and_every_message_goes_through_as_it_is() -> None:
    async def run() -> None:
        async with opened() as (page, broker):
            assert page.hello == HELLO
            for message in (Denied("ann", "local", "login", 401), Listening("http://x"), Failed("no"), Used("ab")):
                page.say(message)
                assert await heard(broker) == message

    asyncio.run(run())


def test_each_question_gets_its_own_answer() -> None:
    async def run() -> None:
        async with opened() as (page, broker):
            first = asyncio.create_task(page.ask(ANN, "list", {"what": "workers"}))
            asked = await heard(broker)
            second = asyncio.create_task(page.ask(ANN, "drain", {}, command_id="c-1", brokers=["b2"]))
            also = await heard(broker)
            assert isinstance(asked, Ask)
            assert isinstance(also, Ask)
            assert asked.principal == ANN
            assert (also.command, also.command_id, also.brokers) == ("drain", "c-1", ["b2"])
            broker.sendall(channel.frame(Refused(also.id, 403, "no")) + channel.frame(Answer(asked.id, {"rows": []})))
            assert await first == {"rows": []}
            with pytest.raises(ProtocolError) as caught:
                await second
            assert (caught.value.code, caught.value.text) == (403, "no")

    asyncio.run(run())


def test_what_is_pushed_is_heard() -> None:
    async def run() -> None:
        async with opened() as (page, broker):
            pushed: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
            page.on_push = lambda topic, payload: pushed.put_nowait((topic, payload))
            broker.sendall(channel.frame(Pushed("event", {"kind": "alarm"})))
            assert await pushed.get() == ("event", {"kind": "alarm"})

    asyncio.run(run())


@pytest.mark.parametrize("last", [b"", b"\xff\xff\xff\xff", b"\0\0\0\2{}"], ids=["end", "too long", "no message"])
def test_the_end_of_the_broker_ends_what_waits(last: bytes) -> None:
    async def run() -> None:
        async with opened() as (page, broker):
            waiting = asyncio.create_task(page.ask(ANN, "list", {}))
            assert isinstance(await heard(broker), Ask)
            broker.sendall(last)
            broker.shutdown(socket.SHUT_WR)
            with pytest.raises(ProtocolError, match="has ended"):
                await waiting
            with pytest.raises(ProtocolError, match="has ended"):
                await page.ask(ANN, "list", {})
            await page.closed()

    asyncio.run(run())


def test_a_broker_that_ends_before_its_first_word_is_noticed() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.close()
        with pytest.raises(ConnectionError):
            await PageChannel.open(theirs)
        theirs.close()

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"", b"\0\0", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\1\xc1", b"\0\0\0\x0912345"])
def test_what_is_no_message_of_the_page_is_its_end(said: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        assert channel.read_page(ours) is None


def test_a_page_cannot_claim_a_role_that_there_is_not() -> None:
    told = msgspec.to_builtins(Ask(1, "ann", Role.ADMIN, "", None, "list", {}))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        body = msgspec.msgpack.encode({**told, "role": 9})
        theirs.sendall(len(body).to_bytes(4, "big") + body)
        assert channel.read_page(ours) is None


def test_an_answer_that_is_too_large_becomes_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "FRAME_BYTES_MAX", 1_000)
    told = channel._FROM_BROKER.decode(channel.frame(Answer(7, "x" * 2_000))[4:])
    assert isinstance(told, Refused)
    assert (told.id, told.code) == (7, 413)
