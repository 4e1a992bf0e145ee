"""The catalogue: which segments there are, in the order in which they arrived.

Each broker has a list of entries of its own, numbered 1, 2, 3 … without holes, one small file an entry. Entries are
added after their segment is in place and never changed. A reader keeps the last number that it used of each broker, and
finds what is new by opening the next number: that costs the same after a year as on the first day. When retention has
deleted old segments their entries go, too, and `floor` says how many of the first numbers are gone.
"""

from __future__ import annotations

import contextlib
from typing import Final
from urllib.parse import unquote

import msgspec

from scale0.telemetry.place import Place, quoted

VERSION: Final = 1
DIRECTORY: Final = "catalogue"
CONSUMERS: Final = "consumers"
FLOOR: Final = "floor"
TRIES_MAX: Final = 1_000  # numbers that other writers may take while one entry is added

Position = dict[str, int]
"""Of each broker, the number of the last entry that was used."""


class Entry(msgspec.Struct, kw_only=True):
    """A segment that is in its place; or, with `gap`, rows that were lost after they had been recorded."""

    v: int = VERSION
    number: int = 0
    broker: str
    boot: str
    path: str  # within the place
    seq_lo: int
    seq_hi: int  # not every number between them need be in the file
    rows: int
    tasks: int
    bytes: int = 0
    sha256: str = ""
    ts_lo_us: int
    ts_hi_us: int
    sealed_us: int
    source: str = "recorder"  # or collect, import, generate
    gap: bool = False


class _Floor(msgspec.Struct):
    number: int


def append(place: Place, entry: Entry) -> Entry:
    """Add an entry under the next number. Each broker's catalogue has one writer."""
    number = last_number(place, entry.broker)
    for _ in range(TRIES_MAX):
        number += 1
        numbered = msgspec.structs.replace(entry, number=number)
        with contextlib.suppress(FileExistsError):
            place.write_atomic(_parts(entry.broker, number), msgspec.json.encode(numbered), is_new=True)
            return numbered
    raise RuntimeError(f"{TRIES_MAX} others add to the catalogue of {entry.broker}: there must be one writer")


def read(place: Place, broker: str, after: int = 0, limit: int | None = None) -> list[Entry]:
    """The entries with higher numbers than `after`, in order; at most `limit` of them."""
    found: list[Entry] = []
    number = after + 1
    while limit is None or len(found) < limit:
        entry = get(place, broker, number)
        if entry is None:
            above = floor(place, broker) + 1
            if above <= number:
                break
            number = above  # what is between was deleted when its time was over
            continue
        found.append(entry)
        number += 1
    return found


def get(place: Place, broker: str, number: int) -> Entry | None:
    """One entry, if there is one of this number."""
    try:
        content = place.read_bytes(*_parts(broker, number))
    except FileNotFoundError:
        return None
    return msgspec.json.decode(content, type=Entry)


def has(place: Place, broker: str, number: int) -> bool:
    """Whether there is an entry of this number, or was until retention deleted it."""
    return place.exists(*_parts(broker, number)) or number <= floor(place, broker)


def last_number(place: Place, broker: str) -> int:
    """The highest number, 0 if there is none. Numbers have no holes, so it is found by doubling and halving."""
    low = floor(place, broker)
    step = 1
    while place.exists(*_parts(broker, low + step)):
        low += step
        step *= 2
    while step > 1:
        step //= 2
        if place.exists(*_parts(broker, low + step)):
            low += step
    return low


def brokers(place: Place) -> list[str]:
    """Whose segments there are."""
    return [unquote(name) for name in place.list(DIRECTORY)]


def read_all(place: Place, position: Position) -> list[Entry]:
    """What is new of every broker since `position`."""
    return [entry for broker in brokers(place) for entry in read(place, broker, position.get(broker, 0))]


def floor(place: Place, broker: str) -> int:
    """How many of the first numbers are gone."""
    try:
        content = place.read_bytes(DIRECTORY, quoted(broker), FLOOR)
    except FileNotFoundError:
        return 0
    return msgspec.json.decode(content, type=_Floor).number


def raise_floor(place: Place, broker: str, number: int) -> None:
    """Delete the entries up to `number`: first it is told that they are gone."""
    former = floor(place, broker)
    if number <= former:
        return
    place.write_atomic((DIRECTORY, quoted(broker), FLOOR), msgspec.json.encode(_Floor(number)))
    for old in range(former + 1, number + 1):
        place.delete(*_parts(broker, old))


class Consumer(msgspec.Struct):
    """What one reader of segments has used, in `consumers/<name>.json`: retention keeps what it still needs."""

    position: Position
    at_us: int = 0  # when it last looked; a recorder seals more often while somebody follows
    only: list[str] | None = None  # the brokers that it reads; None: all there are

    def reads(self, broker: str) -> bool:
        return self.only is None or broker in self.only


def keep_position(place: Place, name: str, consumer: Consumer) -> None:
    """A consumer says how far it is."""
    place.write_atomic((CONSUMERS, f"{quoted(name)}.json"), msgspec.json.encode(consumer))


def consumers(place: Place) -> dict[str, Consumer]:
    """All consumers that have said how far they are. What cannot be read counts as one that has used nothing."""
    found: dict[str, Consumer] = {}
    for name in place.list(CONSUMERS):
        if not name.endswith(".json"):
            continue
        try:
            consumer = msgspec.json.decode(place.read_bytes(CONSUMERS, name), type=Consumer)
        except FileNotFoundError:
            continue
        except msgspec.DecodeError:
            consumer = Consumer({})
        found[unquote(name.removesuffix(".json"))] = consumer
    return found


def _parts(broker: str, number: int) -> tuple[str, str, str]:
    return DIRECTORY, quoted(broker), f"{number:012d}.json"
