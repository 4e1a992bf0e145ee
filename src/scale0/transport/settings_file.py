"""The broker's settings file, TOML or JSON by its name's end.

A file that does not validate is refused as a whole, and the error names file, line, key and what is allowed (rule 22);
a key that is almost right gets "did you mean". Durations may be written without their unit, as the drafts do:
`default_heartbeat_interval` is `default_heartbeat_interval_s`.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from scale0.core.settings import BrokerSettings, Limits, ManagementSettings, ServiceSettings
from scale0.errors import SettingsError

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
OLDER_NAMES: Final = {"hbeatinterval": "default_heartbeat_interval_s"}
_AT: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN: Final = re.compile(r"unknown field `(?P<name>[^`]*)`")


S = TypeVar("S", bound=BrokerSettings)


class BrokerFile(BrokerSettings, frozen=True, forbid_unknown_fields=True):
    """Everything that a settings file may say: the broker's settings, and what the process needs beside them."""

    bind: str | None = None
    backend: str | None = None
    state_dir: str | None = None


def load(path: Path) -> BrokerFile:
    """The settings in `path`. Raises `SettingsError`, whatever is wrong with the file."""
    text = _read(path)
    return convert(_parse(path, text), BrokerFile, source=str(path), text=text)


def convert(raw: Any, kind: type[S], *, source: str = "settings", text: str = "") -> S:
    """`raw` as settings of `kind`; an error names `source`, and the line in `text` where it can be found."""
    if isinstance(raw, dict):
        raw = _with_current_names(raw, kind)
    try:
        settings = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _explain(error, kind, source, text) from None
    _check_ranges(settings, "", source, text)
    return settings


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise SettingsError(f"{path}: over {FILE_BYTES_MAX:,} bytes; that is no settings file")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def _parse(path: Path, text: str) -> Any:
    try:
        if path.suffix == ".json":
            return msgspec.json.decode(text)
        if path.suffix == ".toml":
            return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise SettingsError(f"{path}: not JSON: {error}") from None
    raise SettingsError(f"{path}: the name of a settings file ends in .toml or .json")


def _with_current_names(raw: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Keys without their unit, and older names, become the names of today."""
    known = kind.__struct_fields__
    renamed = {}
    for name, value in raw.items():
        current = OLDER_NAMES.get(name, name)
        if current not in known and f"{current}_s" in known:
            current = f"{current}_s"
        inner = value
        if name == "service" and isinstance(value, dict):
            inner = {
                service: _with_current_names(told, ServiceSettings) if isinstance(told, dict) else told
                for service, told in value.items()
            }
        renamed[current] = inner
    return renamed


def _explain(error: msgspec.ValidationError, kind: type[Any], source: str, text: str) -> SettingsError:
    found = _AT.match(str(error))
    assert found is not None, "the pattern matches anything"
    what, path = found["what"], (found["path"] or "").lstrip(".").replace("[...]", ".*")
    unknown = _UNKNOWN.search(what)
    if unknown is None:
        return SettingsError(f"{_where(source, text, path)}: {path or 'the file'}: {what[:1].lower()}{what[1:]}")
    name = unknown["name"]
    key = f"{path}.{name}" if path else name
    allowed = _keys_at(kind, path)
    near = difflib.get_close_matches(name, allowed, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"allowed here: {', '.join(allowed)}"
    return SettingsError(f"{_where(source, text, key)}: unknown key {key}; {hint}")


def _keys_at(kind: type[Any], path: str) -> list[str]:
    """The keys that are allowed under `path`."""
    table: type[Any] = {"limits": Limits, "management": ManagementSettings, "service": ServiceSettings}.get(
        path.split(".")[0], kind
    )
    return list(table.__struct_fields__)


def _where(source: str, text: str, key: str) -> str:
    """`file, line 3` where the key's last name stands at the beginning of a line."""
    name = key.rpartition(".")[2]
    bare = name.removesuffix("_s")
    pattern = re.compile(rf"""^\s*\[*["']?(?:{re.escape(name)}|{re.escape(bare)})["']?\s*[=:\].]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if name and name != "*" and pattern.match(line):
            return f"{source}, line {number}"
    return source


def _check_ranges(settings: msgspec.Struct, path: str, source: str, text: str) -> None:
    """Numbers of settings are counts, sizes and durations: none of them may be zero or negative, or endless."""
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        key = f"{path}{name}"
        if isinstance(value, msgspec.Struct):
            _check_ranges(value, f"{key}.", source, text)
        elif name == "service" and isinstance(value, dict):
            for service, told in value.items():
                _check_ranges(told, f"{key}.{service}.", source, text)
        elif isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < float("inf"):
            raise SettingsError(f"{_where(source, text, key)}: {key}: must be above 0, not {value}")
    if isinstance(settings, BrokerSettings) and not settings.identity:
        raise SettingsError(f"{_where(source, text, 'identity')}: identity: must not be empty")
