"""Entries of the model as a tree of properties and back: the one form that XML and ZPL share.

A list is a name that comes again, an entry has its keys as children, and every value is text; what the text means is
decided by the model's types (`document_reader`). A list that is empty although its default is not, as in "this broker
manages no service", is a single property without a value. A list of one blank text would read the same, and is refused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scale0.errors import SettingsError
from scale0.protocol.document_fields import Field, field_for, fields_of, naming_key
from scale0.protocol.network import ALL
from scale0.protocol.problems import Lines, Path, Problem
from scale0.protocol.zpl import Property


def to_properties(entry: msgspec.Struct) -> list[Property]:
    """`entry` in the order of the model; what is as by default is left out if its kind says so."""
    is_short = entry.__struct_config__.omit_defaults
    found: list[Property] = []
    for field in fields_of(type(entry)).values():
        value = getattr(entry, field.name)
        if value is not None and not (is_short and field.is_default(value)):
            found += _properties(field, value)
    return found


def _properties(field: Field, value: Any) -> list[Property]:
    match field.shape:
        case "entries":
            return [Property(field.key, children=to_properties(one)) for one in value] or [Property(field.key)]
        case "entry":
            return [Property(field.key, children=to_properties(value))]
        case "texts" | "services" if isinstance(value, list):
            if value == [ALL] or (len(value) == 1 and not value[0].strip()):
                raise SettingsError(f"{field.key}: XML and ZPL cannot carry the list {value}; use JSON")
            return [Property(field.key, one) for one in value] or [Property(field.key)]
        case "map":
            return [Property(field.key, children=[Property(name, one) for name, one in value.items()])]
        case "number":
            return [Property(field.key, repr(float(value)))]
        case "flag":
            return [Property(field.key, "true" if value else "false")]
        case _:
            return [Property(field.key, str(value))]


class Unfolding:
    """Turns properties into the plain values that they mean for entries of a kind, and remembers their lines."""

    def __init__(self) -> None:
        self.lines: Lines = {}
        self.problems: list[Problem] = []

    def entry(self, properties: list[Property], kind: type[msgspec.Struct], path: Path = ()) -> dict[str, Any]:
        together: dict[str, list[Property]] = {}
        for one in properties:
            together.setdefault(one.name, []).append(one)
        plain: dict[str, Any] = {}
        for name, group in together.items():
            there = (*path, name)
            self.lines[there] = group[0].line
            field = field_for(kind, name)
            plain[name] = group[0].value if field is None else self._value(group, field, there)
        return plain

    def _value(self, group: list[Property], field: Field, path: Path) -> Any:
        if field.shape == "entries":
            return self._entries(group, field.inner, path)
        if field.shape in ("texts", "services"):
            return self._texts(group, field, path)
        if len(group) > 1:
            self._wrong(group[1], path, f"given twice, first in line {group[0].line}; keep one of them")
        (only, *_) = group
        if field.shape == "entry":
            if only.value.strip():
                self._wrong(only, path, "has a value of its own; its keys stand below it")
            return self.entry(only.children, field.inner, path)
        if field.shape == "map":
            return {one.name: self._text(one, (*path, one.name)) for one in only.children}
        return self._text(only, path)

    def _entries(self, group: list[Property], kind: type[msgspec.Struct], path: Path) -> list[dict[str, Any]]:
        if _is_empty_list(group):
            return []
        found = []
        for index, one in enumerate(group):
            there = (*path, index)
            self.lines[there] = one.line
            plain = self.entry(one.children, kind, there)
            key = naming_key(kind)
            if key and one.value.strip():  # the name may stand as the entry's value
                plain.setdefault(key, one.value)
            found.append(plain)
        return found

    def _texts(self, group: list[Property], field: Field, path: Path) -> list[str] | str:
        if _is_empty_list(group):
            return []
        texts = []
        for index, one in enumerate(group):
            self.lines[(*path, index)] = one.line
            texts.append(self._text(one, path))
        return ALL if field.shape == "services" and texts == [ALL] else texts

    def _text(self, one: Property, path: Path) -> str:
        if one.children:
            self._wrong(one.children[0], path, f"has {one.children[0].name} below it; it is a single value")
        return one.value

    def _wrong(self, one: Property, path: Path, text: str) -> None:
        there = (*path, f"line {one.line}")
        self.lines[there] = one.line
        self.problems.append(Problem(".".join(str(step) for step in path), text, there))


def _is_empty_list(group: list[Property]) -> bool:
    return len(group) == 1 and not group[0].value.strip() and not group[0].children
