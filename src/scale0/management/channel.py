"""Between the broker's process and the page's: one socket pair, and a handful of messages.

A message is its length in 4 bytes, big-endian, and a msgpack map with a tag. The page's process holds no authority of
its own: it says who asks, and the gate decides. It ends when the channel does, however the broker ends.

    page → broker   Ask, Denied, Listening, Failed, Used
    broker → page   Hello (first), Answer, Refused, Pushed
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

import msgspec

from scale0.errors import ProtocolError
from scale0.management.vocabulary import Principal, Role
from scale0.protocol.codes import Code

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
LENGTH_BYTES: Final = 4
ASKS_MAX: Final = 1_000  # that wait for their answer in the page's process

Brokers = Literal["own", "all"] | list[str]
"""Whom a command is for: the broker that is asked, all of its network, or these."""


class Token(msgspec.Struct, frozen=True):
    """A one-time token, as the page's process knows it: never the token itself. `until_s` is by the wall clock."""

    hash: str  # SHA-256, in hex
    role: str
    until_s: float


# --- page → broker --------------------------------------------------------------------------------------------------


class Ask(msgspec.Struct, tag=True):
    id: int
    user: str
    role: Role
    source: str
    services: list[str] | None
    command: str
    arguments: dict[str, Any]
    command_id: str = ""
    brokers: Brokers = "own"

    @property
    def principal(self) -> Principal:
        return Principal(self.user, self.role, "http", self.source, self.services)


class Denied(msgspec.Struct, tag=True):
    """The page's process refused somebody by itself: it is audited here."""

    user: str
    source: str
    what: str
    code: int


class Listening(msgspec.Struct, tag=True):
    """The page is up; `url` names the real port."""

    url: str


class Failed(msgspec.Struct, tag=True):
    """It cannot be up, and starting it again would not help."""

    text: str


class Used(msgspec.Struct, tag=True):
    """A one-time token was used, and is never taken again."""

    hash: str


# --- broker → page --------------------------------------------------------------------------------------------------


class Hello(msgspec.Struct, tag=True):
    """`settings` are those of management, and `data`: where the recorder's data lies, if there is one."""

    identity: str
    network: str
    version: str
    users_path: str
    tokens: list[Token]
    settings: dict[str, Any]


class Answer(msgspec.Struct, tag=True):
    id: int
    result: Any


class Refused(msgspec.Struct, tag=True):
    id: int
    code: int
    text: str


class Pushed(msgspec.Struct, tag=True):
    """Unasked: `alarms` (the whole list, at each change), `event` (one row), `token` (a new one)."""

    topic: str
    payload: Any


FromPage = Ask | Denied | Listening | Failed | Used
FromBroker = Hello | Answer | Refused | Pushed

_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=str)
_FROM_PAGE: Final = msgspec.msgpack.Decoder(FromPage)
_FROM_BROKER: Final = msgspec.msgpack.Decoder(FromBroker)


def frame(message: FromPage | FromBroker) -> bytes:
    """The bytes of a message; an answer that is too large becomes its refusal."""
    body = _ENCODER.encode(message)
    if len(body) > FRAME_BYTES_MAX and isinstance(message, Answer):
        text = f"the answer has {len(body):,} bytes; ask for less"
        body = _ENCODER.encode(Refused(message.id, int(Code.TOO_LARGE), text))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def read_page(connection: socket.socket) -> FromPage | None:
    """What the page's process says next; `None` when it has ended. Bytes that are no message end it, too."""
    head = _read(connection, LENGTH_BYTES)
    size = int.from_bytes(head, "big") if head else 0
    if not size or size > FRAME_BYTES_MAX:
        return None
    body = _read(connection, size)
    try:
        return _FROM_PAGE.decode(body) if body else None
    except msgspec.MsgspecError:
        return None


def _read(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or none if the connection ends before."""
    found = bytearray()
    while len(found) < size:
        try:
            piece = connection.recv(min(size - len(found), 1 << 20))
        except OSError:
            return b""
        if not piece:
            return b""
        found += piece
    return bytes(found)


# --- the page's end -------------------------------------------------------------------------------------------------


class Door(Protocol):
    """What the page's app needs of a broker; `ProtocolError` says why something was refused."""

    async def ask(
        self,
        principal: Principal,
        command: str,
        arguments: dict[str, Any],
        *,
        command_id: str = "",
        brokers: Brokers = "own",
    ) -> Any: ...

    def denied(self, user: str, source: str, what: str, code: int) -> None: ...


class PageChannel:
    """The page's end: a `Door` over the channel. `on_push` hears what the broker says unasked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: Hello) -> None:
        self.hello = hello
        self.on_push: Callable[[str, Any], None] = lambda topic, payload: None
        self._reader, self._writer = reader, writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 1
        self._is_over = False
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def open(cls, connection: socket.socket) -> PageChannel:
        """Wait for the broker's first word. `ConnectionError` if it does not come."""
        reader, writer = await asyncio.open_connection(sock=connection)
        hello = await _next(reader)
        if not isinstance(hello, Hello):
            raise ConnectionError("the broker ended before it said who it is")
        return cls(reader, writer, hello)

    async def ask(
        self,
        principal: Principal,
        command: str,
        arguments: dict[str, Any],
        *,
        command_id: str = "",
        brokers: Brokers = "own",
    ) -> Any:
        if self._is_over:
            raise ProtocolError(Code.NOT_ACCEPTING, "the broker has ended")
        if len(self._waiting) >= ASKS_MAX:
            raise ProtocolError(Code.OVER_LIMIT, f"{ASKS_MAX} requests wait for the broker; try again soon")
        number, self._next_id = self._next_id, self._next_id + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        who = principal.user, principal.role, principal.source, principal.services
        try:
            self.say(Ask(number, *who, command, arguments, command_id, brokers))
            return await answer
        finally:
            self._waiting.pop(number, None)

    def denied(self, user: str, source: str, what: str, code: int) -> None:
        self.say(Denied(user, source, what, code))

    def say(self, message: FromPage) -> None:
        if not self._is_over:
            self._writer.write(frame(message))

    async def closed(self) -> None:
        """Until the broker has ended."""
        await self._listening

    async def _listen(self) -> None:
        while (message := await _next(self._reader)) is not None:
            if isinstance(message, Pushed):
                self.on_push(message.topic, message.payload)
                continue
            answer = None if isinstance(message, Hello) else self._waiting.get(message.id)
            if answer is None or answer.done():
                continue
            if isinstance(message, Refused):
                answer.set_exception(ProtocolError(message.code, message.text))
            elif isinstance(message, Answer):
                answer.set_result(message.result)
        self._is_over = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ProtocolError(Code.NOT_ACCEPTING, "the broker has ended"))
        self._writer.close()


async def _next(reader: asyncio.StreamReader) -> FromBroker | None:
    try:
        size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        return _FROM_BROKER.decode(await reader.readexactly(size)) if size <= FRAME_BYTES_MAX else None
    except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
        return None
