"""Changes of the config in a network of processes: who gets them, who refuses them, and what outlives a restart."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from scale0 import Client, Worker
from scale0.errors import TaskError
from scale0.protocol import documents
from scale0.protocol.dialects import WORKER
from scale0.protocol.messages import Command, Config, Connect, Error, Ping, Pong
from scale0.protocol.network import Part
from tests.integration.load import echo_worker
from tests.integration.networks import PATIENCE, BrokerNetwork, BrokerProcess, document, network, until, until_each
from tests.integration.proxies import proxy
from tests.integration.wire import RawWorker, Wire

CONNECT = WORKER.header + bytes((Command.CONNECT,))
CONFIG = WORKER.header + bytes((Command.CONFIG,))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[BrokerNetwork]:
    """Two brokers that one test may kill."""
    with network(tmp_path, "b1", "b2", group="eu", liveness=PATIENCE) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerNetwork]:
    """Two brokers for all tests that leave them alive. Each test takes a timeout of its own as its mark."""
    with network(tmp_path_factory.mktemp("lasting"), "b1", "b2", group="eu", liveness=PATIENCE) as brokers:
        yield brokers


def timeout_at(broker: BrokerProcess) -> float:
    return float(broker.rows("config")[0]["document"].get("default_timeout", 60))


def await_timeout(brokers: BrokerNetwork, seconds: float) -> None:
    until_each(brokers.running, lambda broker: timeout_at(broker) == seconds, "has the change")


def change(brokers: BrokerNetwork, at: str, **keys: object) -> str:
    return brokers[at].apply({**{name: value for name, value in brokers.keys.items() if name != "group"}, **keys})


# --- who gets it ----------------------------------------------------------------------------------------------------


def test_broker_that_was_down_gets_the_change_when_it_is_back(pair: BrokerNetwork) -> None:
    pair["b2"].kill()
    version = change(pair, "b1", default_timeout=33)
    pair["b2"].start()
    pair.await_complete()
    await_timeout(pair, 33)
    assert version in {row["version"] for row in pair["b2"].rows("config_history")}


def test_change_is_sequenced_by_one_broker_wherever_it_is_made_and_a_stale_one_is_refused(
    lasting: BrokerNetwork,
) -> None:
    before = lasting["b2"].version()
    change(lasting, "b2", default_timeout=21)
    await_timeout(lasting, 21)
    with pytest.raises(TaskError, match=r"409 .*by now.*apply it again"):
        lasting["b2"].apply(document(default_timeout=22), base=before)
    assert timeout_at(lasting["b1"]) == timeout_at(lasting["b2"]) == 21
    assert [row["is_sequencer"] for row in lasting["b2"].rows("network")] == [True, False]


def test_sequencer_that_is_down_is_succeeded_by_the_next(pair: BrokerNetwork) -> None:
    pair["b1"].kill()
    until(lambda: pair["b2"].own()["is_sequencer"], "b2 sequences changes")
    version = change(pair, "b2", default_timeout=33)
    pair["b1"].start()
    pair.await_complete()
    # It hears of b2's change before it makes one itself, for its publisher has another port than before.
    await_timeout(pair, 33)
    assert version in {row["version"] for row in pair["b1"].rows("config_history")}
    assert not [row for row in pair["b1"].rows("config_history") if row["state"] == "lost"]


# --- the file -------------------------------------------------------------------------------------------------------


def test_file_that_was_changed_is_read_again_on_sighup_and_reaches_the_others(lasting: BrokerNetwork) -> None:
    lasting["b2"].write({**lasting.keys, "default_timeout": 23})
    lasting["b2"].reload()
    await_timeout(lasting, 23)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("liveness = 0\n", "liveness"),
        ("default_timeot = 5\n", "default_timeout"),
        ("liveness = [\n", "line"),
    ],
)
def test_bad_file_is_refused_with_its_reason_and_the_last_good_config_stays(
    lasting: BrokerNetwork, text: str, why: str
) -> None:
    broker = lasting["b1"]
    before, refused = broker.version(), refusals(broker)
    broker.file.write_text(text)
    broker.reload()
    until(lambda: len(refusals(broker)) > len(refused), "the refusal is logged")
    assert why in refusals(broker)[-1]
    assert str(broker.file) in refusals(broker)[-1]
    assert broker.version() == lasting["b2"].version() == before


def refusals(broker: BrokerProcess) -> list[str]:
    return [line["event"] for line in list(broker.said) if line["event"].startswith("settings not changed")]


def test_document_that_does_not_validate_is_refused_by_whomever_it_is_sent_to(lasting: BrokerNetwork) -> None:
    before = lasting["b1"].version()
    for broker in lasting.running:
        with pytest.raises(TaskError, match=r"400 .*fallback_groups"):
            broker.apply({"network": "under-test", "groups": [{"name": "eu", "fallback_groups": ["nowhere"]}]})
    assert lasting["b1"].version() == lasting["b2"].version() == before


# --- what outlives a restart ----------------------------------------------------------------------------------------


def test_kept_config_is_used_at_the_next_start_while_all_others_are_down(pair: BrokerNetwork) -> None:
    change(pair, "b1", default_timeout=33)
    await_timeout(pair, 33)
    for broker in pair.running:
        broker.kill()
    pair["b2"].start()
    until(lambda: pair["b2"].own()["state"] == "active", "b2 serves by itself")
    assert timeout_at(pair["b2"]) == 33
    with echo_worker(pair["b2"].endpoint, "w", "echo"), Client(pair["b2"].endpoint) as client:
        assert client.call("echo") == "w"
    pair["b1"].start()
    pair.await_complete()
    assert timeout_at(pair["b1"]) == 33


def test_worker_and_client_with_a_saved_config_find_another_broker(pair: BrokerNetwork, tmp_path: Path) -> None:
    given, files = pair["b1"].endpoint, [tmp_path / "worker.json", tmp_path / "client.json"]

    def saving_worker() -> Worker:
        worker = Worker(given, identity="saves", save_config=files[0])
        worker.add_service("echo", lambda: "saves")
        return worker

    with saving_worker().start(), Client(given, save_config=files[1]) as client:
        assert client.call("echo") == "saves"
    assert all(pair["b2"].endpoint in file.read_text() for file in files)
    pair["b1"].kill()
    with saving_worker().start(), Client(given, save_config=files[1]) as client:
        assert client.call("echo") == "saves"
        assert pair["b2"].own()["services"] == {"echo": 1}


# --- participants ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config_type", ["JSON", "XML", "ZPL", "ZFL"])
def test_config_comes_in_the_format_that_was_asked_for_and_so_does_every_change(
    lasting: BrokerNetwork, config_type: str
) -> None:
    with Wire(lasting["b2"].endpoint) as wire:
        wire.say(Connect(identity=f"reads-{config_type}", nonce=os.urandom(8), config_type=config_type))
        first = wire.hear_a(Config)
        assert first.config_type == config_type.replace("ZFL", "ZPL")
        part = documents.decode(first.config, first.config_type, Part)
        assert part.preferred_broker == "b2"
        (group,) = part.group_config
        assert (group.name, [broker.identity for broker in group.brokers]) == ("eu", ["b1", "b2"])
        assert [broker.endpoints for broker in group.brokers] == [[endpoint] for endpoint in lasting.endpoints]
        change(lasting, "b1", liveness=part.liveness + 1)
        pushed = wire.hear_a(Config)
        assert pushed.config_version > first.config_version
        assert documents.decode(pushed.config, pushed.config_type, Part).liveness == part.liveness + 1


def test_worker_that_stays_with_an_old_config_is_told_once_a_version(lasting: BrokerNetwork) -> None:
    with RawWorker(lasting["b1"].endpoint, "stubborn", "echo", interval_ms=0) as worker:
        worker.say(Connect(identity="stubborn", nonce=worker.nonce, services=["echo"]))
        old = worker.hear_a(Config).config_version

        def ping() -> list[object]:
            """Say PING with the old version; all that comes up to its PONG, and what comes with it."""
            worker.say(Ping(time_us=time.time_ns() // 1000, config_version=old))
            said: list[object] = []
            while not said or not isinstance(said[-1], Pong):
                said.append(worker.hear())
            return said

        warnings = lasting["b1"].counters().get("refused_426", 0)
        for timeout_s in (24, 25):
            change(lasting, "b2", default_timeout=timeout_s)
            await_timeout(lasting, timeout_s)
            # Two intervals after the push; a worker that says PING until then is not missed meanwhile.
            until(lambda: any(isinstance(message, Error) for message in ping()), "426 comes")
            warnings += 1
            assert not [message for _ in range(20) for message in ping() if isinstance(message, Error)]
            assert lasting["b1"].counters()["refused_426"] == warnings


def test_change_costs_each_worker_one_config_and_no_connect(tmp_path: Path) -> None:
    count, changes = 10, 3
    with (
        network(tmp_path, "b1", liveness=PATIENCE) as pair,
        proxy(pair["b1"].endpoint, [CONNECT, CONFIG]) as between,
    ):
        pair.add("b2", keys={"group": "another"})  # so that the workers stay where they are
        pair.await_complete()
        workers = [Worker(between.endpoint, identity=f"w{number}") for number in range(count)]
        for worker in workers:
            worker.add_service("echo", lambda: "echo")
            worker.start()
        try:
            begun = between.count[CONNECT]
            assert between.count[CONFIG] == begun == count
            for liveness in range(PATIENCE + 1, PATIENCE + 1 + changes):
                version = change(pair, "b2", liveness=liveness)
                until(partial(have_version, pair["b1"], version, count), f"all run {version}")
            assert between.count[CONNECT] == count
            assert between.count[CONFIG] == count * (1 + changes)
        finally:
            for worker in workers:
                worker.stop()


def have_version(broker: BrokerProcess, version: str, count: int) -> bool:
    rows = [row for row in broker.rows("network_workers") if row["broker"] == broker.identity]
    return [row["config_version"] for row in rows] == [version] * count
