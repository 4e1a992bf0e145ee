from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import zmq

from scale0.errors import PortTaken, UsageError
from scale0.protocol import limits
from scale0.transport.sockets import HANDSHAKE_IVL_MS, make_context, open_port


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    made = make_context()
    yield made
    made.destroy(linger=0)


def test_port_zero_takes_a_free_port_and_says_which(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    for bind in ("tcp://127.0.0.1:0", "tcp://127.0.0.1:*"):
        port = open_port(context, bind, 0)
        assert int(port.endpoint.rpartition(":")[2]) > 0


def test_socket_is_bounded_in_every_way_that_zeromq_offers(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    made = open_port(context, "tcp://127.0.0.1:0", 3).socket
    assert made.get(zmq.MAXMSGSIZE) == limits.FRAME_BYTES_MAX
    assert made.get(zmq.HANDSHAKE_IVL) == HANDSHAKE_IVL_MS
    assert made.get(zmq.SNDHWM) == limits.CAPACITY_MAX
    assert 0 < int(made.get(zmq.RCVHWM)) <= 1000
    assert made.get(zmq.HEARTBEAT_IVL) == 0, "on a broker's ROUTER it burns a core"


def test_taken_port_names_the_process_that_has_it(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        bind = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(PortTaken, match="the port is taken") as caught:
            open_port(context, bind, 0)
    assert caught.value.endpoint == bind
    assert "--bind" in str(caught.value)


def test_address_of_another_machine_cannot_be_bound(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with pytest.raises(PortTaken, match="no such address"):
        open_port(context, "tcp://192.0.2.1:5555", 0)


def test_port_that_there_is_not_is_refused_and_not_cut_to_one_that_there_is(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    with pytest.raises(UsageError, match="ports go to 65535"):
        open_port(context, "tcp://127.0.0.1:80000", 0)


@pytest.mark.parametrize("bind", ["5555", "http://127.0.0.1:5555", "tcp://127.0.0.1"])
def test_what_is_no_address_says_what_one_looks_like(context: zmq.Context[zmq.Socket[bytes]], bind: str) -> None:
    with pytest.raises(UsageError, match=r"looks like tcp://127\.0\.0\.1:5555"):
        open_port(context, bind, 0)
