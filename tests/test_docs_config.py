"""`docs/configuration.md` and `docs/operating.md` say what the model and the code say, key by key."""

from __future__ import annotations

import re

import msgspec
import pytest

from scale0.cli.config_command import text_of
from scale0.cli.network_view import GOOD_STATES, TROUBLES
from scale0.protocol import documents, network_rules
from scale0.protocol.document_fields import OLDER_NAMES, fields_of
from scale0.protocol.network import BrokerEntry, Document, GroupBroker, GroupConfig, GroupEntry, Part, PeerEntry
from scale0.protocol.network import ServiceEntry as Service
from scale0.transport.settings_file import FORMATS, Local
from tests.test_docs import ROOT, quoted, table_headed

CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
OPERATING = (ROOT / "docs" / "operating.md").read_text()
TABLES: dict[str, type[msgspec.Struct]] = {
    "The network": Document,
    "A group": GroupEntry,
    "A broker": BrokerEntry,
    "A peer of a broker": PeerEntry,
    "A service": Service,
    "A broker's file": Local,
    "What participants get": Part,
}
"""Which kind of entry the table under each heading describes."""


def below(heading: str) -> str:
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*)", CONFIGURATION, re.MULTILINE | re.DOTALL)
    assert found, f"docs/configuration.md has no section {heading!r}"
    return found[1]


def default_of(kind: type[msgspec.Struct], key: str) -> str:
    """How the documents write a default: as JSON; a dash for none, and for what has a table of its own."""
    field = fields_of(kind)[key]
    if field.is_required:
        return "needed"
    if field.default is None or isinstance(field.default, msgspec.Struct):
        return "–"
    return f"`{msgspec.json.encode(field.default).decode()}`"


@pytest.mark.parametrize("heading", TABLES)
def test_keys_and_defaults_are_those_of_the_model(heading: str) -> None:
    kind = TABLES[heading]
    told = {quoted(row[0])[0]: row[1] for row in table_headed(below(heading), "key")}
    assert told == {key: default_of(kind, key) for key in fields_of(kind)}
    assert list(told) == list(fields_of(kind)), "in the model's order"


def test_a_broker_of_a_group_has_the_keys_of_the_model() -> None:
    told = {quoted(row[0])[0]: row[1] for row in table_headed(CONFIGURATION, "key of a broker in `group_config`")}
    assert told == {key: default_of(GroupBroker, key) for key in fields_of(GroupBroker)}
    assert list(fields_of(GroupConfig)) == ["name", "brokers"]


def test_choices_that_a_key_allows_are_told() -> None:
    for heading, kind in TABLES.items():
        rows = {quoted(row[0])[0]: " ".join(row) for row in table_headed(below(heading), "key")}
        for key, field in fields_of(kind).items():
            if field.shape == "choice":
                assert all(choice in rows[key] for choice in field.inner), f"{heading}: {key}"


def test_older_keys_are_those_of_the_code() -> None:
    rows = table_headed(below("Older keys"), "older")
    assert {quoted(row[0])[0]: quoted(row[1])[0] for row in rows} == OLDER_NAMES


def example(suffix: str) -> str:
    found = re.search(rf'^```\w+ title="network\.{suffix}"\n(.*?)^```', CONFIGURATION, re.MULTILINE | re.DOTALL)
    assert found, f"no network.{suffix}"
    return found[1]


def test_the_example_says_the_same_in_every_format() -> None:
    written = documents.decode(example("toml").encode(), "TOML", Document)
    network_rules.check(written)
    for suffix, file_type in FORMATS.items():
        text = example(suffix.removeprefix("."))
        assert documents.decode(text.encode(), file_type, Document) == written
        if file_type != "TOML":  # that one was written by a person
            assert text.strip() == text_of(written, file_type.lower()).strip(), "as scale0 config convert writes it"


def test_every_alarm_is_told_of() -> None:
    sources = [path.read_text() for path in (ROOT / "src" / "scale0").rglob("*.py")]
    raised = {name for text in sources for name in re.findall(r'alarm(?:\(|=)\s*"(\w+)"', text)}
    assert {quoted(row[0])[0] for row in table_headed(OPERATING, "alarm")} == raised


def test_every_state_of_a_broker_is_told_of() -> None:
    assert {row[0] for row in table_headed(OPERATING, "state")} == {*GOOD_STATES, *TROUBLES}
