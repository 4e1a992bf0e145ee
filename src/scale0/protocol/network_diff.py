"""What differs between two documents, key by key, as an operator would tell it.

Entries are compared by their names, wherever they stand in their lists: `service.render.timeout` 10 → 5. An entry that
came or went is one change. If only the order of entries differs, that is a change of the list, for the order of brokers
is the order in which they succeed one another. Two documents without a change between them are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from scale0.protocol.document_fields import Field, fields_of, name_of, naming_key
from scale0.protocol.network import Document
from scale0.protocol.problems import Place


class Change(msgspec.Struct, frozen=True):
    """One key that differs. `None`: it was not there before, or is not there afterwards."""

    key: str
    before: str | None
    after: str | None

    @property
    def text(self) -> str:
        """`10 → 5`, `added: …` or `removed`."""
        if self.before is None:
            return f"added: {self.after}"
        return "removed" if self.after is None else f"{self.before} → {self.after}"


def diff(old: Document, new: Document) -> list[Change]:
    """The changes that lead from `old` to `new`, in the order of the document's keys."""
    return list(_entry(old, new, Place()))


def _entry(old: msgspec.Struct, new: msgspec.Struct, place: Place) -> Iterator[Change]:
    for field in fields_of(type(old)).values():
        before, after = getattr(old, field.name), getattr(new, field.name)
        there = place.field(field.key)
        if before == after:
            continue
        if field.shape == "entries":
            yield from _entries(before, after, there)
        elif field.shape == "entry":
            yield from _entry(before, after, there)
        else:
            yield Change(there.key, _shown(field, before), _shown(field, after))


def _entries(old: Sequence[msgspec.Struct], new: Sequence[msgspec.Struct], place: Place) -> Iterator[Change]:
    before, after = ({name_of(entry): entry for entry in entries} for entries in (old, new))
    stayed = [name for name in before if name in after]
    for name in [*before, *(name for name in after if name not in before)]:
        there = place.item(0, name)
        if name not in after:
            yield Change(there.key, _told(before[name]), None)
        elif name not in before:
            yield Change(there.key, None, _told(after[name]))
        else:
            yield from _entry(before[name], after[name], there)
    moved = [name for name in after if name in before]
    if stayed != moved:
        yield Change(place.key, ", ".join(stayed), ", ".join(moved))


def _told(entry: msgspec.Struct) -> str:
    """What an entry says besides its name, on one line."""
    told = [
        f"{field.key} {_shown(field, value)}"
        for field in fields_of(type(entry)).values()
        if field.key != naming_key(type(entry)) and not field.is_default(value := getattr(entry, field.name))
    ]
    return ", ".join(told) or "as by default"


def _shown(field: Field, value: Any) -> str | None:
    if value is None:
        return None
    if field.shape == "entries":
        return "[" + "; ".join(f"{name_of(one)}: {_told(one)}" for one in value) + "]"
    if isinstance(value, list):
        return "[" + ", ".join(value) + "]"
    if field.shape == "number":
        return f"{value:.12g}"
    if field.shape == "flag":
        return "true" if value else "false"
    return str(value) or "(empty)"
