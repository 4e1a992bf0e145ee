"""ZPL, the ZeroMQ Property Language (RFC 4): a tree of names, each with a value, with children, or with both.

A level of the tree is four spaces of indentation, `#` begins a comment, and a value stands in quotes or bare. There are
no escapes, so a value that holds a line's end, or both kinds of quotes in an awkward place, cannot be written at all:
`write` refuses it rather than change it. A name may come again, which makes a list. What is malformed is refused with
its line; nothing is guessed.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scale0.errors import SettingsError
from scale0.protocol import limits

INDENT: Final = "    "

_LINE_END: Final = re.compile(r"\r\n|\r|\n")  # and no other: str.splitlines knows more of them
_NAME: Final = re.compile(r"[A-Za-z0-9$\-_@.&+/]+")
_BLANK: Final = " \t"
_QUOTED: Final = re.compile(r"""("([^"]*)"|'([^']*)')[ \t]*(#.*)?""", re.DOTALL)


class Property(msgspec.Struct):
    """One name with its value and children. `line` is where it was read; 0: it was not."""

    name: str
    value: str = ""
    children: list[Property] = []
    line: int = 0


def parse(text: str) -> list[Property]:
    """The properties at the top of `text`, with all that stands below them."""
    if len(text.encode(errors="surrogatepass")) > limits.DOCUMENT_BYTES_MAX:
        raise SettingsError(f"over {limits.DOCUMENT_BYTES_MAX:,} bytes: split the document, or shorten it")
    levels: list[list[Property]] = [[]]  # the children's list of the last property on each level, the root's first
    for number, line in enumerate(_LINE_END.split(text), start=1):
        content = line.lstrip(_BLANK)
        if not content or content.startswith("#"):
            continue
        level = _level(line[: len(line) - len(content)], number)
        # A level is opened by a property one level up: none is skipped, and the first property stands at the margin.
        if level >= len(levels):
            raise SettingsError(
                f"line {number}: indented by {level} levels where at most {len(levels) - 1} is possible; "
                "a child stands four spaces deeper than its parent"
            )
        found = _property(content, number)
        del levels[level + 1 :]
        levels[level].append(found)
        levels.append(found.children)
    return levels[0]


def _level(indentation: str, number: int) -> int:
    if "\t" in indentation:
        raise SettingsError(f"line {number}: indented by a tab; a level is four spaces")
    level, rest = divmod(len(indentation), len(INDENT))
    if rest:
        raise SettingsError(f"line {number}: indented by {len(indentation)} spaces; a level is four spaces")
    if level >= limits.DOCUMENT_DEPTH_MAX:
        raise SettingsError(f"line {number}: {level + 1} levels deep; at most {limits.DOCUMENT_DEPTH_MAX} are allowed")
    return level


def _property(content: str, number: int) -> Property:
    name = _NAME.match(content)
    if name is None:
        raise SettingsError(
            f"line {number}: {content[:20]!r} does not begin with a name; "
            "a name has letters A to Z, digits and $ - _ @ . & + /"
        )
    rest = content[name.end() :].lstrip(_BLANK)
    if not rest or rest.startswith("#"):
        return Property(name[0], line=number, children=[])
    if not rest.startswith("="):
        raise SettingsError(f"line {number}: after {name[0]} comes {rest[:20]!r}; write {name[0]} = value")
    return Property(name[0], _value(rest[1:].lstrip(_BLANK)), [], number)


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return quoted[2] if quoted[2] is not None else quoted[3]
    # Quotes that do not enclose the whole value are characters of it.
    return text.partition("#")[0].rstrip(_BLANK)


def write(properties: list[Property]) -> str:
    """`properties` as text that `parse` reads back as they are. Raises `SettingsError` for what ZPL cannot carry."""
    lines: list[str] = []
    _write_level(properties, 0, lines)
    return "".join(f"{line}\n" for line in lines)


def _write_level(properties: list[Property], level: int, lines: list[str]) -> None:
    if properties and level >= limits.DOCUMENT_DEPTH_MAX:
        raise SettingsError(f"{level + 1} levels deep; at most {limits.DOCUMENT_DEPTH_MAX} are allowed")
    for one in properties:
        if not _NAME.fullmatch(one.name):
            raise SettingsError(f"{one.name!r}: no name in ZPL; it has letters A to Z, digits and $ - _ @ . & + /")
        value = f" = {_written(one)}" if one.value else ""
        lines.append(f"{INDENT * level}{one.name}{value}")
        _write_level(one.children, level + 1, lines)


def _written(one: Property) -> str:
    value = one.value
    if "\r" in value or "\n" in value:
        raise SettingsError(f"{one.name}: {value[:40]!r} has a line's end, which ZPL cannot carry; use JSON or XML")
    if '"' not in value:
        return f'"{value}"'
    if "'" not in value:
        return f"'{value}'"
    if "#" in value or value != value.strip(_BLANK) or value[0] in "\"'":
        raise SettingsError(f"{one.name}: {value[:40]!r} has both quotes, and ZPL cannot carry it; use JSON or XML")
    return value
