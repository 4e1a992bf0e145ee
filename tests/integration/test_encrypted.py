"""One broker with a key: who is let in, what each may do there, and what becomes of who is not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import zmq

from scale0 import Client
from scale0.client.manager import manage
from scale0.errors import SessionRefused, TaskRefused, Unreachable
from scale0.protocol import codec
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import Connect, Error
from scale0.transport import key_files
from scale0.transport.dealer import Dealer
from tests.integration.key_room import KeyRoom, started
from tests.integration.networks import until

LIMIT_MS = 60_000  # only a hang reaches it
SOON_S = 0.5


@pytest.fixture
def room(tmp_path: Path) -> KeyRoom:
    return KeyRoom(tmp_path)


@pytest.mark.parametrize("is_process", [False, True])
def test_a_task_goes_from_client_to_worker_and_back_encrypted(room: KeyRoom, is_process: bool) -> None:
    broker = room.broker("broker-1", process=is_process)
    with started(broker), room.worker(broker).start(), room.client(broker) as client:
        assert client.call("double", 21) == 42
        assert list(client.map("double", range(100))) == [2 * number for number in range(100)]


def test_an_unknown_key_is_refused_and_its_holder_told_what_to_do(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker), pytest.raises(Unreachable) as refused:
        room.client(broker, name="stranger", connect_timeout=SOON_S).call("double", 1)
    assert f"on the broker: scale0 keys allow '{room.public('stranger')}'" in str(refused.value)
    assert "start one" not in str(refused.value), "one runs"


def test_who_speaks_plainly_is_told_that_the_broker_encrypts(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker), pytest.raises(Unreachable) as refused:
        Client(broker.endpoint, connect_timeout=3.0).call("double", 1)
    assert "requires encryption" in str(refused.value)


def test_who_expects_another_key_of_the_broker_does_not_speak_to_it(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker), pytest.raises(Unreachable) as refused:
        Client(
            broker.endpoint, key=room.path("client"), server_key=room.public("impostor"), connect_timeout=SOON_S
        ).call("double", 1)
    assert "another key than the one given as server_key" in str(refused.value)


def test_a_key_can_be_allowed_while_its_holder_tries(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker), room.worker(broker).start():
        client = room.client(broker, name="late", retry_forever=True, timeout=60.0)
        answer = client.submit("double", 4)
        room.allow("late", kind="client")
        assert answer.result(60.0) == 8
        client.close()


def test_a_client_s_key_calls_what_it_may_and_serves_nothing(room: KeyRoom) -> None:
    room.allow("client", kind="client", call=["double"])
    broker = room.broker("broker-1")
    with started(broker), room.worker(broker).start(), room.client(broker) as client:
        assert client.call("double", 1) == 2
        with pytest.raises(TaskRefused, match="403 this key may not call triple"):
            client.call("triple", 1)
        with pytest.raises(SessionRefused, match="403 this key is no worker's"):
            room.worker(broker, name="client").start()


def test_a_worker_s_key_can_neither_call_nor_manage(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker):
        with pytest.raises(SessionRefused, match="403 this key is no client's"):
            room.client(broker, name="worker").call("double", 1)
        with pytest.raises(SessionRefused, match="403 this key may not manage"):
            manage(
                broker.endpoint,
                "drain",
                auth_id="root",
                auth_password="guessed",
                **room.keys(broker, name="worker"),
            )


def test_a_worker_cannot_claim_another_s_service(room: KeyRoom) -> None:
    room.allow("thief", kind="worker", serve=["ocr"])
    broker = room.broker("broker-1")
    with started(broker), room.worker(broker).start(), room.worker(broker, name="thief", capacity=8).start():
        with room.client(broker) as client:
            assert list(client.map("double", range(50))) == [2 * number for number in range(50)]
        rows = {row["identity"]: row for row in broker.listing("workers")["rows"]}
        assert sorted(row["services"] for row in rows.values()) == [[], ["double"]]


def test_revoking_ends_live_sessions_within_two_seconds(room: KeyRoom) -> None:
    """Two looks of the broker at its list, a second apart; here by its own clock, since the machine may be busy."""
    broker = room.broker("broker-1", settings={"default_heartbeat_interval_s": 60.0})  # nobody is missed here
    with started(broker):
        dealer = Dealer(key_files.own_pair(room.path("client")))
        dealer.open(broker.endpoint, room.public("broker-1"))
        dealer.send(codec.encode(CLIENT, Connect(identity="me", nonce=b"12345678")))
        assert dealer.socket.poll(LIMIT_MS)
        dealer.drain()
        ticks_before = broker.server.loop.counters.ticks
        room.revoke("client")
        assert dealer.socket.poll(LIMIT_MS)
        ((_, error),) = [codec.decode(frames) for frames in dealer.drain()]
        assert isinstance(error, Error)
        assert (error.code, error.fatal) == (401, True)
        assert broker.server.loop.counters.ticks - ticks_before <= 3, "it ticks once a second, and looked at the second"
        dealer.send(codec.encode(CLIENT, Connect(identity="me", nonce=b"12345678")))
        assert dealer.socket.poll(LIMIT_MS)
        ((_, again),) = [codec.decode(frames) for frames in dealer.drain()]
        assert isinstance(again, Error)
        assert again.code == 401, "the connection still stands, and what it says is not handled"
        assert broker.listing("clients")["rows"] == []
        dealer.close()


def test_a_revoked_worker_ends_with_the_reason_and_the_cure(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker):
        worker = room.worker(broker)
        failure: list[BaseException] = []

        def serve() -> None:
            try:
                worker.run()
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        until(lambda: broker.listing("workers")["rows"], "it is here")
        room.revoke("worker")
        thread.join(60.0)
        assert not thread.is_alive()
        assert f"scale0 keys allow '{room.public('worker')}'" in str(failure[0])


def test_a_broken_list_changes_nothing(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker), room.worker(broker).start(), room.client(broker) as client:
        assert client.call("double", 1) == 2
        room.allowed.write_text("[{")
        ticks = broker.server.loop.counters.ticks
        until(lambda: broker.server.loop.counters.ticks > ticks + 3, "it has looked")
        assert client.call("double", 2) == 4


def test_many_unknown_keys_do_not_disturb_those_who_are_here(room: KeyRoom) -> None:
    broker = room.broker("broker-1")
    with started(broker), room.worker(broker).start(), room.client(broker) as client:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        context.set(zmq.MAX_SOCKETS, 600)
        sockets = [context.socket(zmq.DEALER) for _ in range(200)]
        for socket in sockets:
            key_files.use(socket, room.public("broker-1"), key_files.make_pair())
            socket.connect(broker.endpoint)
        try:
            until(lambda: broker.server.guard and broker.server.guard.doorkeeper.refused > 200, "all were refused")
            assert client.call("double", 3) == 6
            assert len(broker.server.broker.state.sessions) == 2
        finally:
            context.destroy(linger=0)
