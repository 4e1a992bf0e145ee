"""What is wrong with a document, said so that it can be put right: where, which key, what is allowed.

A key is written with names rather than numbers, `broker.eu-2.state`, for that is how people think of an entry; beside
it stands the path through the document, `("brokers", 1, "state")`, by which its line is found. All problems of a
document are collected and told at once.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec

from scale0.errors import SettingsError

Path = tuple[str | int, ...]
Lines = dict[Path, int]

FOUND_MAX: Final = 200  # problems of one document; it is not searched for more
PROBLEMS_MAX: Final = 50  # told of one document; the others are counted
NAMES_MAX: Final = 64  # looked through for a name that is near, or listed in a message
SHOWN_CHARACTERS_MAX: Final = 40  # of a value in a message
KEY_CHARACTERS_MAX: Final = 200  # of a key in a message; a longer one is cut

_SINGULAR: Final = {"brokers": "broker", "groups": "group", "peers": "peer"}


class Place(msgspec.Struct, frozen=True):
    """Where something stands: its key for people, its path for the search of its line.

    There is one for each key of a document, and nearly all are good: what it is called is made when somebody asks.
    """

    above: Place | None = None  # None: the document itself
    step: str | int = ""  # from there: a field, or the number of an entry
    name: str = ""  # of an entry that has one

    def field(self, name: str) -> Place:
        return Place(self, name)

    def item(self, index: int, name: str = "") -> Place:
        """An entry of a list."""
        return Place(self, index, name)

    @property
    def key(self) -> str:
        """`broker.eu-2.state`; an entry without a name is `brokers[1]`."""
        if self.above is None:
            return ""
        above = self.above.key
        if self.name:
            before, dot, last = above.rpartition(".")
            return f"{before}{dot}{_SINGULAR.get(last, last)}.{self.name}"
        if isinstance(self.step, int):
            return f"{above}[{self.step}]"
        return f"{above}.{self.step}" if above else self.step

    @property
    def path(self) -> Path:
        return (*self.above.path, self.step) if self.above is not None else ()


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: the key, what is the matter with it and what is allowed."""

    key: str
    text: str
    path: Path = ()


def problem(place: Place, text: str) -> Problem:
    return Problem(place.key, text, place.path)


class Places:
    """Finds the line of a path. What was renamed on the way in is looked for under the name that the text has."""

    def __init__(self, find: Callable[[], Lines] = dict) -> None:
        self.renamed: dict[Path, str | int] = {}  # path → its last step as the text has it
        self._find = find
        self._lines: Lines | None = None

    def line(self, path: Path) -> int:
        """The line of `path`, or of the nearest thing around it; 0 if nothing is known."""
        if self._lines is None:
            self._lines = self._find()
        given = tuple(self.renamed.get(path[: depth + 1], step) for depth, step in enumerate(path))
        return next((self._lines[given[:end]] for end in range(len(given), 0, -1) if given[:end] in self._lines), 0)


def refusal(problems: Sequence[Problem], source: str, places: Places | None = None) -> SettingsError:
    """The error that tells all `problems`, a line each, in the order of the text."""
    lines = [places.line(one.path) if places else 0 for one in problems]
    order = sorted(range(len(problems)), key=lambda index: lines[index] or math.inf)
    told = [_tell(problems[index], source, lines[index]) for index in order[:PROBLEMS_MAX]]
    if len(problems) > PROBLEMS_MAX:
        told.append(f"{source}: and {len(problems) - PROBLEMS_MAX} more")
    return SettingsError("\n".join(told))


def _tell(one: Problem, source: str, line: int) -> str:
    where = f"{source}, line {line}" if line else source
    # An unknown key is whatever somebody wrote: it must not break the lines of the message.
    key = one.key if one.key.isprintable() and len(one.key) <= KEY_CHARACTERS_MAX else shown(one.key)
    return f"{where}: {key}: {one.text}" if key else f"{where}: {one.text}"


def shown(value: object) -> str:
    """A value as it stands in a message: short, and in quotes if it is text."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[: SHOWN_CHARACTERS_MAX - 1]}…"


def hint(name: str, allowed: Iterable[str], otherwise: str = "allowed") -> str:
    """`did you mean …?` if an allowed name is near, else the list of what is allowed."""
    names = list(islice(allowed, NAMES_MAX))
    near = difflib.get_close_matches(name, names, n=3)
    return f"did you mean {' or '.join(near)}?" if near else f"{otherwise}: {', '.join(names)}"
