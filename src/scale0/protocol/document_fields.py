"""The keys of a document's entries and what each may hold, taken from the types of the model.

Reading, writing, comparing and locating all follow this one table, so that a key that is added to the model is at once
known to every format. A duration's field ends in `_s` and its key does not; the key is accepted with the unit too, and
so are the names of older drafts.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from scale0.protocol.network import ALL

OLDER_NAMES: Final = {
    "hbeatinterval": "default_heartbeat_interval",
    "prefered_broker": "preferred_broker",
    "fallback_server": "fallback_broker",
}
"""Keys of older drafts and the keys of today."""

Shape = Literal["text", "whole", "number", "flag", "choice", "texts", "services", "entries", "entry", "map"]


class Field(NamedTuple):
    name: str  # in Python
    key: str  # in documents
    shape: Shape
    inner: Any  # the entries' type, or the choices
    is_required: bool
    default: Any

    def is_default(self, value: Any) -> bool:
        return not self.is_required and bool(value == self.default)


@cache
def fields_of(kind: type[msgspec.Struct]) -> dict[str, Field]:
    """The fields of `kind` by key, in their order."""
    found: dict[str, Field] = {}
    for info in msgspec.structs.fields(kind):
        shape, inner = _shape(info.type)
        factory = info.default_factory
        default = info.default if factory is msgspec.NODEFAULT else factory()
        found[info.encode_name] = Field(info.name, info.encode_name, shape, inner, info.required, default)
    return found


@cache
def _by_any_name(kind: type[msgspec.Struct]) -> dict[str, Field]:
    fields = fields_of(kind)
    older = {name: fields[key] for name, key in OLDER_NAMES.items() if key in fields}
    return older | {field.name: field for field in fields.values()} | fields


def field_for(kind: type[msgspec.Struct], name: str) -> Field | None:
    """The field that `name` means: a key, a key with its unit, or an older name."""
    return _by_any_name(kind).get(name)


@cache
def naming_key(kind: type[msgspec.Struct]) -> str | None:
    """The key that names an entry of this kind within its list: `name` or `identity`."""
    return next((key for key in ("name", "identity") if key in fields_of(kind)), None)


def name_of(entry: msgspec.Struct) -> str:
    key = naming_key(type(entry))
    return getattr(entry, key) if key else ""


def _shape(kind: Any) -> tuple[Shape, Any]:
    plain: dict[Any, Shape] = {str: "text", int: "whole", float: "number", bool: "flag"}
    if kind in plain:
        return plain[kind], None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return "entry", kind
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "choice", inner
    if origin is list:
        return ("texts", None) if inner[0] is str else ("entries", inner[0])
    if origin is dict:
        return "map", None
    assert origin in (Union, UnionType), f"a document cannot hold {kind}"
    if Literal[ALL] in inner:
        return "services", None
    (told,) = (one for one in inner if one is not type(None))  # or left out
    return _shape(told)
