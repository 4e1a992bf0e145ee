"""The config that a broker holds: versions in one order, history, and each participant's part (rules 21–24)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.core.config import ConfigKeeper, content_hash
from scale0.core.settings import BrokerSettings
from scale0.protocol import documents
from scale0.protocol.dialects import CLIENT, REQ_WORKER, WORKER
from scale0.protocol.messages import Config, ConfigAck, ConfigVersion, Connect, Error
from scale0.protocol.network import BrokerEntry, ConfigRecord, Document, GroupEntry, Limits, Part
from tests.core.desk import NONCE, Desk, only
from tests.core.mesh import Mesh, Node, endpoint_of, network_of, publisher_of

versions = st.builds(ConfigVersion, st.integers(0, 3), st.integers(0, 2**32 - 1), st.binary(min_size=8, max_size=8))


def keeper(
    document: Document | None = None, records: list[ConfigRecord] | None = None, identity: str = "b1"
) -> ConfigKeeper:
    return ConfigKeeper(BrokerSettings(identity=identity), 1, 0, records or [], document)


# --- versions -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(versions, versions)
def test_versions_are_ordered_by_epoch_number_and_hash_packed_or_not(one: ConfigVersion, other: ConfigVersion) -> None:
    assert (one < other) == (one.pack() < other.pack())
    assert ConfigVersion.unpack(one.pack()) == one
    assert (one == other) == (one.pack() == other.pack())


def test_version_names_the_content() -> None:
    one, other = keeper(Document(liveness=4)), keeper(Document(liveness=5))
    assert one.version.hash != other.version.hash
    assert one.version.hash == keeper(Document(liveness=4)).version.hash
    assert one.version.hash == content_hash(documents.canonical(one.document))
    assert (one.version.epoch, one.version.number) == (1, 1)


def test_version_is_written_as_epoch_number_and_the_beginning_of_its_hash() -> None:
    assert str(ConfigVersion(1, 42, bytes.fromhex("ab12cd34ef567890"))) == "1.42.ab12cd34"


# --- the start ------------------------------------------------------------------------------------------------------


def test_broker_that_is_told_nothing_makes_a_document_of_its_own() -> None:
    assert [entry.identity for entry in keeper().document.brokers] == ["b1"]


def test_broker_enters_itself_into_a_document_that_does_not_list_it() -> None:
    held = keeper(Document(brokers=[BrokerEntry(identity="b2")], liveness=4))
    assert [entry.identity for entry in held.document.brokers] == ["b2", "b1"]
    assert held.document.liveness == 4


def test_kept_records_are_used_at_the_start() -> None:
    first = keeper(Document(liveness=4))
    record = first.make(Document(liveness=5, brokers=first.document.brokers), first.version, "ada", "why", 7)
    held = keeper(records=[first.record, record])
    assert held.document.liveness == 5
    assert held.version.number == 2
    assert [(past.author, past.comment) for past in held.records()] == [("b1", "as it was started"), ("ada", "why")]


def test_file_wins_over_kept_records_for_a_broker_that_is_alone() -> None:
    first = keeper(Document(liveness=4))
    held = keeper(Document(liveness=6), [first.record])
    assert held.document.liveness == 6
    assert held.version.number == 2
    assert held.history == [first.record]
    again = keeper(Document(liveness=6), held.records())
    assert again.version == held.version, "the same file is no new version"


def test_what_the_network_agreed_on_wins_over_the_file() -> None:
    brokers = [BrokerEntry(identity="b1"), BrokerEntry(identity="b2")]
    first = keeper(Document(liveness=4, brokers=brokers))
    held = keeper(Document(liveness=6, brokers=brokers), [first.record])
    assert held.document.liveness == 4
    assert held.version == first.version


# --- history --------------------------------------------------------------------------------------------------------


def grown(count: int, limit: int) -> ConfigKeeper:
    held = keeper(Document(limits=Limits(config_history=limit)))
    for number in range(count):
        document = msgspec.structs.replace(held.document, liveness=number + 1)
        before = held.record
        held.take(held.make(document, held.version, "ada", f"change {number}", number), document)
        held.remember([before])
    return held


def test_history_keeps_the_newest_within_its_limit() -> None:
    held = grown(20, limit=5)
    assert len(held.history) == 5
    assert [ConfigVersion.unpack(record.version).number for record in held.history] == [16, 17, 18, 19, 20]
    assert held.version.number == 21
    assert held.records()[-1] is held.record


def test_history_is_in_the_order_of_versions_and_has_each_once() -> None:
    held = grown(4, limit=50)
    history = list(held.history)
    held.remember([*reversed(history), held.record])
    assert held.history == history
    assert held.record not in held.history


# --- what participants get ------------------------------------------------------------------------------------------


def connect(node: Node, **more: object) -> Config | ConfigAck | Error:
    """What CONNECT of a worker gets."""
    said = {"identity": "w", "nonce": NONCE, "services": ["echo"], **more}
    node.say("w", WORKER, Connect(**said))  # type: ignore[arg-type]
    return node.said.pop("w")[-1]  # type: ignore[return-value]


def part_of(answer: object) -> Part:
    assert isinstance(answer, Config)
    return documents.decode(answer.config, answer.config_type, Part)


def three_groups() -> tuple[Mesh, list[Node]]:
    brokers: dict[str, Any] = {
        "eu-1": {"group": "eu", "public_key": "k" * 40},
        "eu-2": {"group": "eu", "services": ["render"]},
        "us-1": {"group": "us"},
        "ap-1": {"group": "ap"},
    }
    return network_of(brokers, groups=[GroupEntry(name="eu", fallback_groups=["us"])], liveness=4)


def test_participant_gets_its_own_part_with_its_group_first_and_then_the_fallback_groups() -> None:
    _, (eu1, *_) = three_groups()
    part = part_of(connect(eu1))
    assert (part.identity, part.services, part.preferred_broker) == ("w", ["echo"], "eu-1")
    assert [(group.name, [broker.identity for broker in group.brokers]) for group in part.group_config] == [
        ("eu", ["eu-1", "eu-2"]),
        ("us", ["us-1"]),
    ]
    first, second = part.group_config[0].brokers
    assert (first.endpoints, first.config_pub, first.public_key) == ([endpoint_of(1)], publisher_of(1), "k" * 40)
    assert (first.services, second.services) == ("all", ["render"])
    assert (part.default_heartbeat_interval_s, part.liveness) == (2.5, 4)


@pytest.mark.parametrize("config_type", ["JSON", "XML", "ZPL", "zpl", "ZFL"])
def test_config_comes_in_the_format_that_was_asked_for(config_type: str) -> None:
    _, (eu1, *_) = three_groups()
    answer = connect(eu1, config_type=config_type)
    assert isinstance(answer, Config)
    assert answer.config_type == {"zpl": "ZPL", "ZFL": "ZPL"}.get(config_type, config_type)
    assert part_of(answer) == part_of(connect(eu1))


def test_push_comes_in_the_format_that_connect_asked_for() -> None:
    mesh, (eu1, *_) = three_groups()
    connect(eu1, config_type="ZPL")
    eu1.apply(liveness=5)
    mesh.run(0.2)
    (pushed,) = eu1.heard("w", Config)
    assert pushed.config_type == "ZPL"
    assert part_of(pushed).liveness == 5


def test_value_that_zpl_cannot_carry_is_refused_and_never_corrupted() -> None:
    _, (b1, _) = network_of({"b1": {}, "b2": {"services": ['say "it\'s" #1']}})
    answer = connect(b1, config_type="ZPL")
    assert isinstance(answer, Error)
    assert answer.code == 501
    assert "ask for JSON" in answer.text
    assert part_of(connect(b1, config_type="XML")).group_config[0].brokers[1].services == ['say "it\'s" #1']


def test_current_version_is_acknowledged() -> None:
    _, (eu1, *_) = three_groups()
    answer = connect(eu1, config_version=eu1.state.config.packed_version)
    assert isinstance(answer, ConfigAck)
    assert (answer.config_version, answer.liveness) == (eu1.state.config.packed_version, 4)
    assert answer.heartbeat_interval_ms == 2500


def test_version_whose_part_is_the_same_is_acknowledged_with_the_current_one() -> None:
    mesh, (eu1, *_) = three_groups()
    old = eu1.state.config.packed_version
    eu1.apply(max_clock_skew_s=20.0)
    mesh.run(0.2)
    answer = connect(eu1, config_version=old)
    assert isinstance(answer, ConfigAck)
    assert answer.config_version == eu1.state.config.packed_version > old
    eu1.apply(liveness=5)
    mesh.run(0.2)
    assert part_of(connect(eu1, config_version=old)).liveness == 5


def test_part_changes_with_its_groups_and_not_with_others() -> None:
    mesh, (eu1, *_) = three_groups()
    old = eu1.state.config.packed_version
    brokers = [msgspec.structs.replace(e, endpoints=["tcp://10.8.8.8:1"]) for e in eu1.document.brokers[3:]]
    eu1.apply(brokers=[*eu1.document.brokers[:3], *brokers])
    mesh.run(0.2)
    assert isinstance(connect(eu1, config_version=old), ConfigAck), "ap-1 is in neither of its groups"
    us1 = msgspec.structs.replace(eu1.document.brokers[2], public_key="z" * 40)
    eu1.apply(brokers=[*eu1.document.brokers[:2], us1, eu1.document.brokers[3]])
    mesh.run(0.2)
    assert part_of(connect(eu1, config_version=old)).group_config[1].brokers[0].public_key == "z" * 40


def test_unknown_version_gets_the_config() -> None:
    _, (eu1, *_) = three_groups()
    assert isinstance(connect(eu1, config_version=b"\0\0\0\7" + bytes(12)), Config)


def test_client_gets_no_services() -> None:
    desk = Desk(identity="b1")
    answer = only(desk.say("c", CLIENT, Connect(identity="c", nonce=NONCE, services=["echo"])), "c")
    assert part_of(answer).services == []


def test_req_participant_gets_its_config_as_the_answer_to_connect() -> None:
    desk = Desk(identity="b1")
    answer = only(desk.say("w", REQ_WORKER, Connect(identity="w", nonce=NONCE, config_type="XML")), "w")
    assert part_of(answer).identity == "w"
