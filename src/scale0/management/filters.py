"""The filter language of listings, on every door: `state:full svc:render* hb>3s`, and how rows are sorted.

A filter is words with spaces between, and a row must meet all of them:

    key:glob        the value matches, capitals aside; of a list or a table one entry is enough; `key:none` is null
    key>3s key<=10  numbers and times: us, ms, s, m, h; a bare number means seconds where the column is a time
    text            some value of the row contains it
    -word           the row must not meet the word
    is:problem      what an operator would look at first

A key may leave out its unit (`queued`, `heartbeat_age`) and has short names (`svc`, `hb`, `id`). Everything is bounded,
for filters come from people far away: the length, the number of words, the keys of a sort.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from scale0.errors import ProtocolError
from scale0.protocol.codes import Code

Row = Mapping[str, Any]
Meets = Callable[[Row], bool]

FILTER_CHARACTERS_MAX: Final = 400
WORDS_MAX: Final = 20
SORT_KEYS_MAX: Final = 4

SHORT_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "svc": ("services", "service", "name"),
    "service": ("services", "name"),
    "hb": ("heartbeat_age_us", "heard_us"),
    "id": ("identity", "id", "connection", "key", "name"),
    "age": ("age_us", "oldest_us", "since_us"),
    "errors": ("errors_5m",),
    "config": ("config_version",),
    "clock": ("clock_offset_us",),
}
UNITS: Final = ("_us", "_bytes", "_percent", "_per_s", "_5m", "_per_h")
TIMES_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
BAD_STATES: Final = frozenset({"gone", "cut", "lost", "no worker", "unknown"})
WARNING_STATES: Final = frozenset({"draining", "disabling", "holding", "joining", "disabled", "leaving"})
NEAR_LIMIT_PERCENT: Final = 90
WAITED_US: Final = 1_000_000  # a service may be busy, and its queue short for ever
NULL_WORDS: Final = frozenset({"none", "null", "-"})

_WORD: Final = re.compile(r'-?(?:[^\s"]|"[^"]*")+')
_COMPARED: Final = re.compile(r"(?P<key>[a-z0-9_.]+)(?P<sign>>=|<=|>|<|=)(?P<value>.+)", re.IGNORECASE | re.DOTALL)
_MATCHED: Final = re.compile(r"(?P<key>[a-z0-9_.]+):(?P<glob>.*)", re.IGNORECASE | re.DOTALL)
_NUMBER: Final = re.compile(r"(?P<number>[+-]?\d{1,15}(?:\.\d{1,9})?)(?P<unit>us|ms|s|m|h|k|%)?", re.IGNORECASE)
_SIGNS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": lambda value, bound: value > bound,
    "<": lambda value, bound: value < bound,
    ">=": lambda value, bound: value >= bound,
    "<=": lambda value, bound: value <= bound,
    "=": lambda value, bound: value == bound,
}


class Filter:
    """A filter that was read; `rows` are let through if they meet every word."""

    def __init__(self, text: str) -> None:
        if len(text) > FILTER_CHARACTERS_MAX:
            raise _wrong(f"the filter is over {FILTER_CHARACTERS_MAX} characters long; write fewer words")
        words = _WORD.findall(text)
        if len(words) > WORDS_MAX:
            raise _wrong(f"a filter has at most {WORDS_MAX} words")
        self.keys: list[str] = []
        self._meets = [self._read(word) for word in words]

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """Those that meet it. A key that no row has is refused, with the keys that there are."""
        known = list(rows)
        check_keys(self.keys, known)
        return [row for row in known if all(meets(row) for meets in self._meets)] if self._meets else known

    def _read(self, word: str) -> Meets:
        is_negated = word.startswith("-") and len(word) > 1
        meets = self._term((word[1:] if is_negated else word).replace('"', ""))
        return (lambda row: not meets(row)) if is_negated else meets

    def _term(self, word: str) -> Meets:
        matched = _MATCHED.fullmatch(word)
        compared = _COMPARED.fullmatch(word)
        if matched and (not compared or matched.end("key") <= compared.end("key")):
            key, glob = matched["key"].lower(), matched["glob"]
            if key == "is" and glob in ("problem", "problems"):
                return lambda row: severity(row) > 0
            self.keys.append(key)
            return _glob(key, glob)
        if compared:
            key = compared["key"].lower()
            self.keys.append(key)
            return _comparison(key, compared["sign"], compared["value"])
        text = word.casefold()
        return lambda row: any(text in shown.casefold() for value in row.values() for shown in _texts(value))


def arranged(rows: Iterable[Row], sort: str) -> list[Row]:
    """Rows by the keys of `sort`: `-queued,name`. A minus turns one round; null comes last; `problems`: worst first."""
    known = list(rows)
    keys = [key for key in sort.split(",") if key]
    if len(keys) > SORT_KEYS_MAX or len(sort) > FILTER_CHARACTERS_MAX:
        raise _wrong(f"rows are sorted by at most {SORT_KEYS_MAX} keys")
    check_keys([key.removeprefix("-") for key in keys if key.removeprefix("-") != "problems"], known)
    for key in reversed(keys):
        is_down, name = key.startswith("-"), key.removeprefix("-")
        if name == "problems":
            known.sort(key=lambda row: (-severity(row), _order(value_of(row, "id"))), reverse=is_down)
            continue
        have = [row for row in known if value_of(row, name) is not None]
        lack = [row for row in known if value_of(row, name) is None]
        known = [*sorted(have, key=lambda row: _order(value_of(row, name)), reverse=is_down), *lack]
    return known


def severity(row: Row) -> int:
    """2: something is broken; 1: somebody should look; 0: well."""
    if "severity" in row:  # an alarm
        return (2 if row["severity"] == "bad" else 1) if row.get("state") == "raised" else 0
    state = row.get("state")
    if state in BAD_STATES or row.get("is_absent") or row.get("stuck"):
        return 2
    age, interval = row.get("heartbeat_age_us"), row.get("heartbeat_interval_us")
    is_late = isinstance(age, int) and isinstance(interval, int) and age > 2 * interval
    is_cut = row.get("link", "up") not in ("up", "self", "none")
    is_waited_for = (row.get("oldest_us") or 0) >= WAITED_US  # a service; full without a queue, it is well used
    is_pressing = (row.get("limit_percent") or 0) >= NEAR_LIMIT_PERCENT  # a client
    is_bare = row.get("fallback") == "lost"  # a broker that serves without its standby
    is_odd = is_late or is_cut or is_waited_for or is_pressing or is_bare or state in WARNING_STATES
    return 1 if is_odd or row.get("is_behind") or row.get("errors_5m") or row.get("penalty_us") else 0


def check_keys(keys: Iterable[str], rows: list[Row]) -> None:
    """Raises with the keys that there are, if rows lack one."""
    if not rows:
        return
    for key in keys:
        if column(rows[0], key) is None and not any(column(row, key) for row in rows[:100]):
            raise _wrong(f"no column {key[:40]!r} here; there are {', '.join(rows[0])}, and svc, hb, id for short")


def value_of(row: Row, key: str) -> Any:
    name = column(row, key)
    return None if name is None else row[name]


def column(row: Row, key: str) -> str | None:
    """The column that a key means: itself, itself with its unit, or what it is short for."""
    if key in row:
        return key
    for unit in UNITS:
        if key + unit in row:
            return key + unit
    return next((name for name in SHORT_NAMES.get(key, ()) if name in row), None)


def _glob(key: str, glob: str) -> Meets:
    wanted = glob.casefold()
    if wanted in NULL_WORDS:
        return lambda row: value_of(row, key) in (None, [], {})
    match = re.compile(fnmatch.translate(wanted)).match

    def meets(row: Row) -> bool:
        return any(match(shown.casefold()) is not None for shown in _texts(value_of(row, key)))

    return meets


def _comparison(key: str, sign: str, text: str) -> Meets:
    read = _NUMBER.fullmatch(text)
    if read is None:
        raise _wrong(f"{key}{sign}{text[:40]}: not a number or a time such as 10, 2.5, 300ms, 3s, 5m, 1h")
    number, unit, compare = float(read["number"]), (read["unit"] or "").lower(), _SIGNS[sign]

    def meets(row: Row) -> bool:
        name = column(row, key)
        value = None if name is None else row[name]
        if name is None or isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return compare(value, number * _factor(name, unit))

    return meets


def _factor(name: str, unit: str) -> float:
    if name.endswith("_us"):
        return TIMES_US.get(unit or "s", 1)
    return {"k": 1_000.0, "m": 1_000_000.0}.get(unit, 1.0)


def _texts(value: Any) -> list[str]:
    """A value as the words that people look for."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one)]
    if isinstance(value, dict):
        return [str(key) for key in value]
    return [str(value)]


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers before texts, so that any two values can be compared."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, value.casefold() if isinstance(value, str) else " ".join(_texts(value)).casefold())


def _wrong(text: str) -> ProtocolError:
    return ProtocolError(Code.MALFORMED, text)
