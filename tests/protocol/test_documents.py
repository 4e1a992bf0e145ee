from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scale0.errors import ProtocolError, SettingsError
from scale0.protocol import limits
from scale0.protocol.documents import CONFIG_TYPES, FILE_TYPES, canonical, config_type, decode, encode
from scale0.protocol.network import (
    BrokerEntry,
    Document,
    GroupBroker,
    GroupConfig,
    Limits,
    Part,
    PeerEntry,
    ServiceEntry,
)
from tests.protocol import documents_strategies as strategies

EXAMPLE = Document(
    network="prod",
    config_brokers=["eu-1"],
    default_heartbeat_interval_s=1.5,
    brokers=[
        BrokerEntry(identity="eu-1", group="eu", services=[], peers=[PeerEntry(identity="eu-2", table="pull")]),
        BrokerEntry(identity="eu-2", endpoints=["tcp://10.0.0.2:5555", "ipc:///run/eu"], state="disabled"),
    ],
    service=[ServiceEntry(name="render", idempotent=False, timeout_s=5)],
    limits=Limits(sessions=7),
)
PART = Part(
    identity="w-1",
    services=["render"],
    preferred_broker="eu-1",
    group_config=[GroupConfig(name="", brokers=[GroupBroker(identity="eu-1", services=["render"])])],
)

slow = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def refused(text: str, file_type: str, kind: type[Any] = Document) -> str:
    with pytest.raises(SettingsError) as caught:
        decode(text.encode(), file_type, kind)
    return str(caught.value)


def told(data: bytes, file_type: str, kind: type[Any]) -> str:
    """What is told of data that may be refused; only its source if it is not."""
    try:
        value = decode(data, file_type, kind)
    except SettingsError as error:
        return str(error)
    assert isinstance(value, kind)
    return "config"


# --- there and back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_type", FILE_TYPES)
@pytest.mark.parametrize("value", [EXAMPLE, PART, Document(), Part(identity="x")], ids=lambda one: type(one).__name__)
def test_every_format_carries_documents_and_parts(file_type: str, value: Document | Part) -> None:
    assert decode(encode(value, file_type), file_type, type(value)) == value


@slow
@given(strategies.documents())
def test_a_valid_document_passes_through_every_format_in_turn(document: Document) -> None:
    passed = document
    for file_type in ("TOML", "XML", "JSON"):
        passed = decode(encode(passed, file_type), file_type, Document)
    assert passed == document
    assert canonical(passed) == canonical(document)


@slow
@given(strategies.documents())
def test_zpl_carries_every_valid_document_without_both_quotes(document: Document) -> None:
    assume("'" not in canonical(document).decode())
    assert decode(encode(document, "ZPL"), "ZPL", Document) == document


@slow
@given(strategies.documents() | strategies.parts | strategies.loose(Document) | strategies.loose(Part))
def test_a_format_carries_a_value_as_it_is_or_refuses_it(value: Any) -> None:
    for file_type in CONFIG_TYPES:
        try:
            data = encode(value, file_type)
        except SettingsError:
            assert file_type != "JSON", "JSON carries every text"
            continue
        assert decode(data, file_type, type(value)) == value


@given(st.binary(max_size=200), st.sampled_from(FILE_TYPES), st.sampled_from([Document, Part]))
def test_any_bytes_decode_or_are_refused(data: bytes, file_type: str, kind: type[Any]) -> None:
    assert told(data, file_type, kind).startswith("config")


@slow
@given(strategies.documents(), st.sampled_from(FILE_TYPES), st.data())
def test_a_damaged_document_decodes_or_is_refused(document: Document, file_type: str, data: st.DataObject) -> None:
    try:
        text = encode(document, file_type)
    except SettingsError:
        return
    cut = data.draw(st.integers(0, len(text)))
    damaged = text[:cut] + data.draw(st.binary(max_size=3)) + text[cut + data.draw(st.integers(0, 3)) :]
    assert told(damaged, file_type, Document).startswith("config")


# --- one form -----------------------------------------------------------------------------------------------------


def test_canonical_form_leaves_out_what_is_as_by_default() -> None:
    assert canonical(Document()) == b"{}"
    assert canonical(Document(liveness=3, limits=Limits(sessions=20_000), grace_s=5)) == b"{}"
    assert canonical(EXAMPLE) == canonical(decode(canonical(EXAMPLE), "JSON", Document))


def test_equal_documents_have_one_canonical_form() -> None:
    whole, fraction = Document(grace_s=7), Document(grace_s=7.0)
    assert whole == fraction
    assert canonical(whole) == canonical(fraction) == b'{"grace":7.0}'


def test_a_part_says_everything_even_what_is_as_by_default() -> None:
    assert msgspec.json.decode(encode(Part(identity="w"), "JSON")) == {
        "identity": "w",
        "services": [],
        "preferred_broker": "",
        "group_config": [],
        "default_heartbeat_interval": 2.5,
        "liveness": 3,
    }


@pytest.mark.parametrize(("name", "known"), [("JSON", "JSON"), ("zpl", "ZPL"), ("ZFL", "ZPL"), ("Xml", "XML")])
def test_config_types_are_known_in_any_case_and_by_their_older_name(name: str, known: str) -> None:
    assert config_type(name) == known


@pytest.mark.parametrize("name", ["TOML", "YAML", ""])
def test_config_type_that_nobody_serves_is_answered_501(name: str) -> None:
    with pytest.raises(ProtocolError, match="JSON, XML, ZPL") as caught:
        config_type(name)
    assert caught.value.code == 501


# --- what is read -------------------------------------------------------------------------------------------------


def test_names_of_older_drafts_and_units_are_understood() -> None:
    older = b'{"hbeatinterval": 1.5, "grace_s": 7, "service": [{"name": "x", "timeout_s": 3}]}'
    document = decode(older, "JSON", Document)
    assert (document.default_heartbeat_interval_s, document.grace_s, document.service[0].timeout_s) == (1.5, 7.0, 3.0)
    part = decode(b'{"identity": "w", "prefered_broker": "eu-1"}', "JSON", Part)
    assert part.preferred_broker == "eu-1"


@pytest.mark.parametrize(
    ("text", "file_type"),
    [
        ('{"service": {"render": {"timeout": 5}, "ocr": {}}}', "JSON"),
        ("[service.render]\ntimeout = 5\n[service.ocr]\n", "TOML"),
        ('[[service]]\nname = "render"\ntimeout = 5\n[[service]]\nname = "ocr"\n', "TOML"),
        ('service = "render"\n    timeout = 5\nservice = ocr\n', "ZPL"),
        ("service\n    name = render\n    timeout = 5\nservice\n    name = ocr\n", "ZPL"),
    ],
)
def test_entries_are_a_list_or_a_map_by_name(text: str, file_type: str) -> None:
    document = decode(text.encode(), file_type, Document)
    assert document.service == [ServiceEntry(name="render", timeout_s=5), ServiceEntry(name="ocr")]


def test_an_entry_may_be_its_name_alone() -> None:
    text = '[[brokers]]\nidentity = "a"\npeers = ["b"]\n'
    assert decode(text.encode(), "TOML", Document).brokers[0].peers == [PeerEntry(identity="b")]
    alone = decode(b'{"brokers": {"identity": "a", "group": "g"}}', "JSON", Document)
    assert alone.brokers == [BrokerEntry(identity="a", group="g")]


@pytest.mark.parametrize(
    ("text", "services"),
    [
        ("identity = a\n", "all"),
        ("identity = a\nservices = all\n", "all"),
        ("identity = a\nservices\n", []),
        ("identity = a\nservices = x\n", ["x"]),
        ("identity = a\nservices = x\nservices = all\n", ["x", "all"]),
    ],
)
def test_services_are_all_or_a_list_also_where_lists_are_repeated_names(text: str, services: Any) -> None:
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    document = decode(f"brokers\n{indented}".encode(), "ZPL", Document)
    assert document.brokers[0].services == services


def test_unknown_keys_of_a_part_are_ignored_for_brokers_may_be_newer() -> None:
    part = decode(b'{"identity": "w", "colour": "red", "group_config": [{"name": "g", "size": 3}]}', "JSON", Part)
    assert part.group_config == [GroupConfig(name="g")]
    text = b"<scale0><identity>w</identity><colour><of>sky</of></colour></scale0>"
    assert decode(text, "XML", Part) == Part(identity="w")


# --- what is refused ----------------------------------------------------------------------------------------------


def test_every_mistake_is_told_with_line_key_and_what_is_allowed() -> None:
    text = 'network = 3\n\n[[brokers]]\nidentity = "a"\n[[brokers]]\nidentity = "b"\nstat = "x"\nstate = "aktive"\n'
    assert refused(text, "TOML").splitlines() == [
        "config, line 1: network: 3 is not text",
        "config, line 7: broker.b.stat: unknown key; did you mean state?",
        "config, line 8: broker.b.state: 'aktive' is not allowed; allowed: active, disabled",
    ]


@pytest.mark.parametrize(
    ("text", "file_type", "told"),
    [
        ('{"network": "x",\n "limits": {"session": 1}}', "JSON", "line 2: limits.session: unknown key; did you mean"),
        ('{"zzzz": 1}', "JSON", "line 1: zzzz: unknown key; allowed here: network, config_brokers"),
        ('{"liveness": true}', "JSON", "liveness: True is not a whole number"),
        ('{"liveness": 2.5}', "JSON", "liveness: 2.5 is not a whole number"),
        ('{"liveness": 99999999999999999999}', "JSON", "liveness: 99999999999999999999 is over"),
        ('{"grace": "5"}', "JSON", "grace: '5' is not a number"),
        ('{"grace": 1e300}', "JSON", "grace: 1e+300 is not a number up to"),
        ("grace = nan", "TOML", "grace: nan is not a number up to"),
        ('{"network": null}', "JSON", "network: None is not text"),
        ('{"brokers": 1}', "JSON", "brokers: 1 is not a list"),
        ('{"brokers": [1]}', "JSON", "brokers[0]: 1 is not a table of keys"),
        ('{"brokers": [{"group": "x"}]}', "JSON", "brokers[0]: identity is missing"),
        ('{"brokers": [{"identity": "a", "services": "x"}]}', "JSON", "is neither a list of names nor 'all'"),
        ('{"config_brokers": ["a", 1]}', "JSON", "config_brokers: ['a', 1] is not a list of texts"),
        (
            '{"service": {"x": {"idempotent": "true"}}}',
            "JSON",
            "service.x.idempotent: 'true' is neither true nor false",
        ),
        ('{"grace": 1, "grace_s": 2}', "JSON", "grace: given twice, once as grace_s"),
        ("[]", "JSON", "config: [] is not a table of keys"),
        ('{"a": 1,\n}', "JSON", "line 2: not JSON"),
        ("a = = 1", "TOML", "line 1: not TOML"),
        ("a = [\n", "TOML", "line 2: not TOML"),
        ("liveness = 3\nliveness = 4\n", "ZPL", "line 2: liveness: given twice, first in line 1"),
        ("liveness = 3\n    x\n", "ZPL", "line 2: liveness: has x below it"),
        ("limits = 3\n", "ZPL", "line 1: limits: has a value of its own"),
        ("liveness = three\n", "ZPL", "line 1: liveness: 'three' is not a whole number"),
        ("grace = inf\n", "ZPL", "line 1: grace: 'inf' is not a number"),
        ("liveness = ٣\n", "ZPL", "line 1: liveness: '٣' is not a whole number"),
        ("a b\n", "ZPL", "config, line 1: after a comes 'b'"),
        ("<scale0>\n<liveness>x</liveness></scale0>", "XML", "line 2: liveness: 'x' is not a whole number"),
    ],
)
def test_what_is_wrong_is_named(text: str, file_type: str, told: str) -> None:
    assert told in refused(text, file_type)


def test_what_is_not_utf8_is_refused_with_its_line() -> None:
    for file_type in FILE_TYPES:
        with pytest.raises(SettingsError, match="config, line 2: not UTF-8"):
            decode(b"\n\xff", file_type, Document)


def test_keys_that_are_no_text_for_people_do_not_break_the_message() -> None:
    assert len(refused('{"a\\nb": 1, "' + "x" * 5000 + '": 1}', "JSON").splitlines()) == 2
    assert len(refused('{"' + "x" * 5000 + '": 1}', "JSON")) < 1000


def test_of_many_mistakes_some_are_told_and_the_others_counted() -> None:
    text = "{" + ", ".join(f'"k{number}": 1' for number in range(80)) + "}"
    lines = refused(text, "JSON").splitlines()
    assert len(lines) == 51
    assert lines[-1] == "config: and 30 more"


@pytest.mark.parametrize("file_type", FILE_TYPES)
def test_a_document_over_the_limit_is_refused_before_it_is_parsed(file_type: str) -> None:
    with pytest.raises(SettingsError, match="at most"):
        decode(b" " * (limits.DOCUMENT_BYTES_MAX + 1), file_type, Document)


@pytest.mark.parametrize("file_type", FILE_TYPES)
def test_a_document_that_would_be_over_the_limit_is_not_written(file_type: str) -> None:
    many = Document(config_brokers=["x" * 1000] * 1050)
    with pytest.raises(SettingsError, match="at most"):
        encode(many, file_type)


@pytest.mark.parametrize("depth", [17, 100_000])
def test_json_that_is_nested_too_deep_is_refused(depth: int) -> None:
    assert "levels deep" in refused('{"a": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}", "JSON")
    assert "levels deep" in refused("a = " + "[" * (depth - 1) + "]" * (depth - 1), "TOML")


def test_nesting_up_to_the_limit_is_only_unknown() -> None:
    assert "unknown key" in refused('{"a": ' + "[" * 15 + "]" * 15 + "}", "JSON")


@pytest.mark.parametrize(
    ("value", "file_type"),
    [
        (Document(network="a\nb"), "ZPL"),
        (Document(network="a'\"#"), "ZPL"),
        (Document(network="a\x00b"), "XML"),
        (Document(network="a\rb"), "XML"),
        (Document(network="\ud800"), "JSON"),
        (Document(network="\ud800"), "XML"),
        (Document(network="\ud800"), "ZPL"),
        (Document(config_brokers=[""]), "XML"),
        (Document(brokers=[BrokerEntry(identity="a", services=["all"])]), "ZPL"),
        (Document(grace_s=float("inf")), "JSON"),
    ],
)
def test_what_a_format_cannot_carry_is_refused_and_never_changed(value: Document, file_type: str) -> None:
    with pytest.raises(SettingsError):
        encode(value, file_type)
