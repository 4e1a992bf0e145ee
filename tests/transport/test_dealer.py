"""The DEALER that clients and workers share: frames in and out, and failures in words."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest
import zmq

from scale0.errors import UsageError
from scale0.protocol import limits, native
from scale0.protocol.bundles import bundle, unbundle
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Pong, TaskReply
from scale0.transport import dealer as module
from scale0.transport.dealer import Dealer

LIMIT_MS = 60_000


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def router(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    return context.socket(zmq.ROUTER)


@pytest.fixture
def dealer() -> Iterator[Dealer]:
    made = Dealer()
    yield made
    made.close(0)


def bind(router: zmq.Socket[bytes]) -> str:
    return f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"


def wait_for_failure(dealer: Dealer) -> str:
    """The next failure, waited for on the descriptor as a shell does."""
    poll = select.poll()
    poll.register(dealer.monitor_fileno, select.POLLIN)
    while True:
        assert poll.poll(LIMIT_MS), "no event came"
        sentences = dealer.failures()
        if sentences:
            return sentences[0]


def wait_for_input(dealer: Dealer) -> list[list[bytes]]:
    assert dealer.socket.poll(LIMIT_MS), "nothing came"
    return dealer.drain()


@pytest.mark.parametrize("frames", [[b"one"], [b"head", b"body"], [b"head", b"", b"body", b"x" * 100_000]])
def test_frames_go_there_and_back(dealer: Dealer, router: zmq.Socket[bytes], frames: list[bytes]) -> None:
    dealer.open(bind(router))
    assert dealer.send(frames)
    route, *heard = router.recv_multipart()
    assert heard == frames
    router.send_multipart([route, *frames])
    assert wait_for_input(dealer) == [frames]
    assert dealer.drain() == []


def test_drain_takes_at_most_its_limit(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    dealer.open(bind(router))
    dealer.send([b"hello"])
    route, _ = router.recv_multipart()
    for number in range(10):
        router.send_multipart([route, str(number).encode()])
    taken: list[list[bytes]] = []
    while len(taken) < 10:
        assert dealer.socket.poll(LIMIT_MS)
        batch = dealer.drain(3)
        assert len(batch) <= 3
        taken += batch
    assert taken == [[str(number).encode()] for number in range(10)]


def test_message_of_too_many_frames_is_cut_and_the_next_one_is_whole(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    dealer.open(bind(router))
    dealer.send([b"hello"])
    route, _ = router.recv_multipart()
    router.send_multipart([route, *[b"x"] * 500])
    router.send_multipart([route, b"next"])
    taken: list[list[bytes]] = []
    while len(taken) < 2:
        taken += wait_for_input(dealer)
    assert len(taken[0]) == limits.FRAMES_MAX + 1
    assert taken[1] == [b"next"]


def test_full_pipe_is_said_and_takes_nothing() -> None:
    dealer = Dealer(hwm=2)
    dealer.open("tcp://127.0.0.1:1")
    assert dealer.send([b"a", b"b"])
    assert dealer.send([b"a", b"b"])
    assert not dealer.send([b"a", b"b"])
    dealer.close(0)


def test_message_sent_before_the_broker_listens_arrives(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    dealer.open(endpoint)
    dealer.send([b"early"])
    assert wait_for_failure(dealer) == module.NOTHING_LISTENS
    router.bind(endpoint)
    assert router.poll(LIMIT_MS)
    assert router.recv_multipart()[1:] == [b"early"]


def test_a_name_that_nobody_knows_is_told(dealer: Dealer) -> None:
    dealer.open(f"tcp://{'x' * 64}.invalid:5555")  # no label is so long: known at once, whoever is asked
    assert wait_for_failure(dealer) == module.UNKNOWN_NAME


def test_lost_connection_is_told(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    dealer.open(bind(router))
    dealer.send([b"hello"])
    router.recv_multipart()
    router.close(0)
    assert wait_for_failure(dealer) == module.DISCONNECTED


def test_missing_encryption_is_told(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    router.curve_server = True
    router.curve_publickey, router.curve_secretkey = zmq.curve_keypair()
    dealer.open(bind(router))
    assert wait_for_failure(dealer) in (module.NEEDS_ENCRYPTION, module.NO_HANDSHAKE)


def test_encryption_that_the_broker_lacks_is_told(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    public, _ = zmq.curve_keypair()
    dealer.open(bind(router), public.decode())
    assert wait_for_failure(dealer) == module.WRONG_KEY


def test_encrypted_messages_pass(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    router.curve_server = True
    public, router.curve_secretkey = zmq.curve_keypair()
    router.curve_publickey = public
    dealer.open(bind(router), public.decode())
    dealer.send([b"secret"])
    assert router.poll(LIMIT_MS)
    assert router.recv_multipart()[1:] == [b"secret"]


def test_opening_again_leaves_the_old_connection_behind(
    dealer: Dealer, router: zmq.Socket[bytes], context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    for _ in range(20):  # each monitor needs an address of its own
        dealer.open(bind(router))
    other = context.socket(zmq.ROUTER)
    dealer.open(bind(other))
    dealer.send([b"here"])
    assert other.poll(LIMIT_MS)
    assert other.recv_multipart()[1:] == [b"here"]


def test_last_message_leaves_after_close(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    dealer.open(bind(router))
    dealer.send([b"hello"])
    router.recv_multipart()
    dealer.send([b"goodbye"])
    dealer.close()
    dealer.close()
    assert not dealer.is_open
    assert router.poll(LIMIT_MS)
    assert router.recv_multipart()[1:] == [b"goodbye"]


@pytest.mark.parametrize("endpoint", ["", "nonsense", "tcp://127.0.0.1", "tcp://127.0.0.1:notaport"])
def test_wrong_address_is_refused(dealer: Dealer, endpoint: str) -> None:
    with pytest.raises(UsageError, match="is not an address to connect to"):
        dealer.open(endpoint)
    assert not dealer.is_open


def test_messages_with_and_without_further_frames_never_run_into_one_another(
    dealer: Dealer, router: zmq.Socket[bytes]
) -> None:
    task_id = make_id(id_prefix("me", bytes(8)), 1)
    bodies: list[tuple[bytes, ...]] = [(b"small",), (b"", b"raw"), (bytes(9000),), (), (b"a", b"b", b"c"), (b"",)] * 20
    messages = [native.encode(b"SC0C01", TaskReply(task_id, body)) for body in bodies]
    messages += [native.encode(b"SC0C01", Pong(1, 2))]
    dealer.open(bind(router))
    dealer.send([b"hello"])
    route, _ = router.recv_multipart()
    for message in messages:
        router.send_multipart([route, *message])
    taken: list[list[bytes]] = []
    while len(taken) < len(messages):
        taken += wait_for_input(dealer)
    assert taken == messages


def test_pipe_takes_as_many_messages_as_it_holds(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    dealer = Dealer(hwm=10)
    dealer.open("tcp://127.0.0.1:1")  # nobody is there, so nothing leaves
    try:
        taken = dealer.send_all([[b"head", b"body"]] * 100)
        assert 0 < taken < 100
        assert dealer.send_all([[b"one more"]]) == 0
    finally:
        dealer.close(0)


def test_bundle_is_opened_and_one_that_is_none_is_left_to_the_codec(dealer: Dealer, router: zmq.Socket[bytes]) -> None:
    dealer.open(bind(router))
    dealer.send([b"hello"])
    route, _ = router.recv_multipart()
    pong = native.encode(b"SC0C01", Pong(1, 2, bytes(16), 3))[0]
    torn = bundle([pong, pong])[:-1]
    router.send_multipart([route, bundle([pong, pong, pong])])
    router.send_multipart([route, torn])
    router.send_multipart([route, pong])
    taken: list[list[bytes]] = []
    while len(taken) < 5:
        taken += wait_for_input(dealer)
    assert taken == [[pong], [pong], [pong], [torn], [pong]]


def test_messages_that_leave_together_are_bundled_once_the_broker_has_said_that_it_takes_them(
    dealer: Dealer, router: zmq.Socket[bytes]
) -> None:
    dealer.open(bind(router))
    small = [[b"SC0C01\x06" + bytes((number,))] for number in range(3)]
    large = [b"SC0C01\x08", b"body"]
    assert dealer.send_all(small) == 3
    assert [router.recv_multipart()[1:] for _ in small] == small
    dealer.takes_bundles = True
    assert dealer.send_all([*small, large, *small[:1]]) == 5
    _, frame = router.recv_multipart()
    assert unbundle(frame) == [message[0] for message in small]
    assert router.recv_multipart()[1:] == large
    assert router.recv_multipart()[1:] == small[0]
    dealer.open(dealer.endpoint)
    assert not dealer.takes_bundles, "another connection may lead to another broker"
