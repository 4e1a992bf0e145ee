"""Public keys as text."""

from __future__ import annotations

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st
from zmq.utils import z85

from scale0.protocol.public_keys import is_key, short_key


@given(st.binary(min_size=32, max_size=32))
def test_thirty_two_bytes_in_z85_are_a_key(data: bytes) -> None:
    assert is_key(z85.encode(data).decode())


def test_keys_that_zeromq_makes_are_keys() -> None:
    public, secret = zmq.curve_keypair()
    assert is_key(public.decode())
    assert is_key(secret.decode())


@pytest.mark.parametrize("text", ["", "k", "0" * 39, "0" * 41, "#####" * 8, "é" * 40, "0" * 39 + " ", "0" * 39 + "\n"])
def test_other_texts_are_none(text: str) -> None:
    assert not is_key(text)


@given(st.text(alphabet="0123456789abcXYZ.-:+=^!/*?&<>()[]{}@%$#", min_size=40, max_size=40))
def test_what_is_a_key_here_is_one_for_zeromq(text: str) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        socket = context.socket(zmq.DEALER)
        try:
            socket.set(zmq.CURVE_SERVERKEY, text.encode())
            is_taken = True
        except zmq.ZMQError:
            is_taken = False
        assert not is_key(text) or is_taken
    finally:
        context.destroy(linger=0)


def test_a_key_is_told_from_others_at_a_glance() -> None:
    assert short_key("0123456789") == "01234567…"
