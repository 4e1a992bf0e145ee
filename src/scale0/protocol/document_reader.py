"""Plain values, as JSON and TOML give them, become entries of the model; or every reason why they cannot is told.

XML and ZPL know nothing but text: what comes from them is read with `is_text`, and numbers and flags are made of it. An
entry may be given by its name alone (`peers = ["eu-2"]`), and a list of entries as a map by name (`[service.render]`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec

from scale0.protocol.document_fields import Field, field_for, fields_of, naming_key
from scale0.protocol.network import ALL
from scale0.protocol.problems import FOUND_MAX, Place, Places, Problem, hint, problem, shown

WHOLE_MAX: Final = 2**53 - 1  # every reader of JSON keeps whole numbers up to here

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?")

T = TypeVar("T", bound=msgspec.Struct)
E = TypeVar("E", bound=msgspec.Struct)


class Reader(Generic[T]):
    """Reads one document of `kind`. What is wrong with it is collected in `problems`."""

    def __init__(self, kind: type[T], places: Places, *, is_text: bool = False) -> None:
        self.problems: list[Problem] = []
        self._kind = kind
        self._places = places
        self._is_text = is_text

    def read(self, raw: Any) -> T | None:
        return self._entry(raw, self._kind, Place())

    def _entry(self, raw: Any, kind: type[E], place: Place) -> E | None:
        if not isinstance(raw, dict):
            self._wrong(place, raw, "not a table of keys")
            return None
        given: dict[str, Any] = {}
        for name, value in raw.items():
            field = field_for(kind, name)
            if field is None:
                self._unknown(name, kind, place)
            elif field.name in given:
                self.problems.append(problem(place.field(field.key), f"given twice, once as {name}; keep one of them"))
            else:
                there = place.field(field.key)
                if name != field.key:
                    self._places.renamed[there.path] = name
                given[field.name] = self._value(value, field, there)
        for field in fields_of(kind).values():
            if field.is_required and field.name not in given:
                self.problems.append(problem(place, f"{field.key} is missing"))
        return None if self.problems else kind(**given)

    def _unknown(self, name: str, kind: type[msgspec.Struct], place: Place) -> None:
        # A part comes from a broker that may be newer than we are: what we do not know is no mistake.
        if kind.__struct_config__.forbid_unknown_fields and len(self.problems) < FOUND_MAX:
            there = place.field(name)
            self.problems.append(problem(there, f"unknown key; {hint(name, fields_of(kind), 'allowed here')}"))

    def _value(self, raw: Any, field: Field, place: Place) -> Any:
        if raw is None and not field.is_required and field.default is None:
            return None
        match field.shape:
            case "text":
                return raw if isinstance(raw, str) else self._wrong(place, raw, "not text")
            case "whole":
                return self._whole(raw, place)
            case "number":
                return self._number(raw, place)
            case "flag":
                return self._flag(raw, place)
            case "choice":
                return self._choice(raw, field.inner, place)
            case "texts":
                return self._texts(raw, place)
            case "services":
                is_all = isinstance(raw, str) and raw == ALL
                return ALL if is_all else self._texts(raw, place, f"neither a list of names nor {ALL!r}")
            case "entries":
                return [self._entry(one, field.inner, there) for one, there in self._entries(raw, field.inner, place)]
            case "entry":
                return self._entry(raw, field.inner, place)
            case "map":
                return self._map(raw, place)

    def _entries(self, raw: Any, kind: type[msgspec.Struct], place: Place) -> Iterator[tuple[Any, Place]]:
        """The entries of a list, however they are given, each with its name in it."""
        key = naming_key(kind)
        if isinstance(raw, dict) and isinstance(raw.get(key), str):  # one entry stands for a list of one
            raw = [raw]
        if isinstance(raw, dict) and key:
            for index, (name, told) in enumerate(raw.items()):
                there = place.item(index, name)
                self._places.renamed[there.path] = name
                is_named = not isinstance(told, dict) or key in told
                yield told if is_named else {key: name, **told}, there
        elif isinstance(raw, list):
            for index, told in enumerate(raw):
                one = {key: told} if isinstance(told, str) and key else told
                name = one.get(key) if isinstance(one, dict) else None
                yield one, place.item(index, name if isinstance(name, str) else "")
        else:
            self._wrong(place, raw, "not a list")

    def _whole(self, raw: Any, place: Place) -> Any:
        if self._is_text and isinstance(raw, str) and _WHOLE.fullmatch(raw):
            raw = int(raw)
        if isinstance(raw, int) and not isinstance(raw, bool):
            return raw if abs(raw) <= WHOLE_MAX else self._wrong(place, raw, f"over {WHOLE_MAX}")
        return self._wrong(place, raw, "not a whole number")

    def _number(self, raw: Any, place: Place) -> Any:
        if self._is_text and isinstance(raw, str) and _NUMBER.fullmatch(raw):
            raw = float(raw)
        is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
        if is_number and abs(raw) <= WHOLE_MAX and math.isfinite(raw):
            return float(raw)
        return self._wrong(place, raw, f"not a number up to {WHOLE_MAX}" if is_number else "not a number")

    def _flag(self, raw: Any, place: Place) -> Any:
        if self._is_text and raw in ("true", "false"):
            return raw == "true"
        return raw if isinstance(raw, bool) else self._wrong(place, raw, "neither true nor false")

    def _choice(self, raw: Any, allowed: tuple[str, ...], place: Place) -> Any:
        if isinstance(raw, str) and raw in allowed:
            return raw
        return self._wrong(place, raw, f"not allowed; allowed: {', '.join(allowed)}")

    def _texts(self, raw: Any, place: Place, otherwise: str = "not a list of texts") -> Any:
        if isinstance(raw, list) and all(isinstance(one, str) for one in raw):
            return raw
        return self._wrong(place, raw, otherwise)

    def _map(self, raw: Any, place: Place) -> Any:
        if isinstance(raw, dict) and all(isinstance(one, str) for one in raw.values()):
            return raw
        return self._wrong(place, raw, "not a table of texts")

    def _wrong(self, place: Place, raw: Any, why: str) -> None:
        self.problems.append(problem(place, f"{shown(raw)} is {why}"))
