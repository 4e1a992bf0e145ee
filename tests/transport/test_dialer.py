from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from scale0.core.effects import DIALED, Dial, Effect, HangUp, Route, Send
from scale0.protocol import codec, dialects
from scale0.protocol.messages import Ping, Stream
from scale0.transport.clock import Clock
from scale0.transport.dialer import REMIND_S, Dialer
from scale0.transport.logs import make_log
from scale0.transport.loop import Loop
from scale0.transport.sockets import make_context
from tests.transport.fakes import FakeCore

LIMIT_S = 60.0
FIRST, SECOND = (Route(bytes((DIALED,)) + b"L" + bytes((number,))) for number in (1, 2))


def ping(number: int) -> Ping:
    return Ping(time_us=number)


class Listener:
    """What a link is dialed to: a ROUTER that can be killed, and come back on its port."""

    def __init__(self, bind: str = "tcp://127.0.0.1:0", keys: tuple[bytes, bytes] | None = None) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.linger = 0
        if keys is not None:
            self.socket.curve_publickey, self.socket.curve_secretkey = keys
            self.socket.curve_server = True
        self.socket.bind(bind)
        self.endpoint = self.socket.get_string(zmq.LAST_ENDPOINT)

    def kill(self) -> None:
        self.socket.close()
        self._context.term()


class Bench:
    """A dialer in a loop over a fake core, driven turn by turn."""

    def __init__(self) -> None:
        self.context = make_context()
        self.core = FakeCore()
        self.core.answer = lambda *said: []
        self.broken: list[Route] = []
        self.after_break: list[Effect] = []
        self.now = 100.0
        self.lines = io.StringIO()
        clock = Clock(monotonic=lambda: self.now, wall=lambda: 1e9)
        self.loop = Loop(self.core, [], on_effect=self.carry_out, clock=clock, strict=True)
        self.dialer = Dialer(
            self.context, self.loop, on_broken=self.note, log=make_log(to=self.lines, is_verbose=True), clock=clock
        )
        self.listeners: list[Listener] = []

    def carry_out(self, effect: Effect) -> None:
        self.dialer.dial(effect) if isinstance(effect, Dial) else self.dialer.hang_up(effect)  # type: ignore[arg-type]

    def note(self, route: Route, now: float) -> list[Effect]:
        assert now == self.now
        self.broken.append(route)
        effects, self.after_break = self.after_break, []
        return effects

    def listen(self, bind: str = "tcp://127.0.0.1:0", keys: tuple[bytes, bytes] | None = None) -> Listener:
        made = Listener(bind, keys)
        self.listeners.append(made)
        return made

    def do(self, *effects: Effect) -> None:
        self.loop.call(lambda: list(effects))
        self.loop.turn(0)

    def send(self, route: Route, number: int) -> Send:
        send = Send(route, dialects.PEER, ping(number))
        self.do(send)
        return send

    def turn_until(self, is_done: Callable[[], object]) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < end_s, "it never happened"
            self.loop.turn(0.02)

    def hear(self, listener: Listener) -> tuple[bytes, int]:
        """The routing id and the number of the next message there."""
        self.turn_until(lambda: listener.socket.poll(0))
        sender, *frames = listener.socket.recv_multipart()
        message = codec.decode(frames)[1]
        assert isinstance(message, Ping)
        return sender, message.time_us

    def close(self) -> None:
        for listener in self.listeners:
            listener.kill()
        self.dialer.close(0)
        self.loop.close()
        self.context.term()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_message_through_a_dialed_link_arrives_and_its_answer_has_the_links_route(bench: Bench) -> None:
    one, two = bench.listen(), bench.listen()
    bench.do(Dial(FIRST, one.endpoint), Send(FIRST, dialects.PEER, ping(1)))
    bench.do(Dial(SECOND, two.endpoint), Send(SECOND, dialects.PEER, ping(2)))
    for listener, number in ((one, 1), (two, 2)):
        sender, heard = bench.hear(listener)
        assert heard == number
        listener.socket.send_multipart([sender, *codec.encode(dialects.PEER, ping(number + 10))])
    bench.turn_until(lambda: len(bench.core.received) == 2)
    assert sorted(route for route, _, _ in bench.core.received) == [FIRST, SECOND]
    assert (FIRST, dialects.PEER, ping(11)) in bench.core.received
    assert (SECOND, dialects.PEER, ping(12)) in bench.core.received
    assert bench.loop.counters.sent == 2
    assert bench.broken == []


def test_link_works_again_when_its_listener_was_killed_and_is_back(bench: Bench) -> None:
    listener = bench.listen()
    bench.do(Dial(FIRST, listener.endpoint))
    bench.send(FIRST, 1)
    bench.hear(listener)
    bench.listeners.remove(listener)
    listener.kill()
    bench.turn_until(lambda: bench.broken)
    assert bench.broken == [FIRST]
    back = bench.listen(listener.endpoint)
    bench.send(FIRST, 2)
    sender, number = bench.hear(back)
    assert number == 2
    back.socket.send_multipart([sender, *codec.encode(dialects.PEER, ping(3))])
    bench.turn_until(lambda: bench.core.received)
    assert bench.core.received == [(FIRST, dialects.PEER, ping(3))]


def test_hung_up_link_is_dialed_again_at_once_under_a_new_route(bench: Bench) -> None:
    listener = bench.listen()
    bench.do(Dial(FIRST, listener.endpoint))
    bench.send(FIRST, 1)
    before, _ = bench.hear(listener)
    bench.do(HangUp(FIRST), Dial(SECOND, listener.endpoint), Send(SECOND, dialects.PEER, ping(2)))
    after, number = bench.hear(listener)
    assert number == 2
    assert after != before
    listener.socket.send_multipart([after, *codec.encode(dialects.PEER, ping(3))])
    bench.turn_until(lambda: bench.core.received)
    assert bench.core.received == [(SECOND, dialects.PEER, ping(3))]
    assert bench.broken == []


def test_address_that_answers_is_logged_once_however_often_it_is_dialed(bench: Bench) -> None:
    other = bench.listen()
    for number, route in enumerate((FIRST, SECOND, FIRST), start=1):
        bench.do(Dial(route, other.endpoint))
        bench.turn_until(lambda number=number: bench.lines.getvalue().count("HANDSHAKE_SUCCEEDED") == number)  # type: ignore[misc]
        bench.do(HangUp(route))
    assert bench.lines.getvalue().count("connected to a broker") == 1


def test_what_waits_in_a_link_that_is_hung_up_is_never_delivered(bench: Bench) -> None:
    listener = bench.listen()
    endpoint = listener.endpoint
    bench.listeners.remove(listener)
    listener.kill()
    bench.do(Dial(FIRST, endpoint))
    bench.send(FIRST, 1)
    bench.do(HangUp(FIRST), Dial(SECOND, endpoint), Send(SECOND, dialects.PEER, ping(2)))
    back = bench.listen(endpoint)
    assert bench.hear(back)[1] == 2
    bench.send(SECOND, 3)
    assert bench.hear(back)[1] == 3, "and nothing in between"


def test_send_to_a_route_that_was_hung_up_or_never_dialed_is_unroutable(bench: Bench) -> None:
    never = bench.send(FIRST, 1)
    bench.do(Dial(SECOND, bench.listen().endpoint))
    still_not = bench.send(FIRST, 2)
    bench.do(HangUp(SECOND))
    no_more = bench.send(SECOND, 3)
    assert bench.core.failed == [(never, "unroutable"), (still_not, "unroutable"), (no_more, "unroutable")]


def test_core_that_is_told_of_a_broken_link_may_hang_up_and_dial_anew(bench: Bench) -> None:
    listener = bench.listen()
    named = listener.endpoint.replace("127.0.0.1", "localhost")
    bench.do(Dial(FIRST, named))
    bench.send(FIRST, 1)
    bench.hear(listener)
    bench.after_break = [HangUp(FIRST), Dial(SECOND, named), Send(SECOND, dialects.PEER, ping(2))]
    bench.listeners.remove(listener)
    listener.kill()
    bench.turn_until(lambda: bench.broken)
    back = bench.listen(listener.endpoint)
    assert bench.hear(back)[1] == 2
    bench.listeners.remove(back)
    back.kill()
    bench.turn_until(lambda: len(bench.broken) == 2)
    assert bench.broken == [FIRST, SECOND]


def test_failed_handshake_is_a_broken_link_and_told_once(bench: Bench) -> None:
    encrypted = bench.listen(keys=zmq.curve_keypair())
    bench.do(Dial(FIRST, encrypted.endpoint))
    bench.turn_until(lambda: bench.broken)
    bench.do(HangUp(FIRST))
    assert set(bench.broken) == {FIRST}
    assert "no handshake" in bench.lines.getvalue()


def test_link_is_encrypted_if_the_others_key_is_given_and_the_next_one_is_not(bench: Bench) -> None:
    keys = zmq.curve_keypair()
    encrypted, plain = bench.listen(keys=keys), bench.listen()
    bench.do(Dial(FIRST, encrypted.endpoint, keys[0].decode()))
    bench.send(FIRST, 1)
    assert bench.hear(encrypted)[1] == 1
    bench.do(Dial(SECOND, plain.endpoint))
    bench.send(SECOND, 2)
    assert bench.hear(plain)[1] == 2
    assert bench.broken == []


@pytest.mark.parametrize(("endpoint", "key"), [("tcp://nowhere", ""), ("eu-1", ""), ("tcp://127.0.0.1:9", "short")])
def test_address_or_key_that_is_none_is_a_broken_link(bench: Bench, endpoint: str, key: str) -> None:
    bench.do(Dial(FIRST, endpoint, key))
    bench.turn_until(lambda: bench.broken)
    assert bench.broken == [FIRST]
    assert f"cannot connect to '{endpoint}'" in bench.lines.getvalue()
    bench.do(HangUp(FIRST))
    listener = bench.listen()
    bench.do(Dial(SECOND, listener.endpoint))
    bench.send(SECOND, 1)
    assert bench.hear(listener)[1] == 1


def test_address_where_nobody_answers_is_logged_once_in_a_while(bench: Bench) -> None:
    listener = bench.listen()
    endpoint = listener.endpoint
    bench.listeners.remove(listener)
    listener.kill()

    def lines(what: str) -> int:
        return bench.lines.getvalue().count(what)

    bench.do(Dial(FIRST, endpoint))
    bench.turn_until(lambda: lines("CONNECT_RETRIED") >= 2)
    bench.do(HangUp(FIRST), Dial(SECOND, endpoint))
    bench.turn_until(lambda: lines("CONNECT_RETRIED") >= 4)
    assert (lines("nobody answers"), bench.broken) == (1, [])
    bench.now += REMIND_S
    bench.turn_until(lambda: lines("nobody answers") == 2)


def test_closing_waits_for_last_messages_only_where_somebody_answers(bench: Bench) -> None:
    listener, gone = bench.listen(), bench.listen()
    bench.listeners.remove(gone)
    gone.kill()
    bench.do(Dial(FIRST, listener.endpoint), Dial(SECOND, gone.endpoint))
    bench.turn_until(lambda: "connected to a broker" in bench.lines.getvalue())
    bench.do(Send(FIRST, dialects.PEER, ping(1)), Send(SECOND, dialects.PEER, ping(2)))
    bench.dialer.close(-1)
    ending = threading.Thread(target=bench.context.term, daemon=True)  # it waits as long as something lingers
    ending.start()
    ending.join(LIMIT_S)
    assert not ending.is_alive()
    assert listener.socket.poll(0)


def test_address_is_never_dialed_twice_at_once(bench: Bench) -> None:
    endpoint = bench.listen().endpoint
    bench.do(Dial(FIRST, endpoint))
    for again in (Dial(SECOND, endpoint), Dial(FIRST, "tcp://127.0.0.1:9")):
        with pytest.raises(AssertionError):
            bench.do(again)


def test_link_is_hung_up_only_when_what_has_come_is_read_to_its_last_frame(bench: Bench) -> None:
    listener = bench.listen()
    bench.do(Dial(FIRST, listener.endpoint))
    bench.send(FIRST, 1)
    sender, _ = bench.hear(listener)
    frames = codec.encode(dialects.PEER, Stream(7, (b"one", b"two", b"three")))
    listener.socket.send_multipart([sender, *frames])
    port = bench.dialer._port
    assert port is not None
    assert port.socket.poll(int(LIMIT_S * 1000))  # ZeroMQ has read the first frame by now
    bench.dialer.hang_up(HangUp(FIRST))
    bench.turn_until(lambda: bench.core.received)
    assert bench.core.received == [(FIRST, dialects.PEER, Stream(7, (b"one", b"two", b"three")))]
