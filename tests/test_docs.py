"""The documents say what the code does: tables are compared with it, names are resolved, links lead somewhere."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

import scale0
from scale0.core import builtin, heartbeat_table, management, peer_dialect, stream
from scale0.core.broker import Broker
from scale0.core.effects import Route
from scale0.core.settings import BrokerSettings, Limits
from scale0.core.star import TABLE, Event
from scale0.protocol import dialects, limits, native
from scale0.protocol.codes import Code
from scale0.protocol.commands import ALIASES, COMMANDS
from scale0.protocol.dialects import Dialect
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    Command,
    ConfigAck,
    Connect,
    Disconnect,
    Flag,
    ForceNegotiate,
    PeerService,
    PeerStatus,
    Ready,
    ServiceOffer,
    Task,
)
from scale0.protocol.network import ConfigRecord
from scale0.transport import announcements
from tests.protocol import test_golden as golden
from tests.protocol import test_majordomo as majordomo

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text()
RULES_OF_NOW = range(1, 36)
PACKAGES = {path.stem for path in (ROOT / "src" / "scale0").iterdir() if not path.stem.startswith("_")}


def section(title: str) -> str:
    """What stands under a heading, up to the next heading of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PROTOCOL, re.MULTILINE | re.DOTALL)
    assert found, f"docs/protocol.md has no section {title!r}"
    return found[1]


def table(title: str) -> list[list[str]]:
    """The rows of the table in a section, without its head."""
    rows = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def table_headed(text: str, head: str) -> list[list[str]]:
    """The rows of the table in `text` whose first column has this head."""
    found = re.search(rf"^\| {re.escape(head)} \|.*\n\|[-| ]+\n((?:\|.*\n)*)", text, re.MULTILINE)
    assert found, f"no table begins with {head!r}"
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def number(cell: str) -> float:
    """A number as people write it: 4,096 or 64 KiB."""
    digits, _, unit = cell.partition(" ")
    scale = {"": 1, "KiB": 1024, "MiB": 1024**2, "s": 1}[unit]
    return float(digits.replace(",", "")) * scale


# --- tables of the protocol -----------------------------------------------------------------------------------------


def test_dialects_are_those_of_the_code() -> None:
    known = {value.name: value.header.decode() for value in vars(dialects).values() if isinstance(value, Dialect)}
    assert {row[0]: quoted(row[1])[0] for row in table("Dialects")} == known


def test_commands_are_those_of_the_code() -> None:
    assert {row[1]: int(row[0]) for row in table("Commands")} == {command.name: command.value for command in Command}


def test_parameters_are_those_of_the_code() -> None:
    for row in table("Commands"):
        kind = COMMANDS.get(Command[row[1]])
        assert (row[3] == "packed") == (kind is None), row
        fields = msgspec.structs.fields(kind) if kind else ()
        assert quoted(row[4]) == [field.name + ("" if field.required else "?") for field in fields], row[1]


def test_codes_are_those_of_the_code() -> None:
    assert {row[1]: int(row[0]) for row in table("Codes")} == {code.name: code.value for code in Code}


def test_older_names_are_those_of_the_code() -> None:
    assert {quoted(row[0])[0]: quoted(row[1])[0] for row in table("Older parameter names")} == ALIASES


def test_limits_of_a_message_are_those_of_the_code() -> None:
    known = {name: float(value) for name, value in vars(limits).items() if name.isupper()}
    assert {quoted(row[0])[0]: number(row[1]) for row in table("Of one message")} == known


def test_limits_of_a_broker_are_those_of_the_settings() -> None:
    known = {field.name: float(field.default) for field in msgspec.structs.fields(Limits)}
    told = {quoted(row[0])[0]: number(row[1]) for row in table("Of a broker's tables, queues and buffers")}
    assert told == known


def test_settings_are_those_of_the_code() -> None:
    defaults = {field.name: getattr(BrokerSettings(), field.name) for field in msgspec.structs.fields(BrokerSettings)}
    told = {quoted(row[0])[0]: row[1] for row in table("Settings of a broker")}
    assert set(told) == set(defaults)
    for name, cell in told.items():
        if isinstance(defaults[name], int | float):
            assert number(cell) == defaults[name], name


@pytest.mark.parametrize(
    ("message", "frames"), golden.PACKED, ids=[type(message).__name__ for message, _ in golden.PACKED]
)
def test_packed_fields_stand_where_the_table_says(message: Any, frames: list[str]) -> None:
    header = bytes.fromhex(frames[0])
    body = getattr(message, "body", ()) if len(frames) == 1 else ()
    inline = 0x80 if body else 0  # the body stands in the header frame
    values: dict[str, Any] = {
        "header": header[:6],
        "command": header[6],
        "id_length": 19,
        "service_length": 5,
        "options_length": 1,
        "flags": getattr(message, "flags", 0) | inline,
        "final": getattr(message, "final", 0) | inline,
        "service": b"greet",
        "body": b"".join(body),
    }
    end = 0
    for offset, size, name, _ in table(f"{type(message).__name__.upper()}, byte by byte"):
        field = quoted(name)[0]
        assert offset in ("…", str(end)), field
        value = values[field] if field in values else getattr(message, field)
        start, end = end, end + (len(value) if size == "…" else int(size))
        raw = header[start:end]
        if isinstance(value, bytes):
            assert raw == value, field
        else:
            assert int.from_bytes(raw, "big", signed=value < 0) == value, field
    assert end == len(header)


def test_flags_are_those_of_the_code() -> None:
    *told, inline = [(quoted(row[2]), int(row[1])) for row in table("Flags of a TASK")]
    assert told == [([flag.name], flag.value) for flag in Flag]
    assert inline == ([], native._INLINE)
    assert all(int(value) == 1 << int(bit) for bit, value, *_ in table("Flags of a TASK"))


def test_small_bodies_stand_where_the_table_says() -> None:
    told = table("A small body in the header frame")
    of_replies = told.pop(1)
    assert [row[1] for row in (*told, of_replies)] == ["1", "0", "0", "1, and bit 6"]
    limit = limits.INLINE_BYTES_MAX
    cases: list[list[tuple[bytes, ...]]] = [[(b"",), (bytes(limit),)], [(bytes(limit + 1),), (b"", b"")], [()]]
    for (_, bit, _), bodies in zip(told, cases, strict=True):
        for body in bodies:
            frames = native.encode(b"SC0C01", Task(make_id(id_prefix("c", bytes(8)), 1), "echo", body, 0))
            assert frames[0][9] >> 7 == int(bit)
            assert frames[1:] == ([] if bit == "1" else list(body))


def test_long_header_frames_are_those_of_the_code() -> None:
    (row,) = [row for row in table("Of one message") if quoted(row[0]) == ["LONG_HEADER_BYTES_MAX"]]
    assert set(re.findall(r"[A-Z]{4,}", row[2])) == {command.name for command in native._LONG}


def test_majordomo_frames_are_the_standards() -> None:
    known = [frames for _, _, frames in (*majordomo.TO_BROKER, *majordomo.FROM_BROKER)]
    meanings = {"∅": b"", "service": b"echo", "address": b"to", "body+": b"a"}
    for *_, cell in table("Majordomo"):
        frames = []
        for word in cell.replace("`", "").split():
            plain = bytes.fromhex(word) if re.fullmatch(r"0\d", word) else word.encode()
            frames.append(meanings.get(word, plain))
        assert frames in known, cell


def test_listings_have_the_rows_of_the_code() -> None:
    state = busy_broker().state
    told = {quoted(row[0])[0]: quoted(row[1]) for row in table("Services of the broker")}
    shown = {name: next(row for row in listing(state) if row is not None) for name, listing in builtin.SERVED.items()}
    assert told == {name: list(row) for name, row in shown.items()}


def test_management_commands_are_those_of_the_code() -> None:
    assert [quoted(row[0])[0] for row in table("Management")] == list(management.COMMANDS)


def busy_broker() -> Broker:
    """A broker with a client, a worker, and a task that was lost with another worker."""
    broker = Broker(BrokerSettings(), now=0.0, wall_s=1e9)
    routes = {name: Route(b"\0" + name.encode()) for name in ("client", "lost", "worker")}
    broker.receive(routes["client"], dialects.CLIENT, Connect(identity="client", nonce=bytes(8)), 1.0)
    for name in ("lost", "worker"):
        broker.receive(routes[name], dialects.WORKER, Connect(identity=name, nonce=bytes(8)), 1.0)
        broker.receive(routes[name], dialects.WORKER, Ready(services=[ServiceOffer("echo")]), 1.0)
    task = Task(make_id(id_prefix("client", bytes(8)), 1), "echo", (), 1000)
    broker.receive(routes["client"], dialects.CLIENT, task, 1.0)
    broker.receive(routes["lost"], dialects.WORKER, Disconnect(), 1.0)
    return broker


# --- between brokers --------------------------------------------------------------------------------------------------


def keys_of(head: str) -> list[str]:
    return [quoted(row[0])[0] for row in table_headed(PROTOCOL, head)]


def test_what_peers_say_is_what_the_code_says() -> None:
    assert keys_of("field of PEERSTATUS") == list(PeerStatus.__struct_fields__)
    assert keys_of("field of a service in PEERSTATUS") == list(PeerService.__struct_fields__)
    assert keys_of("key of a config record") == list(ConfigRecord.__struct_fields__)
    assert keys_of("key of a table row") == list(heartbeat_table.rows(busy_broker().state)[0])
    used = {"identity", "nonce", "config_version", "in_flight", "broker", "network", "is_joining", "serial", "bundles"}
    assert set(keys_of("parameter of CONNECT")) == used <= set(Connect.__struct_fields__)


def test_changes_of_the_state_stream_are_those_of_the_code() -> None:
    told = [(row[0], int(row[1]), quoted(row[2])) for row in table_headed(PROTOCOL, "change in STREAM")]
    kinds = [(kind, kind.__struct_config__.tag) for kind in stream.Change.__subclasses__()]
    assert told == [(kind.__name__, tag, list(kind.__struct_fields__)) for kind, tag in kinds]
    assert set(stream.Change.__subclasses__()) == set(stream.AnyChange.__args__)


def test_transitions_of_a_pair_are_those_of_the_code() -> None:
    """Each cell of the table names states; a partner's state may have the higher or the lower epoch."""
    verdicts = {"serve": "SERVE", "follow": "FOLLOW", "step down": "STEP_DOWN", "go on": "RESUME"}
    told: dict[tuple[str, str], str] = {}
    for own, other, follows in table_headed(PROTOCOL, "own state"):
        verdict = verdicts.get(follows.partition(":")[0], "PRIMARY_SERVES")
        for star, event in product(own.split(", "), _events(other)):
            told[star.upper(), event] = verdict
    assert told == {(star.name, event.name): verdict.name for (star, event), verdict in TABLE.items()}


def _events(cell: str) -> list[str]:
    """`active, with a higher epoch` is AHEAD, `active in a lower epoch` is not, `active` alone is both."""
    if cell.startswith("nothing"):
        return [Event.ASKED.name]
    events: list[str] = []
    for said in cell.replace(", with a", " with a").split(", "):
        name = f"PEER_{said.split()[0].upper()}"
        has_both = f"{name}_AHEAD" in Event.__members__
        if "lower" in said or not has_both:
            events.append(name)
        elif "higher" in said:
            events.append(f"{name}_AHEAD")
        else:
            events += [name, f"{name}_AHEAD"]
    return events


def test_every_message_that_a_peer_may_send_is_told_of() -> None:
    told = section_between("## Between brokers", "## Codes")
    kinds: list[type[Any]] = [*peer_dialect.SAYS, Connect, ForceNegotiate]
    said = [kind.__name__.upper() for kind in kinds]
    assert [name for name in said if name not in told] == []


def section_between(first: str, last: str) -> str:
    return PROTOCOL.partition(f"\n{first}\n")[2].partition(f"\n{last}\n")[0]


def test_a_publisher_sends_the_frame_that_the_document_shows() -> None:
    frames = native.encode(dialects.PEER.header, ConfigAck(config_version=bytes(16), identity="eu-1"))
    assert len(frames) == 1
    assert frames[0].startswith(announcements.PREFIX)
    assert announcements.PREFIX == b"SC0P01\x03"
    assert "`SC0P01` and `03`" in section("The publisher's frame")


def test_visited_brokers_stand_before_the_options_as_the_document_shows() -> None:
    visited = Broker(BrokerSettings(identity="eu-1"), now=0.0, wall_s=1e9).state.visited
    assert "`91 A4` `eu-1`" in section("Tasks between brokers")
    assert visited == bytes.fromhex("91 A4") + b"eu-1"


def test_constants_are_those_of_the_code() -> None:
    for cell, value, _ in table("Of links, config and moves"):
        assert resolve(quoted(cell)[0]) == number(value), cell


# --- names and links ------------------------------------------------------------------------------------------------


def named_functions(text: str) -> Iterator[str]:
    """Dotted names in code type that begin with a package or module of ours."""
    for name in re.findall(r"`([a-z_]\w*(?:\.\w+)+)`", text):
        if name.split(".")[0] in PACKAGES and not name.endswith((".py", ".md")):
            yield name


def resolve(name: str) -> object:
    """The module, class or function of this dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join([scale0.__name__, *parts[:length]]))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith(scale0.__name__):
                raise
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_function_that_a_document_names_exists(document: Path) -> None:
    for name in sorted(set(named_functions(document.read_text()))):
        assert resolve(name) is not None, name


@pytest.mark.parametrize("rule", RULES_OF_NOW)
def test_rule_names_the_function_that_enforces_it(rule: int) -> None:
    found = re.search(
        rf'^<a id="rule-{rule}"></a>\n\*\*{rule}\.(.*?)(?=^<a id|^#|\Z)', PROTOCOL, re.MULTILINE | re.DOTALL
    )
    assert found, f"rule {rule} is missing"
    _, mark, names = found[1].partition("*Enforced by*")
    assert mark, f"rule {rule} names no function"
    assert list(named_functions(names))


def anchors(document: Path) -> set[str]:
    text = document.read_text()
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target


def test_every_module_that_the_map_names_exists() -> None:
    rows = table_headed((ROOT / "ARCHITECTURE.md").read_text(), "modules of `core/`")
    modules = [name for row in rows for name in quoted(row[0])]
    assert [name for name in modules if not (ROOT / "src" / "scale0" / "core" / f"{name}.py").exists()] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {path.name for path in folder.glob("0*.md")}
