"""What requests and answers look like: checked by msgspec when they come, and described by it in the API's document."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import msgspec

from scale0.errors import ProtocolError

BODY_BYTES_MAX: Final = 2 * 1024 * 1024  # a config document of the largest size, as JSON text inside JSON
DEPTH_MAX: Final = 32  # brackets within brackets
BROKERS_MAX: Final = 256
LIMIT_DEFAULT: Final = 200
LIMIT_MAX: Final = 10_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
CommandId = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[A-Za-z0-9._:\-]*(?!\n)$")]
Targets = Literal["own", "all"] | Annotated[list[Name], msgspec.Meta(min_length=1, max_length=BROKERS_MAX)]


class LoginBody(msgspec.Struct, forbid_unknown_fields=True):
    user: Name
    password: Annotated[str, msgspec.Meta(max_length=1024)]


class TokenBody(msgspec.Struct, forbid_unknown_fields=True):
    token: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class CommandBody(msgspec.Struct, forbid_unknown_fields=True):
    """`arguments` are checked once more against those of the command."""

    arguments: dict[str, Any] = {}
    brokers: Targets = "own"
    command_id: CommandId = ""


class Failure(msgspec.Struct, omit_defaults=True):
    """What every refusal looks like: a stable code, what is wrong, and what to do about it."""

    code: int
    text: str
    cure: str = ""


class Refused(Exception):
    """Ends a request with a failure, and headers that go with it."""

    def __init__(self, code: int, text: str, cure: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(code, text)
        self.failure = Failure(code, text, cure)
        self.headers = headers or {}


def refusal_of(error: ProtocolError) -> Refused:
    """What the broker refused, as an answer; what stands after a semicolon is the cure."""
    text, _, cure = error.text.partition("; ")
    return Refused(int(error.code), text, cure)


def status_of(code: int) -> int:
    """The HTTP status of the same number, where there is one; a redirect is none for an API."""
    if 400 <= code < 600 and code in HTTPStatus.__members__.values():
        return code
    return HTTPStatus.INTERNAL_SERVER_ERROR if 500 <= code < 600 else HTTPStatus.BAD_REQUEST


def check_depth(value: Any) -> None:
    """Raises where brackets lie deeper than anything that makes sense."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise Refused(400, f"the body is nested more than {DEPTH_MAX} levels deep", "send flat arguments")


class Listing(msgspec.Struct):
    """A listing: its rows, and which broker made it when.

    Of `all` rows that there are, `problems` want an operator's eye, `total` meet the filter, and `shown` are here.
    """

    schema: str
    at: str
    complete: bool
    broker: dict[str, Any]
    rows: list[dict[str, Any]]
    all: int
    problems: int
    total: int
    shown: int


class Overview(msgspec.Struct):
    """What stands on the first screen."""

    schema: str
    at: str
    complete: bool
    broker: dict[str, Any]
    verdict: dict[str, Any]
    figures: dict[str, Any]
    alarms: list[dict[str, Any]]
    services: list[dict[str, Any]]
    history: dict[str, Any]
    brokers: list[dict[str, Any]]
    counts: dict[str, Any]


class Known(msgspec.Struct):
    """A command, as the visitor may or may not use it."""

    name: str
    role: str
    tier: int
    summary: str
    target: str
    arguments: dict[str, Any]
    allowed: bool


class Me(msgspec.Struct):
    user: str
    role: str
    services: list[str] | None
    network: str
    broker: str
    version: str
    colour: str
    commands: list[Known]


class Done(msgspec.Struct):
    """A command was carried out by the broker itself."""

    command_id: str
    result: Any


class DoneByMany(msgspec.Struct):
    """What each broker made of a command; not `complete` if some did not."""

    command_id: str
    complete: bool
    results: list[dict[str, Any]]


class Ready(msgspec.Struct):
    ready: bool
    state: str


class Trend(msgspec.Struct):
    """Rows of a gold table as columns, oldest first; `completeness` is the share of what happened that was recorded."""

    schema: str
    table: str
    from_us: int | None
    to_us: int | None
    rows: int
    completeness: float | None
    lost: int
    columns: dict[str, list[Any]]


class Heat(msgspec.Struct):
    """How many tasks took how long, and when: cells that are not empty, oldest first.

    A cell begins at `since_us + column × step_us`, and its tasks took from 2^(row ÷ 4) µs up to a quarter octave more.
    """

    schema: str
    since_us: int
    step_us: int
    columns: int
    column: list[int]
    row: list[int]
    count: list[int]
