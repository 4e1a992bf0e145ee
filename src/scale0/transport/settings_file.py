"""The file of `scale0 broker --config`: the network's document, and keys that only the process that reads it needs.

Both stand side by side at the top level, so a broker that is alone has a short file, and a file for a whole network
serves each of its brokers. TOML, JSON, ZPL and XML are told apart by the name's end. A file that does not validate is
refused as a whole, and the error names file, line, key and what is allowed (rule 22). What is local never leaves the
process: who may manage it, and its keys, are no part of a document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from scale0.core.settings import BrokerSettings, ManagementSettings, settings_for
from scale0.errors import SettingsError
from scale0.management import otlp, webhook
from scale0.protocol import document_lines, documents, limits, network_rules
from scale0.protocol.document_reader import Reader
from scale0.protocol.network import ALL, Document
from scale0.protocol.network_addresses import is_address, listens_on
from scale0.protocol.problems import Place, Places, Problem, problem, refusal, shown
from scale0.protocol.public_keys import is_key

FILE_BYTES_MAX: Final = limits.DOCUMENT_BYTES_MAX

FORMATS: Final = {".toml": "TOML", ".json": "JSON", ".zpl": "ZPL", ".xml": "XML"}
"""The end of a file's name and what the file is."""

_HTTP: Final = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")
_PORT_MAX: Final = 65_535


class SecuritySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Keys. A path that does not begin at the root begins beside the settings file."""

    key: str = ""  # its own key: a file, or the name of one; empty: nothing is encrypted
    allowed: str = ""  # the keys that it allows; empty: allowed.json in the user's configuration directory
    server_key: str = ""  # the public key of the brokers that it joins by


class Local(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What only this process needs to know."""

    identity: str | None = None
    bind: str | None = None
    backend: str | None = None
    advertise: list[str] = []  # endpoints; empty: those that are bound
    group: str = ""
    services: list[str] | Literal["all"] = ALL
    state_dir: str | None = None
    join_addresses: list[str] = []
    config_pub: str | None = None
    management: ManagementSettings = ManagementSettings()
    security: SecuritySettings = SecuritySettings()


class BrokerFile(msgspec.Struct, frozen=True):
    """What a file says, parted."""

    document: Document = Document()
    local: Local = Local()


class Listening(msgspec.Struct, frozen=True):
    """Where the file lets a broker listen; what is `None` is for the command line, or left out."""

    bind: str | None = None
    backend: str | None = None
    config_pub: str | None = None


def _everything() -> type[msgspec.Struct]:
    """One table of all keys: those of the document and those of the process."""
    fields: list[Any] = []
    for kind in (Document, Local):
        for info in msgspec.structs.fields(kind):
            factory = {} if info.default_factory is msgspec.NODEFAULT else {"default_factory": info.default_factory}
            default = factory or {"default": info.default}
            fields.append((info.name, info.type, msgspec.field(name=info.encode_name, **default)))
    return msgspec.defstruct("Everything", fields, frozen=True, forbid_unknown_fields=True, kw_only=True)


_EVERYTHING: Final = _everything()


def type_of(path: Path) -> str | None:
    """The format that a file's name says it has."""
    return FORMATS.get(f".{documents.todays(path.suffix.removeprefix('.')).lower()}")


def load(path: Path) -> BrokerFile:
    """What `path` says. Raises `SettingsError` with all that is wrong with the file."""
    return parse(*read(path), source=str(path))


def read(path: Path) -> tuple[bytes, str]:
    """The bytes of a settings file and what they are. Raises `SettingsError` if it cannot be a settings file at all."""
    file_type = type_of(path)
    if file_type is None:
        raise SettingsError(f"{path}: the name of a settings file ends in {', '.join(FORMATS)}")
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise SettingsError(f"{path}: over {FILE_BYTES_MAX:,} bytes; that is no settings file")
    return data, file_type


def parse(data: bytes, file_type: str, source: str) -> BrokerFile:
    """What the bytes of a settings file say; `source` is what errors call them."""
    reading = documents.read(data, file_type, _EVERYTHING, source)
    if file_type == "JSON":  # the readers of the other formats notice by themselves
        told = "given twice, first in line {}; keep one of them"
        found = [
            Problem(".".join(map(str, path)), told.format(line), path)
            for path, line in document_lines.repeated_in_json(data.decode())
        ]
        if found:
            raise refusal(found, source, reading.places)
    return _checked(reading.value, source, reading.places)


def from_keywords(keywords: Mapping[str, Any], source: str = "settings") -> BrokerSettings:
    """Settings of one broker from Python keywords, by the same rules as a file's."""
    places = Places()
    reader = Reader(_EVERYTHING, places)
    value = reader.read(msgspec.to_builtins(dict(keywords)))
    if value is None:
        raise refusal(reader.problems, source)
    return settings_of(_checked(value, source, places))


def settings_of(file: BrokerFile, identity: str | None = None) -> BrokerSettings:
    """The settings of the broker `identity`, or of the one that the file is for; `SettingsError` if that is open."""
    local = file.local
    own = BrokerSettings(
        identity=identity or _identity(file),
        group=local.group,
        services=None if isinstance(local.services, str) else local.services,
        management=local.management,
        advertise=local.advertise,
    )
    return settings_for(file.document, own)


def listening_of(file: BrokerFile, identity: str) -> Listening:
    """Where the broker `identity` listens: the process's own keys first, then its entry in the document."""
    local, entry = file.local, file.document.broker(identity)
    if entry is None:
        return Listening(local.bind, local.backend, local.config_pub)
    listed = listens_on(entry)
    return Listening(
        bind=local.bind or listed.bind or None,
        backend=local.backend or listed.backend or None,
        config_pub=local.config_pub or listed.config_pub or None,
    )


def local_keys(file: BrokerFile) -> list[str]:
    """The keys of the process that the file gives, for whoever wants the document alone."""
    return [name for name in Local.__struct_fields__ if getattr(file.local, name) != getattr(Local(), name)]


def _identity(file: BrokerFile) -> str:
    if file.local.identity:
        return file.local.identity
    listed = [entry.identity for entry in file.document.brokers]
    if len(listed) > 1:
        which = f"the document lists {len(listed)} brokers: {', '.join(listed)}"
        raise SettingsError(f"{which}\nsay which one this is: --identity {listed[0]}")
    return listed[0] if listed else BrokerSettings().identity


def _checked(value: msgspec.Struct, source: str, places: Places) -> BrokerFile:
    document = Document(**{name: getattr(value, name) for name in Document.__struct_fields__})
    local = Local(**{name: getattr(value, name) for name in Local.__struct_fields__})
    found = [*_problems(local), *network_rules.problems(document)]
    if found:
        raise refusal(found, source, places)
    return BrokerFile(document, local)


def _problems(local: Local) -> Iterator[Problem]:
    """What must hold for the process's own keys."""
    place = Place()
    for name in ("identity", "bind", "backend", "state_dir", "config_pub"):
        value = getattr(local, name)
        if value == "":
            yield problem(place.field(name), "must not be empty; leave it out")
        elif value is not None and not value.isprintable():
            yield problem(place.field(name), f"{shown(value)} has characters that cannot be printed")
    for name in ("identity", "group"):
        if len((getattr(local, name) or "").encode(errors="surrogatepass")) > limits.IDENTITY_BYTES_MAX:
            yield problem(place.field(name), f"a name has at most {limits.IDENTITY_BYTES_MAX} bytes")
    for name in ("advertise", "join_addresses"):
        for address in getattr(local, name):
            if not is_address(address):
                yield problem(place.field(name), f"{shown(address)} is no address such as tcp://10.0.0.1:5555")
    if not isinstance(local.services, str):
        yield from network_rules.offered(local.services, place.field("services"))
    yield from _management_problems(local.management, place.field("management"))
    server_key = local.security.server_key
    if server_key and not is_key(server_key):
        there = place.field("security").field("server_key")
        yield problem(there, f"{shown(server_key)} is no public key; scale0 keys show prints one")


def _management_problems(management: ManagementSettings, place: Place) -> Iterator[Problem]:
    found = _HTTP.fullmatch(management.http) if management.http else None
    if management.http and (found is None or int(found["port"]) > _PORT_MAX):
        yield problem(place.field("http"), f"{shown(management.http)} is no address such as 127.0.0.1:8480")
    if bool(management.tls_cert) != bool(management.tls_key):
        missing = "tls_key" if management.tls_cert else "tls_cert"
        yield problem(place.field(missing), "a certificate and its key go together")
    checks: dict[str, Callable[[str], object]] = {"webhook": webhook.check_url, "otlp": otlp.metrics_url}
    for name, check in checks.items():
        try:
            if address := getattr(management, name):
                check(address)
        except SettingsError as error:
            yield problem(place.field(name), str(error).partition(": ")[2])
