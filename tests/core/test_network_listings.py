"""What people and programs may see of the network: brokers, links, config, history, and all workers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.core import network_listings
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import ConfigVersion, Table, Task, TaskReply
from scale0.protocol.network import ConfigRecord, GroupEntry
from tests.core.desk import Desk
from tests.core.mesh import SETTLED_S, Mesh, Node, document_of, group_of, id_of, network_of
from tests.core.neighbour import Neighbour
from tests.core.star_kit import pair_and_third

SHORTLY_S = 0.3
DUO: dict[str, dict[str, Any]] = {"b1": {}, "b2": {}}


def row(node: Node, identity: str) -> dict[str, Any]:
    (found,) = [row for row in node.rows("network") if row["identity"] == identity]
    return found


# --- scale0.network -------------------------------------------------------------------------------------------------


def test_network_has_a_row_for_each_broker_with_every_key() -> None:
    brokers = {"eu-1": {"group": "eu"}, "eu-2": {"group": "eu"}, "us-1": {"group": "us"}}
    mesh, (eu1, eu2, us1) = network_of(brokers, groups=[GroupEntry(name="eu", fallback_groups=["us"])])
    eu1.worker("w", "echo")
    eu1.client("ada")
    mesh.run(3.0)
    own, near, far = eu1.rows("network")
    assert own == {
        "identity": "eu-1",
        "group": "eu",
        "state": "active",
        "star": None,
        "is_self": True,
        "endpoints": [eu1.endpoint],
        "epoch": 1,
        "config_version": eu1.version,
        "is_behind": False,
        "fallback_broker": "",
        "fallback": None,
        "fallback_groups": ["us"],
        "workers": 1,
        "clients": 1,
        "queued": 0,
        "services": {"echo": 1},
        "link": "self",
        "heard_us": None,
        "forwarded": 0,
        "received": 0,
        "is_sequencer": True,
    }
    assert set(near) == set(far) == set(own)
    assert (near["identity"], near["group"], near["link"], near["is_self"]) == ("eu-2", "eu", "up", False)
    assert (far["identity"], far["group"], far["fallback_groups"]) == ("us-1", "us", [])
    seen = row(eu2, "eu-1")
    assert (seen["workers"], seen["clients"], seen["services"]) == (1, 1, {"echo": 1})
    assert (seen["state"], seen["epoch"], seen["config_version"]) == ("active", 1, eu1.version)
    assert 0 <= seen["heard_us"] <= 2_500_000
    assert us1.rows("network")[0]["is_sequencer"]


def test_each_broker_shows_which_one_of_a_pair_serves_and_how_its_standby_is() -> None:
    mesh, prim, back, far = pair_and_third()
    prim.worker("w", "echo")
    mesh.run(SHORTLY_S)
    for node in (prim, far):
        serving, standing = row(node, "prim"), row(node, "back")
        assert (serving["star"], serving["fallback"], serving["fallback_broker"]) == ("active", "in sync", "back")
        assert (standing["state"], standing["star"], standing["fallback"]) == ("passive", "passive", None)
        assert standing["services"] == {}, "who is known there is the partner's"
    assert (row(far, "back")["link"], row(back, "back")["workers"]) == ("none", 0)
    assert (row(back, "prim")["star"], row(back, "third")["link"]) == ("active", "down")


def test_standby_that_is_gone_is_told_by_its_partner() -> None:
    mesh, prim, back, far = pair_and_third()
    back.kill()
    mesh.run(SETTLED_S + SHORTLY_S)
    assert row(prim, "prim")["fallback"] == row(far, "prim")["fallback"] == "lost"
    assert row(far, "back")["state"] == "gone"


STAR: dict[str, dict[str, Any]] = {"a": {"fallback_broker": "b"}, "b": {}, "c": {}}


def star_and_another() -> tuple[Mesh, Node, Node, Node]:
    """The pair of a and b, and c, which is linked with whoever of them serves."""
    mesh = Mesh()
    a, b, c = (mesh.add(name, document=document_of(STAR)) for name in STAR)
    mesh.run(12.0)
    assert (a.mode, b.mode, c.mode) == ("active", "passive", "active")
    return mesh, a, b, c


def told(node: Node, identity: str) -> tuple[Any, ...]:
    found = row(node, identity)
    return tuple(found[key] for key in ("state", "star", "fallback", "link"))


def test_pair_tells_who_serves_and_how_the_other_one_is() -> None:
    _, a, b, _ = star_and_another()
    assert told(a, "a") == ("active", "active", "in sync", "self")
    assert told(a, "b") == ("passive", "passive", None, "up")
    assert told(b, "a") == ("active", "active", None, "up")
    assert told(b, "b") == ("passive", "passive", None, "self")
    assert row(a, "a")["epoch"] == row(b, "a")["epoch"] > 1


def test_standby_is_known_to_a_third_broker_by_the_word_of_its_partner() -> None:
    mesh, _, b, c = star_and_another()
    assert told(c, "a") == ("active", "active", "in sync", "up")
    assert told(c, "b") == ("passive", "passive", None, "none")
    b.kill()
    mesh.run(20.0)
    assert told(c, "a") == ("active", "active", "lost", "up")
    assert told(c, "b")[:3] == ("gone", None, None)


def test_standby_shows_nobody_of_its_copy_as_its_own() -> None:
    mesh, a, b, _ = star_and_another()
    a.worker("w", "echo")
    a.client("ada")
    mesh.run(1.0)
    assert b.state.sessions.workers == 1, "it has a copy"
    own = row(b, "b")
    assert (own["workers"], own["clients"], own["queued"], own["services"]) == (0, 0, 0, {})


def test_forwarded_and_received_tasks_are_counted_by_peer() -> None:
    mesh, (b1, b2) = network_of(DUO)
    b2.worker("w", "echo")
    mesh.run(SHORTLY_S)
    b1.client("ada")
    for sequence in (1, 2):
        b1.submit("ada", sequence, "echo")
        b2.answer("w")
        mesh.run(SHORTLY_S)
    assert (row(b1, "b2")["forwarded"], row(b1, "b2")["received"]) == (2, 0)
    assert (row(b2, "b1")["forwarded"], row(b2, "b1")["received"]) == (0, 2)


def test_queue_of_a_peer_is_shown() -> None:
    mesh, (b1, b2) = network_of(DUO)
    b1.worker("w", "echo")
    b1.client("ada")
    for sequence in (1, 2, 3):
        b1.submit("ada", sequence, "echo")
    mesh.run(SHORTLY_S)
    assert row(b1, "b1")["queued"] == row(b2, "b1")["queued"] == 2


def test_broker_that_was_never_linked_is_unknown_and_one_that_is_silent_is_gone() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", document=document_of({"b1": {}, "b2": {}, "b3": {}}))
    b2 = mesh.add("b2", document=b1.document)
    mesh.run(3.0)
    assert (row(b1, "b3")["state"], row(b1, "b3")["link"]) == ("unknown", "down")
    unknown = row(b1, "b3")
    assert [unknown[key] for key in ("epoch", "config_version", "workers", "clients", "queued", "heard_us")] == [
        None
    ] * 6
    b2.kill()
    mesh.run(10.0)
    gone = row(b1, "b2")
    assert (gone["state"], gone["workers"]) == ("gone", None)
    assert gone["heard_us"] > 7_500_000
    mesh.run(8.0)
    assert row(b1, "b3")["link"] == "dialing"


@pytest.mark.parametrize(("command", "state"), [("drain", "draining"), ("disable", "disabled")])
def test_states_of_peers_are_shown(command: str, state: str) -> None:
    mesh, (b1, b2) = network_of(DUO)
    b2.manage(command)
    mesh.run(SHORTLY_S)
    assert row(b1, "b2")["state"] == row(b2, "b2")["state"] == state


def test_broker_that_joins_is_shown_before_it_is_listed() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", document=document_of(DUO, config_brokers=["b2"]))
    b3 = mesh.add("b3", seeds=[b1.endpoint])
    mesh.run(SHORTLY_S)
    assert b1.document.broker("b3") is None, "there is no sequencer"
    assert [row["identity"] for row in b1.rows("network")] == ["b1", "b2", "b3"]
    assert row(b1, "b3")["state"] == "joining"
    assert row(b3, "b3")["state"] == "joining"


def test_broker_that_is_not_linked_by_choice_is_shown_as_unknown() -> None:
    mesh, (b1, *_) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b1.apply(document_of({"b1": {"peers": [{"identity": "b2"}]}, "b2": {"peers": [{"identity": "b1"}]}, "b9": {}}))
    mesh.run(SHORTLY_S)
    assert (row(b1, "b9")["state"], row(b1, "b9")["link"]) == ("unknown", "down")


def test_broker_with_an_older_config_is_behind() -> None:
    desk = Desk(identity="b1")
    Neighbour(desk)
    (found,) = [row for row in desk.manage("list", what="network")["rows"] if row["identity"] == "b2"]
    assert found["config_version"] is None
    assert found["is_behind"]


def test_sequencer_is_shown() -> None:
    _, (b1, b2) = network_of(DUO, config_brokers=["b2"])
    for node in (b1, b2):
        assert [row["is_sequencer"] for row in node.rows("network")] == [False, True]


# --- scale0.config --------------------------------------------------------------------------------------------------


def test_config_is_one_row_with_the_document_and_who_runs_it() -> None:
    mesh, (b1, b2) = network_of({"b1": {"services": ["echo"]}, "b2": {}}, liveness=4)
    b1.apply(liveness=5, author="ada", comment="more patience")
    mesh.run(SHORTLY_S)
    (found,) = b1.rows("config")
    assert found["version"] == b1.version
    assert found["document"]["liveness"] == 5
    assert (found["author"], found["comment"]) == ("ada", "more patience")
    assert found["time_us"] > 0
    assert (found["identity"], found["group"], found["services"]) == ("b1", "", ["echo"])
    assert (found["default_heartbeat_interval_us"], found["liveness"]) == (2_500_000, 5)
    assert (found["sequencer"], found["brokers"], found["behind"], found["unknown"]) == ("b1", 2, [], [])
    assert b2.rows("config")[0]["services"] == "all"


def test_config_names_who_is_behind_and_who_cannot_be_asked() -> None:
    mesh, (b1, _, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b3.kill()
    mesh.run(10.0)
    mesh.cut("b1", "b2")
    b1.apply(liveness=4)
    (found,) = b1.rows("config")
    assert (found["behind"], found["unknown"]) == (["b2"], ["b3"])


def test_config_without_a_reachable_config_broker_has_no_sequencer() -> None:
    mesh, (b1, b2) = network_of(DUO, config_brokers=["b2"])
    b2.kill()
    mesh.run(10.0)
    assert b1.rows("config")[0]["sequencer"] is None


# --- scale0.config_history ------------------------------------------------------------------------------------------


def test_history_has_the_newest_first_with_its_state_and_document() -> None:
    _, (b1, _) = network_of(DUO)
    b1.apply(liveness=4)
    b1.apply(liveness=5)
    rows = b1.rows("config_history")
    assert [(row["version"].split(".")[1], row["state"]) for row in rows] == [
        ("3", "current"),
        ("2", "past"),
        ("1", "past"),
    ]
    assert [row["document"].get("liveness") for row in rows] == [5, 4, None]
    assert set(rows[0]) == {"version", "author", "comment", "time_us", "state", "document"}


def test_history_shows_what_was_lost() -> None:
    mesh, (b1, b2) = network_of(DUO)
    mesh.cut("b1", "b2")
    mesh.run(10.0)
    b1.apply(liveness=4)
    b2.apply(liveness=5)
    b2.apply(liveness=6)
    mesh.heal()
    mesh.run(40.0)
    for node in (b1, b2):
        states = [(row["document"].get("liveness"), row["state"]) for row in node.rows("config_history")]
        assert (4, "lost") in states
        assert states[0] == (6, "current")


def test_old_documents_are_left_out_of_a_history_that_is_too_large_for_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network_listings, "HISTORY_BYTES_MAX", 500)
    _, (b1, _) = network_of(DUO)
    for liveness in range(4, 12):
        b1.apply(liveness=liveness)
    rows = b1.rows("config_history")
    assert len(rows) == 9
    assert rows[0]["document"] is not None
    assert rows[-1]["document"] is None
    assert rows[-1]["version"].startswith("1.1.")


@pytest.mark.parametrize(
    ("asked", "is_meant"),
    [("41", True), ("v41", True), ("1.41", True), ("1.41.ab12cd34", True), ("4", False), ("2.41", False), ("", False)],
)
def test_version_may_be_asked_for_by_number_or_in_full(asked: str, is_meant: bool) -> None:
    version = ConfigVersion(1, 41, bytes.fromhex("ab12cd3400000000"))
    record = ConfigRecord(version=version.pack(), document=b"{}")
    assert network_listings.is_version(record, asked) is is_meant


# --- workers of the network -----------------------------------------------------------------------------------------


def test_workers_of_all_brokers_are_listed_with_their_brokers() -> None:
    mesh, (b1, b2, b3) = group_of(3)
    for node in (b1, b2, b3):
        node.worker(f"w-{node.name}", "echo", capacity=4)
    b3.client("ada")
    b3.submit("ada", 1, "echo")
    mesh.run(1.0)
    rows = {row["identity"]: row for row in b1.rows("network_workers")}
    assert {name: row["broker"] for name, row in rows.items()} == {"w-b1": "b1", "w-b2": "b2", "w-b3": "b3"}
    assert set(rows["w-b2"]) == {
        "identity",
        "broker",
        "state",
        "services",
        "busy",
        "capacity",
        "heard_us",
        "interval_us",
        "config_version",
    }
    assert (rows["w-b2"]["state"], rows["w-b2"]["services"], rows["w-b2"]["capacity"]) == ("ready", ["echo"], 4)
    assert rows["w-b2"]["interval_us"] == 2_500_000
    assert 0 <= rows["w-b1"]["heard_us"] <= rows["w-b2"]["heard_us"] + 2_500_000


def test_age_of_a_peers_worker_grows_with_that_of_its_row() -> None:
    desk = Desk(identity="b1")
    b2 = Neighbour(desk)
    b2.say(Table(seq=1, rows=[{"identity": "w", "age_ms": 300, "busy": 1}, {"identity": "odd", "busy": 1}]))
    desk.pass_time(1.0)
    rows = {row["identity"]: row for row in desk.manage("list", what="network_workers")["rows"]}
    assert rows["w"]["heard_us"] == pytest.approx(1_300_000, abs=10)
    assert (rows["odd"]["heard_us"], rows["odd"]["interval_us"], rows["odd"]["config_version"]) == (None, None, None)


def test_own_workers_name_their_broker() -> None:
    mesh, (b1, _) = network_of(DUO)
    b1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    assert [(row["identity"], row["broker"]) for row in b1.rows("workers")] == [("w", "b1")]


# --- as built-in services -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scale0.network", "scale0.config", "scale0.config_history", "scale0.network_workers"])
def test_any_client_may_ask(name: str) -> None:
    mesh, (b1, _) = network_of({"b1": {"group": "eu"}, "b2": {"group": "eu"}}, network="prod")
    b1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    b1.client("ada")
    b1.say("ada", CLIENT, Task(id_of("ada", 1), name, (b"",), 1000))
    (reply,) = b1.heard("ada", TaskReply)
    document = msgspec.json.decode(b"".join(reply.body))
    assert document["schema"] == f"{name}/1"
    assert document["complete"]
    assert (document["broker"]["network"], document["broker"]["group"]) == ("prod", "eu")
    assert document["rows"]
