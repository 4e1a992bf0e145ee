"""On which line each key of a JSON or TOML text stands: their parsers do not tell.

It is asked only to place an error in a text that was already parsed, so it need not notice what is malformed, and a key
in an unusual spot may be missing: whoever asks then takes the line of what is around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scale0.protocol.problems import Lines, Path

_JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')

_KEY: Final = r"""(?:[A-Za-z0-9_\-]+|"[^"]*"|'[^']*')"""
_DOTTED: Final = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TOML_TABLE: Final = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_TOML_KEY: Final = re.compile(rf"\s*({_DOTTED})\s*=(.*)")
_TOML_PART: Final = re.compile(_KEY)


def of_json(text: str) -> Lines:
    """Each key and each item of a list, with its line."""
    return dict(_in_json(text))


def repeated_in_json(text: str) -> Iterator[tuple[Path, int]]:
    """Each key that comes again in the same map, with the line where it came before: a parser takes the last."""
    seen: Lines = {}
    for path, line in _in_json(text):
        if path in seen:
            yield path, seen[path]
        seen[path] = line


def _in_json(text: str) -> Iterator[tuple[Path, int]]:
    path: list[str | int] = []  # the place of the value that comes next: a number in a list, a key in a map
    line = 1
    is_key = False  # the next text is one
    for token in _JSON_TOKEN.findall(text):
        if token == "\n":
            line += 1
        elif token == ":" or (token in (",", "}", "]") and not path):
            continue
        elif token in ("}", "]"):
            path.pop()
            is_key = False
        elif token == ",":
            last = path[-1]
            is_key = isinstance(last, str)
            path[-1] = last + 1 if isinstance(last, int) else last
        elif is_key:
            path[-1] = token.strip('"')
            yield tuple(path), line
            is_key = False
        else:
            if path and isinstance(path[-1], int):
                yield tuple(path), line
            if token in ("{", "["):
                path.append("" if token == "{" else 0)
                is_key = token == "{"


def of_toml(text: str) -> Lines:
    """Each table and each key that begins a line."""
    lines: Lines = {}
    counts: dict[Path, int] = {}  # entries so far of each array of tables
    table: Path = ()
    array: Path = ()  # an array of inline tables that is open, a table a line
    for number, line in enumerate(text.split("\n"), start=1):
        header = _TOML_TABLE.match(line)
        found = _TOML_KEY.match(line)
        if array and line.lstrip().startswith("{"):
            lines[(*array, counts[array])] = number
            counts[array] += 1
        elif header is not None:
            table, array = _table(header, counts), ()
            lines[table] = number
        elif found is not None:
            there = (*table, *_parts(found[1]))
            lines.setdefault(there, number)
            is_open = found[2].strip().startswith("[") and "]" not in found[2]
            array = there if is_open else ()
            counts[array] = 0
    return lines


def _table(header: re.Match[str], counts: dict[Path, int]) -> Path:
    """The path of a table that begins here; parts that are arrays of tables mean their last entry."""
    path: Path = ()
    parts = list(_parts(header[2]))
    for position, part in enumerate(parts, start=1):
        path = (*path, part)
        if position == len(parts) and header[1] == "[[":
            counts[path] = counts.get(path, 0) + 1
        if counts.get(path):
            path = (*path, counts[path] - 1)
    return path


def _parts(dotted: str) -> Iterator[str]:
    for part in _TOML_PART.findall(dotted):
        yield part.strip("\"'")
