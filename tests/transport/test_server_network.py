"""Servers that find one another: names, addresses, kept configs, and changes that another broker decides on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scale0.core.settings import BrokerSettings
from scale0.errors import PortTaken, ProtocolError, SettingsError
from scale0.protocol.messages import TaskReply
from scale0.protocol.network import BrokerEntry, Document, ServiceEntry
from scale0.transport.config_file import FILE_NAME
from scale0.transport.logs import make_log
from scale0.transport.server import Server
from tests.integration.wire import LIMIT_S, RawClient, RawWorker
from tests.transport.test_server import ANY, Running

_pause = threading.Event()  # never set
INTERVAL_S = 0.2  # of heartbeats: short, so that news spreads soon
PATIENCE = 15  # `liveness`: on a busy machine a thread may be late by some intervals
CHANGED = Document(liveness=PATIENCE + 1, default_heartbeat_interval_s=INTERVAL_S)


def named(identity: str) -> BrokerSettings:
    return BrokerSettings(identity=identity, group="eu", default_heartbeat_interval_s=INTERVAL_S, liveness=PATIENCE)


FAST = named("eu-1")


def ask(running: Running, what: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = running.server.manage("list", {"what": what}).result(LIMIT_S)["rows"]
    return rows


def wait_until(is_so: Callable[[], object]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end_s, "it never happened"
        _pause.wait(0.01)


def are_linked(*all_running: Running) -> bool:
    def is_complete(rows: list[dict[str, Any]]) -> bool:
        up = [row for row in rows if row["state"] == "active" and row["link"] in ("self", "up")]
        return len(up) == len(all_running) and len({row["config_version"] for row in up}) == 1

    return all(is_complete(ask(running, "network")) for running in all_running)


def joined(first: Running, identity: str = "eu-2", **options: Any) -> Running:
    return Running(named(identity), seeds=[first.endpoint], publish=ANY, **options)


def test_broker_that_joins_is_named_after_its_machine_and_port_unless_it_has_a_name() -> None:
    nowhere = ["tcp://127.0.0.1:9"]
    with Running(seeds=nowhere) as running:
        port = running.endpoint.rpartition(":")[2]
        assert running.server.identity == f"{socket.gethostname()}-{port}"
    with Running(BrokerSettings(identity="mine"), seeds=nowhere) as running:
        assert running.server.identity == "mine"
    with Running() as running:
        assert running.server.identity == "broker"


def test_real_addresses_are_entered_into_the_document() -> None:
    with Running(FAST, publish=ANY) as running:
        (row,) = ask(running, "config")
        (entry,) = row["document"]["brokers"]
        assert entry["endpoints"] == [running.endpoint]
        assert entry["config_pub"] == running.server.publishes_at
        assert not entry["config_pub"].endswith(":0")


def test_port_for_peers_is_bound_and_not_advertised_to_participants() -> None:
    with Running(FAST, peer=ANY) as running:
        assert len(running.server.endpoints) == 2
        assert running.server.broker.state.local.advertise == [running.endpoint]
        with joined(running) as other:
            wait_until(lambda: are_linked(running, other))


def test_taken_publishers_port_leaves_nothing_behind() -> None:
    with Running(publish=ANY) as running:
        free = running.endpoint.replace(running.endpoint.rpartition(":")[2], "0")
        with pytest.raises(PortTaken, match="--publish"):
            Server(BrokerSettings(), free, log=make_log(is_quiet=True), publish=running.server.publishes_at)


def test_broker_joins_by_a_seed_and_tasks_cross() -> None:
    with Running(FAST, publish=ANY) as first, joined(first) as second:
        wait_until(lambda: are_linked(first, second))
        wait_until(lambda: "is active now" in second.lines.getvalue() and "was=joining" in second.lines.getvalue())
        with RawWorker(first.endpoint) as worker, RawClient(second.endpoint) as client:
            wait_until(lambda: any("echo" in row["services"] for row in ask(second, "network")))
            task_id = client.submit("echo", b"over")
            worker.reply(worker.take(), b"there")
            assert client.hear_a(TaskReply).id == task_id


def test_links_come_back_after_a_broker_was_killed_and_started_again(tmp_path: Path) -> None:
    with Running(FAST, publish=ANY) as first:
        second = joined(first, state_dir=tmp_path)
        wait_until(lambda: are_linked(first, second))
        second.server.kill()
        second.join()
        wait_until(lambda: [row["link"] for row in ask(first, "network")] != ["self", "up"])
        with Running(named("eu-2"), bind=second.endpoint, state_dir=tmp_path) as second:
            wait_until(lambda: are_linked(first, second))


def test_broker_starts_from_the_config_that_it_kept(tmp_path: Path) -> None:
    changed = Document(liveness=7, service=[ServiceEntry(name="pay", idempotent=True)])
    with Running(FAST, state_dir=tmp_path, reread=lambda: changed) as running:
        running.server.reload()
        wait_until(lambda: ask(running, "config")[0]["document"].get("liveness") == 7)
        version = ask(running, "config")[0]["version"]
    with Running(FAST, state_dir=tmp_path) as running:
        (row,) = ask(running, "config")
        assert (row["liveness"], running.server.broker.state.settings.service["pay"].idempotent) == (7, True)
        assert row["version"].split(".")[1] >= version.split(".")[1]


def test_file_that_differs_from_the_kept_config_is_said_to_be_passed_over(tmp_path: Path) -> None:
    both = [BrokerEntry(identity="eu-1", group="eu"), BrokerEntry(identity="eu-2", group="eu")]
    first = Document(brokers=both, liveness=PATIENCE, default_heartbeat_interval_s=INTERVAL_S)
    for document, is_told in ((first, False), (first, False), (msgspec.structs.replace(first, liveness=5), True)):
        with Running(FAST, state_dir=tmp_path, document=document) as running:
            assert running.server.broker.state.config.document.liveness == PATIENCE
        assert (f"says otherwise: liveness {PATIENCE} → 5; " in running.lines.getvalue()) is is_told


def test_kept_config_that_was_changed_by_hand_is_refused_before_anything_is_bound(tmp_path: Path) -> None:
    with Running(FAST, state_dir=tmp_path, reread=lambda: Document(liveness=7)) as running:
        running.server.reload()
        wait_until(lambda: ask(running, "config")[0]["liveness"] == 7)
    path = tmp_path / FILE_NAME
    path.write_text(path.read_text().replace('"eu"', '"us"'))
    with pytest.raises(SettingsError, match="was changed"):
        Server(FAST, ANY, log=make_log(is_quiet=True), state_dir=tmp_path)


def test_change_through_a_broker_that_does_not_sequence_is_answered_by_the_one_that_does() -> None:
    with Running(FAST, publish=ANY) as first, joined(first) as second:
        wait_until(lambda: are_linked(first, second))
        good = {"document": f'{{"liveness": {PATIENCE + 1}}}', "base": None, "comment": "longer", "force": False}
        answer = second.server.manage("config_apply", good).result(LIMIT_S)
        assert answer["changed"]
        wait_until(lambda: ask(second, "config")[0]["version"] == answer["version"])
        late = {"document": '{"liveness": 8}', "base": "1.1.00000000", "comment": "", "force": False}
        with pytest.raises(ProtocolError) as caught:
            second.server.manage("config_apply", late).result(LIMIT_S)
        assert caught.value.code == 409


def test_settings_file_of_a_broker_that_does_not_sequence_is_passed_on() -> None:
    with (
        Running(FAST, publish=ANY) as first,
        joined(first, reread=lambda: CHANGED) as second,
    ):
        wait_until(lambda: are_linked(first, second))
        second.server.reload()
        wait_until(lambda: ask(first, "config")[0]["liveness"] == PATIENCE + 1)
        wait_until(lambda: are_linked(first, second))


def test_broker_that_is_still_joining_can_be_drained() -> None:
    with Running(named("eu-2"), seeds=["tcp://127.0.0.1:9"]) as running:
        running.server.drain(LIMIT_S)
        running.join()
