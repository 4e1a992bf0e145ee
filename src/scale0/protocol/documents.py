"""Config documents in every format: JSON, XML and ZPL on the wire, and TOML for the files that people write.

All of them carry the same document: `decode(encode(x, t), t) == x`, or `encode` refuses, because a format has no way to
say some value. Reading goes from bytes to plain values, and from those to the model (`document_reader`); every error
names the line where it can, the key, and what is allowed.
"""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from scale0.errors import ProtocolError, SettingsError
from scale0.protocol import document_lines, limits, xml_documents, zpl
from scale0.protocol.codes import Code
from scale0.protocol.document_fields import Field, fields_of
from scale0.protocol.document_reader import Reader
from scale0.protocol.network import Document, Part
from scale0.protocol.problems import Places, Problem, refusal
from scale0.protocol.properties import Unfolding, to_properties

CONFIG_TYPES: Final = ("JSON", "XML", "ZPL")  # what CONNECT may ask for
FILE_TYPES: Final = (*CONFIG_TYPES, "TOML")

_OLDER_TYPES: Final = {"ZFL": "ZPL"}  # the earlier name of the same language
_BYTE: Final = re.compile(r" \(byte (\d+)\)")
_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")

T = TypeVar("T", bound=msgspec.Struct)


def todays(name: str) -> str:
    """A format's name as it is today, in upper case, whether it is one or not."""
    return _OLDER_TYPES.get(name.upper(), name.upper())


def config_type(name: str) -> str:
    """The config type that `name` means, in upper case. Raises `ProtocolError` 501 for one that nobody serves."""
    known = todays(name)
    if known not in CONFIG_TYPES:
        raise ProtocolError(
            Code.UNEXPECTED, f"config type {name[:20]!r} is not served; ask for {', '.join(CONFIG_TYPES)}"
        )
    return known


def canonical(document: Document) -> bytes:
    """The document's one form: JSON without blanks and without what is as by default. Versions are made of its hash."""
    return encode(document, "JSON")


def encode(value: Document | Part, config_type: str) -> bytes:
    """`value` in that format. Raises `SettingsError` for what the format cannot carry, or what would be too large."""
    try:
        data = _ENCODERS[config_type](value)
    except UnicodeEncodeError as error:
        raise SettingsError(f"half of a character pair, which is no text: {error.object[:40]!r}") from None
    if len(data) > limits.DOCUMENT_BYTES_MAX:
        raise SettingsError(
            f"{len(data):,} bytes of {config_type}; a document has {limits.DOCUMENT_BYTES_MAX:,} at most"
        )
    return data


def decode(data: bytes, config_type: str, kind: type[T], source: str = "config") -> T:
    """The `kind` in `data`. Raises `SettingsError` with all that is wrong; `source` is what it calls the data."""
    return read(data, config_type, kind, source).value


class Reading(NamedTuple, Generic[T]):
    """What was read, and where its keys stand, for whoever finds fault with it later."""

    value: T
    places: Places


def read(data: bytes, file_type: str, kind: type[T], source: str) -> Reading[T]:
    """As `decode`, with the places of the keys."""
    if len(data) > limits.DOCUMENT_BYTES_MAX:
        raise SettingsError(f"{source}: {len(data):,} bytes; a document has {limits.DOCUMENT_BYTES_MAX:,} at most")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{source}, line {_line_at(data, error.start)}: not UTF-8 text") from None
    try:
        plain, places, problems = _PARSERS[file_type](text, kind)
    except SettingsError as error:
        raise SettingsError(f"{source}{', ' if str(error).startswith('line ') else ': '}{error}") from None
    reader = Reader(kind, places, is_text=file_type in ("XML", "ZPL"))
    value = reader.read(plain)
    problems += reader.problems
    if problems or value is None:
        raise refusal(problems, source, places)
    return Reading(value, places)


# --- from text to plain values ------------------------------------------------------------------------------------


_Parsed = tuple[Any, Places, list[Problem]]


def _parse_json(text: str, _kind: type[msgspec.Struct]) -> _Parsed:
    try:
        plain = msgspec.json.decode(text)
    except RecursionError:
        raise SettingsError(f"over {limits.DOCUMENT_DEPTH_MAX} levels deep, which is refused") from None
    except msgspec.DecodeError as error:
        found = _BYTE.search(str(error))
        where = f"line {_line_at(text.encode(), int(found[1]))}: " if found else ""
        raise SettingsError(f"{where}not JSON: {_BYTE.sub('', str(error))}") from None
    _check_depth(plain)
    return plain, Places(partial(document_lines.of_json, text)), []


def _parse_toml(text: str, _kind: type[msgspec.Struct]) -> _Parsed:
    import tomllib  # people's files alone need it

    try:
        plain = tomllib.loads(text)
    except RecursionError:
        raise SettingsError(f"over {limits.DOCUMENT_DEPTH_MAX} levels deep, which is refused") from None
    except ValueError as error:
        found = _LINE.search(str(error))
        line = found[1] if found and found[1] else str(text.count("\n") + 1)
        raise SettingsError(f"line {line}: not TOML: {_LINE.sub('', str(error))}") from None
    _check_depth(plain)
    return plain, Places(partial(document_lines.of_toml, text)), []


def _parse_zpl(text: str, kind: type[msgspec.Struct]) -> _Parsed:
    return _unfold(zpl.parse(text), kind)


def _parse_xml(text: str, kind: type[msgspec.Struct]) -> _Parsed:
    return _unfold(xml_documents.parse(text), kind)


def _unfold(properties: list[zpl.Property], kind: type[msgspec.Struct]) -> _Parsed:
    unfolding = Unfolding()
    plain = unfolding.entry(properties, kind)
    return plain, Places(lambda: unfolding.lines), unfolding.problems


_PARSERS: Final = {"JSON": _parse_json, "TOML": _parse_toml, "ZPL": _parse_zpl, "XML": _parse_xml}


def _check_depth(plain: Any) -> None:
    level = [plain]
    for _ in range(limits.DOCUMENT_DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if any(isinstance(one, dict | list) for one in level):
        raise SettingsError(f"over {limits.DOCUMENT_DEPTH_MAX} levels deep, which is refused")


def _line_at(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


# --- from the model to text ---------------------------------------------------------------------------------------


def to_plain(entry: msgspec.Struct) -> dict[str, Any]:
    """`entry` as plain values, in the order of the model; what is as by default is left out if its kind says so."""
    is_short = entry.__struct_config__.omit_defaults
    plain: dict[str, Any] = {}
    for field in fields_of(type(entry)).values():
        value = getattr(entry, field.name)
        if value is not None and not (is_short and field.is_default(value)):
            plain[field.key] = _plain(field, value)
    return plain


def _plain(field: Field, value: Any) -> Any:
    if field.shape == "entries":
        return [to_plain(one) for one in value]
    if field.shape == "entry":
        return to_plain(value)
    if field.shape == "number":
        if not math.isfinite(value):
            raise SettingsError(f"{field.key}: {value} is not a number that a document can carry")
        return float(value)  # 5 and 5.0 are one number, and have one form
    return value


def _encode_json(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(to_plain(value))


def _encode_toml(value: msgspec.Struct) -> bytes:
    import tomli_w  # people's files alone need it

    return tomli_w.dumps(to_plain(value)).encode()


def _encode_zpl(value: msgspec.Struct) -> bytes:
    return zpl.write(to_properties(value)).encode()


def _encode_xml(value: msgspec.Struct) -> bytes:
    return xml_documents.write(to_properties(value)).encode()


_ENCODERS: Final = {"JSON": _encode_json, "TOML": _encode_toml, "ZPL": _encode_zpl, "XML": _encode_xml}
