"""Several brokers: a client that knows one of them learns of the others, and goes from one to another without loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.errors import BrokerUnavailable, Unreachable, UsageError
from scale0.protocol.messages import ChangeBroker, Config, Connect, Disconnect, Error, Flag, NeedBroker, Task
from tests.client.scripted import LIMIT_S, ScriptedBroker, echo, hold, scripted
from tests.contract.conftest import Connect as Make
from tests.contract.test_connection import REFUSED_S, free_endpoint
from tests.core.sessions_kit import document, version


def config_of(*brokers: ScriptedBroker) -> Config:
    """A config that lists these brokers as one group, the first as the one to use."""
    listed = {f"b{number}": broker.endpoint for number, broker in enumerate(brokers)}
    text = document(listed, preferred="b0")
    return Config(config_type="JSON", config_version=version(1), config=text, epoch=1, liveness=3)


def draining(broker: ScriptedBroker, route: bytes, task: Task) -> None:
    broker.send(route, Error(code=503, text="this broker is draining; ask another, or later", id=task.id))


def tasks_of(broker: ScriptedBroker) -> list[Task]:
    return [message for message in broker.heard if isinstance(message, Task)]


def test_client_that_was_given_one_broker_survives_its_loss(make: Make) -> None:
    with scripted() as first, scripted() as second:
        first.config = config_of(first, second)
        client = make(first.endpoint)
        assert client.call("echo", 1) == 1
        handle = client.submit("hold", "kept")
        first.wait_for(lambda broker: bool(broker.held))
        second.answer = echo
        first.stop()
        assert handle.result(LIMIT_S) == "kept"
        assert client.call("echo", 2) == 2
    connect = next(message for message in second.heard if isinstance(message, Connect))
    assert connect.home == "b0"
    assert tasks_of(second)[0].flags & Flag.RESENT


def test_task_that_a_draining_broker_does_not_take_is_sent_to_another(make: Make) -> None:
    with scripted(draining) as first, scripted() as second:
        first.named = second.endpoint
        client = make(first.endpoint, second.endpoint)
        assert client.call("echo", 1) == 1
    assert not tasks_of(second)[0].flags & Flag.RESENT, "nobody has run it"
    assert first.count(NeedBroker) == 1


def test_task_that_no_broker_takes_ends_in_an_error_that_says_why(make: Make) -> None:
    with scripted(draining) as first, scripted(draining) as second:
        first.named, second.named = second.endpoint, first.endpoint
        client = make(first.endpoint, second.endpoint)
        with pytest.raises(BrokerUnavailable, match="this broker is draining"):
            client.call("echo", 1, timeout=LIMIT_S)


def test_move_waits_for_the_outcome_and_new_tasks_go_to_the_other_broker(make: Make) -> None:
    with scripted(hold) as first, scripted() as second:
        client = make(first.endpoint)
        in_flight = client.submit("hold", "old")
        first.wait_for(lambda broker: bool(broker.held))
        (route, task) = first.held[0]
        first.do(lambda: first.send(route, ChangeBroker(identity="b1", endpoints=[second.endpoint], reason="drain")))
        first.do(lambda: echo(first, route, task))
        assert in_flight.result(LIMIT_S) == "old"
        first.wait_for(lambda broker: broker.count(Disconnect) == 1)
        assert client.call("echo", "new") == "new"
    assert [task.flags for task in tasks_of(second)] == [0]


def test_saved_config_leads_to_a_broker_though_the_given_one_is_down(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    with scripted() as second:
        with scripted() as first:
            first.config = config_of(first, second)
            client = make(first.endpoint, save_config=path)
            client.connect()
            client.close()
        later = make(first.endpoint, save_config=str(path))
        assert later.call("echo", 1) == 1
        connect = next(message for message in second.heard if isinstance(message, Connect))
        assert connect.config_version == version(1)


def test_damaged_saved_config_is_ignored(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_bytes(b"{")
    with scripted() as broker:
        assert make(broker.endpoint, save_config=path).call("echo", 1) == 1


def test_all_brokers_of_a_saved_config_are_named_when_none_is_there(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    with scripted() as first, scripted() as second:
        first.config = config_of(first, second)
        client = make(first.endpoint, save_config=path)
        client.connect()
        client.close()
    with pytest.raises(Unreachable) as caught:
        make(first.endpoint, save_config=path, connect_timeout=REFUSED_S).connect()
    assert set(caught.value.tried) == {first.endpoint, second.endpoint}


def test_directory_to_save_in_is_refused_at_once(make: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        make(free_endpoint(), save_config=tmp_path)
