"""The heartbeat table: which workers a broker hears, shared with its peers by push or pull (rule 30)."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core import heartbeat_table
from scale0.core.heartbeat_table import PUSHED_MAX
from scale0.core.settings import Limits
from scale0.protocol.dialects import MDP1_WORKER, PEER, WORKER
from scale0.protocol.majordomo import MdpReady
from scale0.protocol.messages import Disconnect, Ping, Ready, ServiceOffer, Table, TableReq
from tests.core.desk import Desk
from tests.core.mesh import Mesh, Node, network_of
from tests.core.neighbour import Neighbour, joining, said

SHORTLY_S = 0.3


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1")


def shared(mode: str) -> tuple[Mesh, Node, Node]:
    """b1, which shares its table with b2 in this way."""
    mesh, (b1, b2) = network_of({"b1": {"peers": [{"identity": "b2", "table": mode}]}, "b2": {}})
    return mesh, b1, b2


def known(node: Node, of: str) -> dict[str, dict[str, Any]]:
    return node.peer(of).table


def test_each_change_is_pushed_soon() -> None:
    mesh, b1, b2 = shared("push")
    b1.worker("w", "echo", "render", capacity=3)
    mesh.run(SHORTLY_S)
    row = known(b2, "b1")["w"]
    assert (row["state"], row["services"], row["capacity"]) == ("ready", ["echo", "render"], 3)
    assert (row["busy"], row["interval_ms"]) == (0, 2500)
    b1.say("w", WORKER, Ready(services=[ServiceOffer("echo")], capacity=7))
    mesh.run(SHORTLY_S)
    row = known(b2, "b1")["w"]
    assert (row["services"], row["capacity"]) == (["echo"], 7)
    b1.say("w", WORKER, Disconnect())
    mesh.run(SHORTLY_S)
    assert known(b2, "b1") == {}


def test_worker_that_falls_silent_leaves_the_table() -> None:
    mesh, b1, b2 = shared("push")
    b1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    mesh.beats = False
    mesh.run(8.5)
    assert known(b2, "b1") == {}


def test_only_what_changed_is_pushed() -> None:
    mesh, b1, _ = shared("push")
    for name in ("w1", "w2"):
        b1.worker(name, "echo")
    mesh.run(SHORTLY_S)
    mesh.passed.clear()
    b1.worker("w3", "echo")
    mesh.run(20.0)
    tables = mesh.between("b1", "b2", Table)
    assert [(table.is_full, [row["identity"] for row in table.rows]) for table in tables] == [(False, ["w3"])]


def test_all_of_it_is_pushed_after_a_link_came_up() -> None:
    mesh, b1, b2 = shared("push")
    for name in ("w1", "w2"):
        b1.worker(name, "echo")
    mesh.run(SHORTLY_S)
    mesh.sever("b1", "b2")
    b1.say("w1", WORKER, Disconnect())
    mesh.run(1.0)
    assert list(known(b2, "b1")) == ["w2"]


def test_broker_that_comes_back_without_workers_has_none_in_its_peers_tables() -> None:
    mesh, b1, b2 = shared("push")
    b1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    b1.restart()
    mesh.run(6.0)
    assert known(b2, "b1") == {}


def test_large_table_is_pushed_a_batch_at_a_time(desk: Desk) -> None:
    for n in range(2 * PUSHED_MAX + 50):
        desk.worker(f"w{n}", "echo")
    desk.say("b2", PEER, joining())
    first = said(desk.pass_time(0.01), Table)
    tables = first + said(desk.pass_time(0.5, steps=50), Table)
    assert [len(table.rows) for table in tables] == [PUSHED_MAX, PUSHED_MAX, 50]
    assert [table.is_full for table in tables] == [True, False, False]
    assert [table.seq for table in tables] == [1, 2, 3]


@pytest.mark.parametrize("mode", ["pull", "off"])
def test_nothing_is_pushed_where_it_is_not_wanted(mode: str) -> None:
    mesh, b1, b2 = shared(mode)
    b1.worker("w", "echo")
    mesh.run(10.0)
    assert mesh.between("b1", "b2", Table) == []
    assert known(b2, "b1") == {}


def test_table_is_pulled_when_somebody_looks() -> None:
    mesh, b1, b2 = shared("pull")
    b1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    assert b2.rows("network_workers") == [], "the answer is there when somebody looks again"
    assert [(row["identity"], row["broker"]) for row in b2.rows("network_workers")] == [("w", "b1")]


def test_table_that_is_not_shared_is_not_told_when_it_is_asked_for() -> None:
    mesh, b1, b2 = shared("off")
    b1.worker("w", "echo")
    mesh.run(SHORTLY_S)
    b2.rows("network_workers")
    mesh.run(SHORTLY_S)
    assert len(mesh.between("b2", "b1", TableReq)) >= 1
    assert b2.rows("network_workers") == []


def test_each_end_decides_how_its_own_table_is_shared() -> None:
    mesh, b1, b2 = shared("off")
    b2.worker("w", "echo")
    mesh.run(SHORTLY_S)
    assert list(known(b1, "b2")) == ["w"], "b2 pushes, as by default"


def test_larger_table_is_pulled_in_several_messages(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_table, "ROWS_MAX", 20)
    for n in range(50):
        desk.worker(f"w{n}", "echo")
    b2 = Neighbour(desk)
    tables = said(b2.say(TableReq()), Table)
    assert [(len(table.rows), table.is_full) for table in tables] == [(20, True), (20, False), (10, False)]


def test_majordomo_workers_are_in_the_table_too(desk: Desk) -> None:
    desk.say("m", MDP1_WORKER, MdpReady("echo"))
    b2 = Neighbour(desk)
    (table,) = said(b2.say(TableReq()), Table)
    assert [row["services"] for row in table.rows] == [["echo"]]


def test_row_tells_how_long_ago_a_worker_was_heard_and_its_config(desk: Desk) -> None:
    worker = desk.worker("w", "echo")
    b2 = Neighbour(desk)
    worker.say(Ping(0, config_version=desk.broker.state.config.packed_version))
    desk.pass_time(1.5)
    (table,) = said(b2.say(TableReq()), Table)
    assert table.rows[0]["age_ms"] == pytest.approx(1500, abs=5)
    assert table.rows[0]["version"] == desk.broker.state.config.packed_version


# --- taking ---------------------------------------------------------------------------------------------------------


def test_rows_are_taken_replaced_and_removed(desk: Desk) -> None:
    b2 = Neighbour(desk)
    table = desk.broker.state.network.peers["b2"].table
    b2.say(Table(seq=1, is_full=True, rows=[{"identity": "a", "busy": 1}, {"identity": "b", "busy": 1}]))
    b2.say(Table(seq=2, rows=[{"identity": "a", "busy": 2}, {"identity": "c", "busy": 0}]))
    assert {name: row["busy"] for name, row in table.items()} == {"a": 2, "b": 1, "c": 0}
    b2.say(Table(seq=3, rows=[{"identity": "b"}, {"identity": "unknown"}]))
    assert set(table) == {"a", "c"}
    b2.say(Table(seq=4, is_full=True, rows=[{"identity": "d", "busy": 0}]))
    assert set(table) == {"d"}


def test_rows_that_name_nobody_are_left_out(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.say(Table(seq=1, rows=[{}, {"identity": 7, "busy": 1}, {"busy": 3}]))
    assert desk.broker.state.network.peers["b2"].table == {}


def test_rows_of_all_peers_together_are_limited() -> None:
    desk = Desk(identity="b1", limits=Limits(table_rows=5))
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    for peer in (b2, b3):
        rows = [{"identity": f"{peer.identity}-{n}", "busy": 0} for n in range(4)]
        peer.say(Table(seq=1, is_full=True, rows=rows))
    peers = desk.broker.state.network.peers
    assert (len(peers["b2"].table), len(peers["b3"].table)) == (4, 1)
    b2.say(Table(seq=2, rows=[{"identity": "b2-0", "busy": 9}]))
    assert peers["b2"].table["b2-0"]["busy"] == 9, "one that is known may change"
