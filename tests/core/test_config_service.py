"""How the config changes, and how a change reaches every broker and participant (rules 21–24)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.core import config_service
from scale0.core.askers import ASKERS_MAX
from scale0.core.config import content_hash
from scale0.core.config_service import ASKED_S, ConfigState
from scale0.core.effects import KeepConfig, Listen, Publish
from scale0.core.settings import Limits
from scale0.errors import ProtocolError
from scale0.protocol import documents
from scale0.protocol.dialects import CLIENT, PEER
from scale0.protocol.messages import (
    Config,
    ConfigAck,
    ConfigChange,
    ConfigVersion,
    Error,
    ManagementRep,
    ManagementReq,
    Ping,
    Snapshot,
    SnapshotReq,
)
from scale0.protocol.network import ConfigRecord, Document
from tests.core.desk import Desk
from tests.core.mesh import INTERVAL_S, Mesh, Node, document_of, group_of, network_of
from tests.core.neighbour import Neighbour, alarms, joining, said, status
from tests.core.star_kit import die_and_be_asked_for, pair_and_third

SHORTLY_S = 0.3
TRIO: dict[str, dict[str, Any]] = {"b1": {}, "b2": {}, "b3": {}}


def history(node: Node) -> list[tuple[str, str]]:
    """Versions without their hashes, with their states, oldest first."""
    shown = [(ConfigVersion.unpack(record.version), record.state) for record in node.state.config.records()]
    return [(f"{version.epoch}.{version.number}", state) for version, state in shown]


def refusal(node: Node, **changes: Any) -> ProtocolError:
    with pytest.raises(ProtocolError) as raised:
        node.apply(**changes)
    return raised.value


# --- a change -------------------------------------------------------------------------------------------------------


def test_sequencer_numbers_a_change_and_every_broker_gets_it() -> None:
    mesh, nodes = network_of(TRIO)
    done = nodes[0].apply(liveness=4, comment="more patience", author="ada")
    assert done == {"version": nodes[0].version, "changed": True}
    assert nodes[0].version.startswith("1.2.")
    mesh.run(SHORTLY_S)
    for node in nodes:
        assert node.version == done["version"]
        assert node.state.settings.liveness == 4
        record = node.state.config.record
        assert (record.author, record.comment) == ("ada", "more patience")
        assert node.records[-1] == record, "kept on disk"


def test_first_reachable_config_broker_is_the_sequencer() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO, config_brokers=["b2", "b3"])
    answer = b1.apply(liveness=4)
    assert isinstance(answer, ManagementRep)
    assert answer.result == {"version": b2.version, "changed": True}
    assert [len(mesh.between("b1", name, ConfigChange)) for name in ("b2", "b3")] == [1, 0]
    b2.kill()
    mesh.run(10.0)
    b1.apply(liveness=5)
    assert len(mesh.between("b1", "b3", ConfigChange)) == 1
    mesh.run(SHORTLY_S)
    assert b1.version == b3.version
    assert b1.document.liveness == 5


def test_without_config_brokers_every_broker_may_sequence_in_the_order_of_the_document() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    b3.apply(liveness=4)
    assert len(mesh.between("b3", "b1", ConfigChange)) == 1
    b1.kill()
    mesh.run(10.0)
    b3.apply(liveness=5)
    assert len(mesh.between("b3", "b2", ConfigChange)) == 1
    mesh.run(SHORTLY_S)
    assert b2.document.liveness == b3.document.liveness == 5


def test_change_is_refused_while_no_config_broker_can_be_reached() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO, config_brokers=["b1"])
    b1.kill()
    mesh.run(10.0)
    error = refusal(b2, liveness=4)
    assert error.code == 503
    assert "(b1)" in error.text
    assert "--force" in error.text
    assert b2.version == b3.version


def test_of_a_pair_the_one_that_serves_is_the_sequencer() -> None:
    mesh, primary, fallback, third = pair_and_third(config_brokers=["prim"])
    die_and_be_asked_for(mesh, primary, fallback)
    mesh.run(3.0)
    third.apply(liveness=4)
    assert len(mesh.between("third", "back", ConfigChange)) == 1, "the primary is gone, and its fallback serves for it"
    primary.restart()
    mesh.run(20.0)
    third.apply(liveness=5)  # it has no link with the primary, which is the standby now
    assert len(mesh.between("third", "back", ConfigChange)) == 2
    primary.apply(liveness=6)
    assert len(mesh.between("prim", "back", ConfigChange)) == 1, "a standby passes it on, too"
    mesh.run(SHORTLY_S)
    assert primary.version == fallback.version == third.version
    assert third.document.liveness == 6


def test_force_opens_a_new_epoch() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO, config_brokers=["b1"])
    b1.kill()
    mesh.run(10.0)
    done = b2.apply(liveness=4, force=True)
    assert done["version"].startswith("2.1.")
    mesh.run(SHORTLY_S)
    assert b3.version == b2.version
    b1.restart()
    mesh.run(10.0)
    assert b1.version == b2.version, "a new epoch wins over all others"


def test_force_at_the_sequencer_itself_is_an_ordinary_change() -> None:
    _, (b1, *_) = network_of(TRIO)
    assert b1.apply(liveness=4, force=True)["version"].startswith("1.2.")


def test_same_document_again_is_no_change() -> None:
    _, (b1, b2, _) = network_of(TRIO)
    version = b1.version
    assert b1.apply() == {"version": version, "changed": False}
    assert b2.apply() == {"version": version, "changed": False}


def test_change_that_was_made_from_another_version_is_409() -> None:
    mesh, (b1, b2, _) = network_of(TRIO)
    base = b1.version
    assert b1.apply(liveness=4, base=base)["changed"]
    mesh.run(SHORTLY_S)
    for node in (b1, b2):
        error = refusal(node, liveness=5, base=base)
        assert error.code == 409
        assert b1.version in error.text, "it names the current one"
    assert b2.apply(liveness=5, base=b2.version).result["changed"]


def test_two_changes_from_the_same_version_at_different_brokers_are_not_both_made() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    base = b1.version
    answers = []
    for node, liveness in ((b2, 4), (b3, 5)):
        document = msgspec.json.encode(msgspec.structs.replace(node.document, liveness=liveness))
        later, effects = node.broker.manage("config_apply", {"document": document, "base": base}, mesh.now)
        node.do(effects)
        answers.append((node, later.key))
    mesh.settle()
    first, second = (node.answers[key] for node, key in answers)
    assert isinstance(first, ManagementRep)
    assert isinstance(second, Error)
    assert second.code == 409
    mesh.run(SHORTLY_S)
    assert {node.document.liveness for node in (b1, b2, b3)} == {4}


def test_manager_gets_the_sequencers_answer_on_its_own_connection() -> None:
    mesh = Mesh()
    document = document_of({"b1": {}, "b2": {}})
    nodes = [mesh.add(name, document=document, users={"root": "secret"}) for name in ("b1", "b2")]
    mesh.run(3.0)
    text = documents.canonical(msgspec.structs.replace(document, liveness=4)).decode()
    request = ManagementReq(
        auth_id="root", auth_password="secret", seq=77, command="config_apply", arguments={"document": text}
    )
    nodes[1].say("admin", CLIENT, request)
    (answer,) = nodes[1].heard("admin", ManagementRep)
    assert answer.seq == 77
    assert answer.result["version"] == nodes[0].version
    assert nodes[0].state.config.record.author == "root"


def test_sequencer_that_does_not_answer_is_not_waited_for_in_vain() -> None:
    mesh, (_, b2, _) = network_of(TRIO)
    mesh.cut("b1", "b2")
    document = documents.canonical(msgspec.structs.replace(b2.document, liveness=4))
    later, effects = b2.broker.manage("config_apply", {"document": document}, mesh.now)
    b2.do(effects)
    assert b2.broker.next_deadline() <= mesh.now + ASKED_S
    mesh.run(ASKED_S + 0.1)
    answer = b2.answers[later.key]
    assert isinstance(answer, Error)
    assert answer.code == 504
    assert "may have been done" in answer.text


def test_changes_that_wait_for_the_sequencer_are_limited() -> None:
    mesh, (_, b2, _) = network_of(TRIO)
    mesh.cut("b1", "b2")
    for n in range(ASKERS_MAX):
        b2.apply(grace_s=float(n + 10))
    assert refusal(b2, liveness=4).code == 429


def test_broker_that_is_not_the_sequencer_says_so() -> None:
    desk = Desk(identity="b1")
    b2 = Neighbour(desk)
    document = msgspec.structs.replace(desk.broker.state.config.document, config_brokers=["b2"])
    desk.manage("config_apply", document=documents.canonical(document))
    (error,) = said(b2.say(ConfigChange(seq=5, base=b"", document=documents.canonical(document))), Error)
    assert (error.code, error.seq) == (503, 5)


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b'{"liveness": 0}', b'{"no": 1}', b'{"brokers": [{}]}'])
def test_change_that_does_not_validate_is_refused_by_the_sequencer_too(document: bytes) -> None:
    desk = Desk(identity="b1")
    b2 = Neighbour(desk)
    version = desk.broker.state.config.version
    (error,) = said(b2.say(ConfigChange(seq=5, base=b"", document=document)), Error)
    assert (error.code, error.seq) == (400, 5)
    assert desk.broker.state.config.version == version


def test_document_that_does_not_validate_is_refused_with_each_key_and_changes_nothing() -> None:
    _, (b1, *_) = network_of(TRIO)
    version = b1.version
    error = refusal(b1, liveness=0, config_brokers=["b7"])
    assert error.code == 400
    assert "liveness" in error.text
    assert "config_brokers" in error.text
    for text in ("{", '{"livenes": 4}', '{"liveness": "x"}'):
        with pytest.raises(ProtocolError):
            b1.manage("config_apply", document=text)
    with pytest.raises(ProtocolError, match="document"):
        b1.manage("config_apply")
    assert b1.version == version


def test_document_that_lists_no_brokers_leaves_them_as_they_are() -> None:
    mesh, (b1, b2, _) = network_of(TRIO)
    b2.manage("config_apply", document='{"liveness": 5}')
    mesh.run(SHORTLY_S)
    assert [entry.identity for entry in b1.document.brokers] == ["b1", "b2", "b3"]
    assert b1.document.liveness == 5


def test_brokers_that_joined_stay_when_a_document_lists_others() -> None:
    mesh, (b1, _) = group_of(2)
    b1.apply(document_of({"b1": {}}, liveness=5))
    mesh.run(SHORTLY_S)
    assert [entry.identity for entry in b1.document.brokers] == ["b1", "b2"]


def test_broker_that_joined_a_moment_ago_is_not_dropped_by_a_change_from_one_that_has_not_heard_of_it() -> None:
    mesh, (b1, b2) = group_of(2)
    b3 = mesh.add("b3", seeds=[b1.endpoint])
    mesh.cut("b1", "b2")
    mesh.cut("b2", "b3")
    mesh.run(2.0)
    assert b3.mode == "active"
    assert b2.document.broker("b3") is None
    mesh.heal()
    b2.manage("config_apply", document='{"liveness": 5}')
    mesh.run(3.0)
    assert b3.mode == "active"
    assert [entry.identity for entry in b1.document.brokers] == ["b1", "b2", "b3"]


def test_joining_broker_takes_no_changes() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", seeds=["tcp://10.9.9.9:1"])
    assert refusal(b1, liveness=4).code == 503
    assert b1.mode == "joining"


def test_sequencer_that_was_away_hears_its_successor_before_it_makes_a_version() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    b1.kill()
    mesh.run(10.0)
    b3.apply(liveness=4)
    b1.restart()
    error = refusal(b1, liveness=5)
    assert error.code == 503
    assert "has not heard b2, b3 yet" in error.text
    mesh.run(10.0)
    assert b1.apply(liveness=5)["version"].startswith("1.3.")
    mesh.run(SHORTLY_S)
    assert b2.document.liveness == b3.document.liveness == 5
    assert ("1.2", "past") in history(b1)


def test_sequencer_does_not_wait_for_ever_for_those_who_are_away() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", document=document_of(TRIO))
    assert refusal(b1, liveness=4).code == 503
    mesh.run(8.0)
    assert b1.apply(liveness=4)["version"].startswith("1.2.")


def test_sequencer_that_is_told_not_to_wait_opens_a_new_epoch() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    b1.kill()
    mesh.run(10.0)
    b3.apply(liveness=4)
    b3.apply(liveness=5)
    b1.restart()
    assert b1.apply(liveness=6, force=True)["version"].startswith("2.1.")
    mesh.run(12.0)
    assert {node.document.liveness for node in (b1, b2, b3)} == {6}, "else it would lose against 1.3"


@pytest.mark.parametrize(("code", "told"), [(409, []), (503, []), (400, ["config_refused"])])
def test_change_that_a_broker_makes_by_itself_is_proposed_again_and_only_a_real_refusal_is_told(
    code: int, told: list[str]
) -> None:
    desk = Desk(identity="b1")
    b2 = Neighbour(desk)
    document = msgspec.structs.replace(desk.broker.state.config.document, config_brokers=["b2"])
    desk.manage("config_apply", document=documents.canonical(document))
    desk.say("b3", PEER, joining("b3"))
    (change,) = said(desk.pass_time(0.1), ConfigChange, "b2")
    assert (change.author, change.base) == ("b3", desk.broker.state.config.packed_version)
    b2.say(Error(code=code, text="no", seq=change.seq))
    assert alarms(desk) == told
    desk.say("b3", PEER, status("b3"))
    (again,) = said(desk.pass_time(2.6), ConfigChange, "b2")
    assert again.seq > change.seq


def test_file_that_is_read_again_is_a_change_like_any_other() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    b3.do(b3.broker.configure(document_of(TRIO, liveness=6), mesh.now))
    mesh.settle()
    mesh.run(SHORTLY_S)
    assert {node.document.liveness for node in (b1, b2, b3)} == {6}
    assert b1.state.config.record.author == "file"
    with pytest.raises(ProtocolError):
        b3.broker.configure(Document(liveness=-1), mesh.now)


# --- rollback and history -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["2", "v2", "1.2", "whole"])
def test_rollback_is_a_new_number(asked: str) -> None:
    mesh, (b1, b2, _) = network_of(TRIO)
    b1.apply(liveness=4)
    whole = b1.version
    b1.apply(liveness=5)
    mesh.run(SHORTLY_S)
    done = b1.manage("config_rollback", version=whole if asked == "whole" else asked)
    assert done["version"].startswith("1.4.")
    mesh.run(SHORTLY_S)
    assert b2.document.liveness == 4
    assert b2.state.config.record.comment == f"back to {whole}"
    assert history(b2) == [("1.1", "past"), ("1.2", "past"), ("1.3", "past"), ("1.4", "past")]


def test_rollback_to_an_unknown_version_is_refused() -> None:
    _, (b1, *_) = network_of(TRIO)
    with pytest.raises(ProtocolError, match="no version '7'"):
        b1.manage("config_rollback", version="7")


def test_history_is_limited() -> None:
    mesh, (b1, b2, _) = network_of(TRIO, limits=Limits(config_history=3))
    for liveness in range(4, 12):
        b1.apply(liveness=liveness)
        mesh.run(SHORTLY_S)
    assert len(b1.state.config.history) == 3
    assert len(b2.records) == 4


# --- both sides of a partition --------------------------------------------------------------------------------------


def forked() -> tuple[Mesh, Node, Node]:
    """b1 has made one change, and b2 two, while they were parted; now they meet."""
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    mesh.cut("b1", "b2")
    mesh.run(10.0)
    b1.apply(liveness=4, author="ada")
    b2.apply(liveness=5, author="bob")
    b2.apply(liveness=6, author="bob")
    mesh.heal()
    mesh.run(40.0)
    return mesh, b1, b2


def test_higher_version_wins_when_both_sides_meet() -> None:
    _, b1, b2 = forked()
    assert b1.version == b2.version
    assert b1.document.liveness == b2.document.liveness == 6


def test_losing_change_stays_in_the_history_of_both_with_an_alarm_at_both() -> None:
    _, b1, b2 = forked()
    for node in (b1, b2):
        lost = [record for record in node.state.config.history if record.state == "lost"]
        assert [(record.author, documents.decode(record.document, "JSON", Document).liveness) for record in lost] == [
            ("ada", 4)
        ]
        assert "config_lost" in node.alarm_names()
        assert lost[0] in node.records
    (alarm,) = [alarm for alarm in b1.alarms if alarm.name == "config_lost"]
    assert "by ada lost against 1.3" in alarm.text


def test_losing_change_can_be_applied_again() -> None:
    mesh, b1, b2 = forked()
    (lost,) = [record for record in b1.state.config.history if record.state == "lost"]
    b2.manage("config_rollback", version=str(ConfigVersion.unpack(lost.version)))
    mesh.run(SHORTLY_S)
    assert b1.document.liveness == b2.document.liveness == 4


def test_all_changes_of_the_losing_side_are_marked_as_lost() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    mesh.cut("b1", "b2")
    mesh.run(10.0)
    for liveness in (4, 5):
        b1.apply(liveness=liveness)
    for liveness in (6, 7, 8):
        b2.apply(liveness=liveness)
    mesh.heal()
    mesh.run(40.0)
    for node in (b1, b2):
        lost = [
            documents.decode(r.document, "JSON", Document).liveness
            for r in node.state.config.history
            if r.state == "lost"
        ]
        assert lost == [4, 5]


def test_change_of_a_whole_side_is_lost_at_each_of_its_brokers() -> None:
    mesh, (b1, b2, b3, b4) = network_of({"b1": {}, "b2": {}, "b3": {}, "b4": {}})
    for one in ("b1", "b2"):
        for other in ("b3", "b4"):
            mesh.cut(one, other)
    mesh.run(10.0)
    b2.apply(liveness=4)
    b4.apply(liveness=5)
    b4.apply(liveness=6)
    mesh.run(SHORTLY_S)
    assert (b1.document.liveness, b3.document.liveness) == (4, 6)
    mesh.heal()
    mesh.run(40.0)
    assert {node.document.liveness for node in (b1, b2, b3, b4)} == {6}
    assert all("config_lost" in node.alarm_names() for node in (b1, b2))
    assert all(("1.2", "lost") in history(node) for node in (b1, b2, b3, b4))


def test_broker_that_missed_it_all_says_aloud_what_has_lost_when_it_hears_of_it() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    mesh.cut("b1", "b2")
    b3.kill()
    mesh.run(10.0)
    b1.apply(liveness=4)
    b2.apply(liveness=5)
    b2.apply(liveness=6)
    mesh.heal()
    mesh.run(40.0)
    b3.restart()
    mesh.run(10.0)
    assert b3.version == b1.version == b2.version
    assert ("1.2", "lost") in history(b3)
    assert [node.alarm_names().count("config_lost") for node in (b1, b2, b3)] == [1, 1, 1]


def test_broker_that_only_missed_changes_has_lost_nothing() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    b3.kill()
    b1.apply(liveness=4)
    b2.apply(liveness=5)
    b3.restart()
    mesh.run(10.0)
    assert b3.version == b1.version
    assert history(b3) == [("1.1", "past"), ("1.2", "past"), ("1.3", "past")]
    assert [node.alarm_names().count("config_lost") for node in (b1, b2, b3)] == [0, 0, 0]


# --- snapshots ------------------------------------------------------------------------------------------------------


def record(document: Document, version: ConfigVersion | None = None, **more: Any) -> ConfigRecord:
    text = documents.canonical(document)
    made = ConfigVersion(9, 1, content_hash(text)) if version is None else version
    return ConfigRecord(version=made.pack(), document=text, **more)


def snapshot(*records: ConfigRecord) -> Snapshot:
    return Snapshot(what="config", seq=1, state=msgspec.msgpack.encode(ConfigState(list(records))))


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1", advertise=["tcp://10.0.0.1:5555"], config_pub="tcp://10.0.0.1:5556")


def test_newer_version_in_a_status_is_fetched_and_only_once_a_second(desk: Desk) -> None:
    b2 = Neighbour(desk)
    newer = b"\0\0\0\2" + bytes(12)
    assert said(b2.say(status(config_version=newer)), SnapshotReq) == [SnapshotReq(what="config")]
    assert said(b2.say(status(config_version=newer)), SnapshotReq) == []
    desk.pass_time(1.1)
    assert said(b2.say(status(config_version=newer)), SnapshotReq) == [SnapshotReq(what="config")]


def test_older_version_is_not_fetched(desk: Desk) -> None:
    b2 = Neighbour(desk)
    assert said(b2.say(status(config_version=b"\0\0\0\1" + bytes(12))), SnapshotReq) == []


def test_newer_version_that_a_publisher_names_is_fetched_from_it_or_from_anybody(desk: Desk) -> None:
    for name in ("b2", "b3"):
        Neighbour(desk, name)
    newer = b"\0\0\0\2" + bytes(12)
    (send,) = desk.broker.heard_version("b3", newer, desk.now)
    assert send.route == b"\0b3"  # type: ignore[union-attr]
    even_newer = b"\0\0\0\3" + bytes(12)
    (send,) = desk.broker.heard_version("b9", even_newer, desk.now)
    assert send.route == b"\0b2"  # type: ignore[union-attr]


def test_newer_version_that_a_participant_names_is_fetched(desk: Desk) -> None:
    Neighbour(desk)
    client = desk.client("ada")
    sent = client.say(Ping(0, config_version=b"\0\0\0\2" + bytes(12)))
    assert [name for name, message in sent if isinstance(message, SnapshotReq)] == ["b2"]


def test_snapshot_that_is_newer_is_taken_kept_published_and_pushed(desk: Desk) -> None:
    b2 = Neighbour(desk)
    desk.worker("w", "echo")
    newest = record(msgspec.structs.replace(desk.broker.state.config.document, liveness=7))
    b2.say(snapshot(newest))
    assert desk.broker.state.settings.liveness == 7
    (kept,) = [effect for effect in desk.others if isinstance(effect, KeepConfig)]
    assert kept.records[-1] == newest
    pushed = said(desk.pass_time(0.1), Config, "w")
    assert [config.config_version for config in pushed] == [newest.version]
    assert [effect.message.config_version for effect in desk.others if isinstance(effect, Publish)] == [newest.version]


def test_snapshot_that_is_not_newer_changes_nothing(desk: Desk) -> None:
    b2 = Neighbour(desk)
    before = desk.broker.state.config.record
    old = record(Document(liveness=7), ConfigVersion(1, 1, content_hash(documents.canonical(Document(liveness=7)))))
    b2.say(snapshot(old))
    assert desk.broker.state.config.record == before
    assert desk.others == []


def state_of(document: bytes) -> bytes:
    """A record of this text, with the hash that belongs to it."""
    version = ConfigVersion(9, 1, content_hash(document)).pack()
    return msgspec.msgpack.encode(ConfigState([ConfigRecord(version=version, document=document)]))


@pytest.mark.parametrize(
    "bad",
    [
        Snapshot(what="config", seq=1, state=b"\xc1"),
        Snapshot(what="config", seq=1, state=b"\x81\xa1\xff\x00"),
        Snapshot(what="config", seq=1, state=b"\x82\xa7records\x90\xa1x" + b"\x91" * 5000),
        Snapshot(what="lost", seq=1, state=state_of(b"no document")),
        Snapshot(what="lost", seq=1, state=state_of(b"[1]")),
        Snapshot(what="lost", seq=1, state=state_of(b"{} ")),
        snapshot(),
        snapshot(record(Document(liveness=0))),
        snapshot(record(Document(liveness=7), ConfigVersion(9, 1, bytes(8)))),
        snapshot(ConfigRecord(version=b"\xff" * 9, document=b"{}")),
        snapshot(ConfigRecord(version=ConfigVersion(9, 1, content_hash(b"{")).pack(), document=b"{")),
    ],
)
def test_snapshot_that_does_not_validate_raises_an_alarm_and_the_last_good_stays(desk: Desk, bad: Snapshot) -> None:
    b2 = Neighbour(desk)
    before = desk.broker.state.config.record
    b2.say(bad)
    assert alarms(desk) == ["config_refused"]
    assert desk.broker.state.config.record == before
    assert b2.is_linked()


def test_snapshot_carries_the_history_and_what_led_to_it() -> None:
    mesh, (b1, b2, _) = network_of(TRIO)
    b1.apply(liveness=4)
    mesh.run(SHORTLY_S)
    mesh.passed.clear()
    b4 = mesh.add("b4", seeds=[b2.endpoint])
    mesh.run(SHORTLY_S)
    told = msgspec.msgpack.decode(mesh.between("b2", "b4", Snapshot)[0].state, type=ConfigState)
    assert [ConfigVersion.unpack(past.version).number for past in told.records] == [1, 2]
    assert [ConfigVersion.unpack(version).number for version in told.ancestors] == [1]
    assert history(b4) == [("1.1", "past"), ("1.2", "past"), ("1.3", "past")]


def test_snapshot_has_a_limit_and_the_newest_is_always_in_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_service, "SNAPSHOT_BYTES_MAX", 300)
    b2 = Neighbour(desk)
    for liveness in range(4, 9):
        desk.manage("config_apply", document=f'{{"liveness": {liveness}}}')
    (answer,) = said(b2.say(SnapshotReq(what="config")), Snapshot)
    told = msgspec.msgpack.decode(answer.state, type=ConfigState)
    assert 1 <= len(told.records) < 4
    assert told.records[-1] == desk.broker.state.config.record
    assert len(told.ancestors) == 6, "what led to it is told all the same"


def test_joining_broker_has_no_snapshot_to_give() -> None:
    desk = Desk(identity="b1", seeds=["tcp://10.9.9.9:1"])
    desk.say("b2", PEER, joining(is_joining=False))
    assert said(desk.say("b2", PEER, SnapshotReq(what="config")), Snapshot) == []


def test_joining_broker_that_hears_what_has_lost_keeps_no_config_for_it() -> None:
    desk = Desk(identity="b1", seeds=["tcp://10.9.9.9:1"])
    desk.say("b2", PEER, joining(is_joining=False))
    desk.say("b2", PEER, Snapshot(what="lost", seq=0, state=state_of(b"{}")))
    assert desk.others == [], "its own document is none that anybody agreed on"


# --- publishers -----------------------------------------------------------------------------------------------------


def test_version_is_published_each_interval_and_at_each_change(desk: Desk) -> None:
    def published(seconds: float, steps: int) -> list[ConfigAck]:
        acks = []
        for _ in range(steps):
            desk.pass_time(seconds / steps)
            acks += [effect.message for effect in desk.others if isinstance(effect, Publish)]
        return acks

    desk.pass_time(0.1)
    acks = published(25.0, 100)
    assert 9 <= len(acks) <= 11
    assert {(ack.identity, ack.config_version) for ack in acks} == {("b1", desk.broker.state.config.packed_version)}
    desk.manage("config_apply", document='{"liveness": 4}')
    (ack,) = published(0.01, 1)
    assert ack.config_version == desk.broker.state.config.packed_version


def test_broker_without_a_publisher_publishes_nothing_and_sleeps() -> None:
    desk = Desk(identity="b1")
    desk.pass_time(10.0)
    assert not [effect for effect in desk.others if isinstance(effect, Publish)]
    assert desk.broker.next_deadline() > desk.now + 100


def test_broker_listens_to_every_other_publisher_or_to_those_that_it_is_told() -> None:
    mesh, (b1, b2, b3) = network_of(TRIO)
    assert b1.listens_to == [b2.publisher, b3.publisher]
    b1.apply(document_of({"b1": {"config_sub_ports": ["tcp://10.5.5.5:1"]}, "b2": {}, "b3": {}}))
    assert b1.listens_to == ["tcp://10.5.5.5:1"]
    mesh.run(SHORTLY_S)
    assert b2.listens_to == [b1.publisher, b3.publisher]


def test_publishers_that_are_listened_to_are_limited() -> None:
    desk = Desk(identity="b1")
    brokers = {f"b{n}": {"group": ""} for n in range(1, 20)}
    desk.manage("config_apply", document=documents.canonical(document_of(brokers)))
    (listen,) = [effect for effect in desk.others if isinstance(effect, Listen)]
    assert len(listen.endpoints) == 8


def test_broker_without_a_link_to_the_changed_one_hears_of_the_change_from_others() -> None:
    mesh, (b1, _, b3) = network_of(TRIO, config_brokers=["b1"])
    mesh.cut("b1", "b3")
    mesh.run(10.0)
    b1.apply(liveness=4)
    mesh.run(2 * INTERVAL_S)
    assert b3.document.liveness == 4, "not every broker serves config; the others relay it"


# --- participants ---------------------------------------------------------------------------------------------------


def test_change_reaches_the_workers_of_every_broker_with_one_config_each() -> None:
    mesh, nodes = network_of(TRIO)
    for node in nodes:
        for n in range(120):
            node.worker(f"{node.name}-{n}", "echo")
            node.heard(f"{node.name}-{n}", Config)
    nodes[0].apply(liveness=5)
    mesh.run(2 * INTERVAL_S)
    got = [len(node.heard(f"{node.name}-{n}", Config)) for node in nodes for n in range(120)]
    assert got == [1] * 360


def test_change_that_leaves_a_participants_part_as_it_is_is_only_acknowledged() -> None:
    mesh, (b1, *_) = network_of(TRIO)
    b1.client("ada", config_version=b1.state.config.packed_version)
    assert len(b1.heard("ada", ConfigAck)) == 1
    b1.apply(ageing_s=9.0)
    mesh.run(SHORTLY_S)
    (ack,) = b1.heard("ada", ConfigAck)
    assert ack.config_version == b1.state.config.packed_version
    assert b1.heard("ada", Config) == []
