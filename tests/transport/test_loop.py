from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from scale0.core.effects import Alarm, Effect, Route, Send
from scale0.protocol import codec, dialects, limits
from scale0.protocol.bundles import bundle, is_bundle, unbundle
from scale0.protocol.ids import make_id
from scale0.protocol.messages import Ping, Task
from scale0.transport.clock import Clock
from scale0.transport.loop import BATCH_MAX, BUSY_S, CALLS_MAX, TURN_S_MAX, Loop
from scale0.transport.sockets import Port, make_context, open_port
from tests.transport.fakes import FakeCore

LIMIT_S = 60.0
PING = codec.encode(dialects.CLIENT, Ping(time_us=7))
TASK = codec.encode(dialects.CLIENT, Task(make_id(b"nonce-00client", 1), "echo", (b"body",), 1000))
HEADER = codec.encode(dialects.CLIENT, Task(make_id(b"nonce-00client", 1), "echo", (b"two", b"frames"), 1000))[0]
"""Of a TASK whose body stands in frames of its own, however many."""


class Bench:
    """A loop over a fake core, driven turn by turn, and sockets that talk to it."""

    def __init__(self, strict: bool = True, ports: int = 1, send_max: int = 1000) -> None:
        self.context = make_context()
        self.ports: list[Port] = [
            open_port(self.context, "tcp://127.0.0.1:0", index, send_max) for index in range(ports)
        ]
        self.core = FakeCore()
        self.now = 100.0
        self.told: list[Effect] = []
        self.bugs: list[str] = []
        self.loop = Loop(
            self.core,
            self.ports,
            on_effect=self.told.append,
            on_bug=self.bugs.append,
            clock=Clock(monotonic=lambda: self.now, wall=lambda: 1e9 + self.now),
            strict=strict,
        )
        self.loop.turn(0)  # the first tick is due at once
        self.core.ticks.clear()
        self.dealers: list[zmq.Socket[bytes]] = []

    def dealer(self, port: int = 0, unread_max: int = 1000) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        socket.linger = 0
        socket.sndhwm = 0
        socket.rcvhwm = unread_max
        socket.connect(self.ports[port].endpoint)
        self.dealers.append(socket)
        return socket

    def turn_until(self, is_done: Callable[[], object]) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < end_s, "it never happened"
            self.loop.turn(0.05)

    def hear(self, dealer: zmq.Socket[bytes]) -> list[bytes]:
        self.turn_until(lambda: dealer.poll(0))
        return dealer.recv_multipart()

    def close(self) -> None:
        for dealer in self.dealers:
            dealer.close()
        for port in self.ports:
            port.close(0)
        self.loop.close()
        self.context.term()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.fixture
def lenient() -> Iterator[Bench]:
    made = Bench(strict=False)
    yield made
    made.close()


def test_message_reaches_the_core_and_its_answer_the_sender(bench: Bench) -> None:
    dealer = bench.dealer()
    dealer.send_multipart(TASK)
    assert bench.hear(dealer) == TASK
    ((route, dialect, message),) = bench.core.received
    assert route[0] == 0
    assert dialect is dialects.CLIENT
    assert isinstance(message, Task)
    assert message.body == (b"body",)
    assert (bench.loop.counters.received, bench.loop.counters.sent) == (1, 1)


def test_messages_with_any_number_of_frames_never_run_into_one_another(bench: Bench) -> None:
    dealer = bench.dealer()
    bodies = [count % (limits.FRAMES_MAX + 4) for count in range(3 * BATCH_MAX)]
    for count in bodies:
        dealer.send_multipart([HEADER, *[b"x"] * count])
    bench.turn_until(lambda: len(bench.core.received) + len(bench.core.refused) == len(bodies))
    seen = [len(message.body) for _, _, message in bench.core.received if isinstance(message, Task)]
    assert seen == [count for count in bodies if count < limits.FRAMES_MAX]
    assert {error.code for _, _, error in bench.core.refused} == {400}
    dealer.send_multipart(PING)
    bench.turn_until(lambda: isinstance(bench.core.received[-1][2], Ping))


def test_message_over_the_byte_limit_is_read_to_its_end_and_refused(bench: Bench) -> None:
    dealer = bench.dealer()
    dealer.send_multipart([HEADER, *[bytes(limits.FRAME_BYTES_MAX)] * 2, b"more", b"and more"])
    dealer.send_multipart(PING)
    assert bench.hear(dealer) == PING
    ((_, dialect, error),) = bench.core.refused
    assert (dialect, error.code) == (dialects.CLIENT, 413)


def test_what_a_batch_asks_for_is_sent_at_its_end_and_in_order(bench: Bench) -> None:
    dealer = bench.dealer()
    batches: list[list[int]] = []  # of each turn: how many messages had been sent when each one came

    def answer(route: Route, dialect: object, message: object) -> list[Effect]:
        batches[-1].append(bench.loop.counters.sent)
        return [Send(route, dialects.CLIENT, Ping(time_us=sum(map(len, batches))))]

    def had_several_in_one_turn() -> bool:
        batches.append([])
        for _ in range(10):
            dealer.send_multipart(PING)
        return any(len(batch) > 1 for batch in batches)

    bench.core.answer = answer
    bench.turn_until(had_several_in_one_turn)
    assert all(len(set(batch)) <= 1 for batch in batches), "nothing is sent before the batch ends"
    for number in range(1, sum(map(len, batches)) + 1):
        assert codec.decode(bench.hear(dealer))[1] == Ping(time_us=number)


def test_malformed_message_is_reported_with_its_dialect_where_one_is_known(bench: Bench) -> None:
    dealer = bench.dealer()
    dealer.send_multipart([b"SC0W01\x08", b"short"])
    dealer.send_multipart([b"GET / HTTP/1.1"])
    dealer.send_multipart([b""])
    bench.turn_until(lambda: len(bench.core.refused) == 3)
    assert [dialect for _, dialect, _ in bench.core.refused] == [dialects.WORKER, None, None]
    assert bench.loop.counters.malformed == 3


def test_messages_of_a_bundle_come_as_if_each_had_come_alone(bench: Bench) -> None:
    dealer = bench.dealer()
    pings = [Ping(time_us=number) for number in range(5)]
    dealer.send(bundle([codec.encode(dialects.CLIENT, ping)[0] for ping in pings]))
    bench.turn_until(lambda: len(bench.core.received) == 5)
    assert [message for _, _, message in bench.core.received] == pings
    assert [codec.decode(bench.hear(dealer))[1] for _ in pings] == pings, "it did not ask for bundles"
    assert (bench.loop.counters.received, bench.loop.counters.sent) == (5, 5)


def test_who_takes_bundles_is_answered_by_one(bench: Bench) -> None:
    dealer = bench.dealer()
    dealer.send_multipart(PING)
    bench.hear(dealer)
    bench.core.takers.add(bench.core.received[0][0])
    dealer.send(bundle([PING[0], TASK[0]]))
    (frame,) = bench.hear(dealer)
    assert is_bundle(frame)
    assert unbundle(frame) == [PING[0], TASK[0]]


def test_what_is_malformed_in_a_bundle_is_refused_and_the_rest_is_heard(bench: Bench) -> None:
    dealer = bench.dealer()
    dealer.send(bundle([PING[0], b"SC0C01\x08short", b"garbage", bundle([PING[0]]), PING[0]]))
    bench.turn_until(lambda: len(bench.core.received) == 2)
    assert [(dialect, error.code) for _, dialect, error in bench.core.refused] == [
        (dialects.CLIENT, 400),
        (None, 400),
        (dialects.CLIENT, 501),
    ]


def test_bundle_that_is_none_is_refused_as_one_message(bench: Bench) -> None:
    dealer = bench.dealer()
    dealer.send(bundle([PING[0], PING[0]])[:-1])
    dealer.send_multipart([bundle([PING[0], PING[0]]), b"more"])
    dealer.send_multipart(PING)
    bench.hear(dealer)
    assert [error.code for _, _, error in bench.core.refused] == [400, 501]
    assert bench.loop.counters.received == 3


def test_messages_of_bundles_count_for_a_batch(bench: Bench) -> None:
    dealer = bench.dealer()
    bench.core.answer = lambda route, dialect, message: []
    whole = bundle(PING * limits.BUNDLE_MESSAGES_MAX)
    turns: list[int] = []

    def had_a_full_batch() -> bool:
        for _ in range(10):
            dealer.send(whole)
        before = len(bench.core.received)
        bench.loop.turn(0.05)
        turns.append(len(bench.core.received) - before)
        return turns[-1] >= BATCH_MAX

    bench.turn_until(had_a_full_batch)
    assert max(turns) < BATCH_MAX + limits.BUNDLE_MESSAGES_MAX, "the others and the timers had their turn"


def test_bundle_that_somebody_else_has_read_is_opened_too(bench: Bench) -> None:
    route = Route(b"\x00peer")
    effects = bench.loop.take(route, [bundle([PING[0], TASK[0]])])
    assert [type(message) for _, _, message in bench.core.received] == [Ping, Task]
    assert len(effects) == 2
    assert bench.loop.take(route, [bundle([PING[0], TASK[0]])[:-1]]) == []
    assert [error.code for _, _, error in bench.core.refused] == [400]


def test_unroutable_send_is_told_to_the_core_and_what_follows_is_sent(bench: Bench) -> None:
    dealer = bench.dealer()
    nowhere = Send(Route(b"\x00nobody"), dialects.CLIENT, Ping(time_us=1))

    def answer(route: Route, *said: object) -> list[Effect]:
        bench.core.after_failure = [Send(route, dialects.CLIENT, Ping(time_us=7))]
        return [nowhere]

    bench.core.answer = answer
    dealer.send_multipart(PING)
    assert bench.hear(dealer) == PING
    assert bench.core.failed == [(nowhere, "unroutable")]
    assert bench.loop.counters.unroutable == 1


def test_full_pipe_is_told_to_the_core_and_never_leaves_a_message_half_sent() -> None:
    bench = Bench(send_max=2)
    try:
        dealer = bench.dealer(unread_max=1)
        big = Task(make_id(b"nonce-00client", 1), "echo", (bytes(1_000_000), b"end"), 1000)
        bench.core.answer = lambda route, dialect, message: [Send(route, dialects.CLIENT, big)]
        while not bench.core.failed:
            dealer.send_multipart(PING)
            bench.loop.turn(0.05)
        assert bench.core.failed[0][1] == "full"
        bench.core.answer = lambda route, dialect, message: []
        for _ in range(bench.loop.counters.sent):
            frames = bench.hear(dealer)
            assert (len(frames), frames[-1]) == (3, b"end")
    finally:
        bench.close()


def test_two_ports_are_told_apart_by_the_routes_first_byte() -> None:
    bench = Bench(ports=2)
    try:
        for port in (0, 1):
            dealer = bench.dealer(port)
            dealer.send_multipart(PING)
            assert bench.hear(dealer) == PING
        assert [route[0] for route, _, _ in bench.core.received] == [0, 1]
    finally:
        bench.close()


def test_core_is_ticked_when_a_deadline_that_a_message_set_has_passed(bench: Bench) -> None:
    def answer(*said: object) -> list[Effect]:
        bench.core.deadline_s = bench.now + 0.5
        return []

    bench.core.answer = answer
    bench.dealer().send_multipart(PING)
    bench.turn_until(lambda: bench.core.received)
    bench.now += 0.49
    bench.loop.turn(0)
    assert bench.core.ticks == []
    bench.now += 0.01
    bench.loop.turn(0)
    assert bench.core.ticks == [(bench.now, 1e9 + bench.now)]


def test_deadline_that_a_message_set_is_seen_within_the_time_of_a_busy_loop(bench: Bench) -> None:
    def answer(*said: object) -> list[Effect]:
        bench.core.deadline_s = bench.now  # due at once
        return []

    bench.core.answer = answer
    bench.dealer().send_multipart(PING)
    bench.turn_until(lambda: bench.core.received)
    bench.now += BUSY_S
    bench.loop.turn(0)
    assert len(bench.core.ticks) == 1


def test_deadline_that_a_call_set_is_seen_in_the_next_turn(bench: Bench) -> None:
    def act() -> list[Effect]:
        bench.core.deadline_s = bench.now
        return []

    bench.loop.call(act)
    bench.turn_until(lambda: bench.core.deadline_s == bench.now)
    assert bench.core.ticks == []
    bench.loop.turn(0)
    assert len(bench.core.ticks) == 1


def test_deadline_that_nothing_the_loop_knows_of_set_is_seen_when_it_looks_again(bench: Bench) -> None:
    bench.core.deadline_s = bench.now
    bench.loop.turn(0)
    assert bench.core.ticks == []
    bench.now += TURN_S_MAX
    bench.loop.turn(0)
    assert len(bench.core.ticks) == 1


def test_core_is_asked_for_its_deadline_from_time_to_time_while_messages_come(bench: Bench) -> None:
    dealer = bench.dealer()
    bench.core.asked = 0
    for turns in range(3):
        for _ in range(20):
            dealer.send_multipart(PING)
            assert bench.hear(dealer) == PING
        assert bench.core.asked == turns, "never while the clock stands still"
        bench.now += BUSY_S
        bench.loop.turn(0)
        assert bench.core.asked == turns + 1


def test_core_is_ticked_each_second_even_without_a_deadline(bench: Bench) -> None:
    for _ in range(3):
        bench.now += 1.0
        bench.loop.turn(0)
    assert len(bench.core.ticks) == 3


def test_effects_that_are_no_sends_go_to_the_shell(bench: Bench) -> None:
    bench.core.at_tick = [Alarm("clock", "it jumped")]
    bench.now += 1.0
    bench.loop.turn(0)
    assert bench.told == [Alarm("clock", "it jumped")]


def test_call_from_another_thread_ends_the_wait_and_its_effects_are_carried_out(bench: Bench) -> None:
    def act() -> list[Effect]:
        return [Alarm("asked", "from outside")]

    thread = threading.Thread(target=bench.loop.call, args=(act,))
    thread.start()
    bench.turn_until(lambda: bench.told)
    thread.join()
    assert bench.told == [Alarm("asked", "from outside")]


def test_watched_descriptor_that_turns_readable_is_heeded_and_its_effects_are_carried_out(bench: Bench) -> None:
    reader, writer = socket.socketpair()

    def act() -> list[Effect]:
        return [Alarm("came", reader.recv(100).decode())]

    bench.loop.watch(reader.fileno(), act)
    bench.loop.turn(0)
    assert bench.told == []
    for text in ("once", "again"):
        writer.send(text.encode())
        bench.turn_until(lambda: bench.told)
        assert bench.told == [Alarm("came", text)]
        bench.told.clear()
    reader.close()
    writer.close()


def test_port_that_is_added_later_is_served_like_the_others(bench: Bench) -> None:
    nowhere = Send(Route(b"\x07nobody"), dialects.CLIENT, Ping(time_us=1))
    bench.core.at_tick = [nowhere]
    bench.now += 1.0
    bench.loop.turn(0)
    assert bench.core.failed == [(nowhere, "unroutable")], "its socket is not open yet"
    bench.ports.append(open_port(bench.context, "tcp://127.0.0.1:0", 7))
    bench.loop.add_port(bench.ports[-1])
    dealer = bench.dealer(port=1)
    dealer.send_multipart(PING)
    assert bench.hear(dealer) == PING
    assert bench.core.received[-1][0][0] == 7


def test_calls_that_wait_are_limited(bench: Bench) -> None:
    for _ in range(CALLS_MAX):
        bench.loop.call(list)
    with pytest.raises(RuntimeError, match="already wait"):
        bench.loop.call(list)


def test_unexpected_exception_is_counted_and_the_loop_goes_on(lenient: Bench) -> None:
    dealer = lenient.dealer()

    def answer(route: Route, dialect: object, message: object) -> list[Effect]:
        if isinstance(message, Task):
            raise ZeroDivisionError
        return [Send(route, dialects.CLIENT, Ping(time_us=7))]

    lenient.core.answer = answer
    dealer.send_multipart(TASK)
    dealer.send_multipart(PING)
    assert lenient.hear(dealer) == PING
    assert lenient.loop.counters.bugs == 1
    assert "a message" in lenient.bugs[0]


def test_message_that_cannot_be_encoded_does_not_keep_the_others_from_going(lenient: Bench) -> None:
    dealer = lenient.dealer()
    too_much = Ping(time_us=1 << 70)
    lenient.core.answer = lambda route, *said: [
        Send(route, dialects.CLIENT, too_much),
        Send(route, dialects.CLIENT, Ping(time_us=7)),
    ]
    dealer.send_multipart(PING)
    assert lenient.hear(dealer) == PING
    assert lenient.loop.counters.bugs == 1


def test_strict_loop_ends_at_an_unexpected_exception(bench: Bench) -> None:
    bench.core.answer = lambda route, dialect, message: [Alarm("never", str(1 // 0))]
    bench.dealer().send_multipart(PING)
    with pytest.raises(ZeroDivisionError):
        bench.turn_until(lambda: False)


def test_stop_from_another_thread_ends_run(bench: Bench) -> None:
    bench.now += 10.0
    thread = threading.Thread(target=bench.loop.run)
    thread.start()
    bench.loop.stop()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_idle_loop_sleeps_instead_of_spinning() -> None:
    bench = Bench()
    try:
        bench.loop = Loop(FakeCore(), bench.ports, on_effect=bench.told.append)
        bench.loop.turn(0)
        before_s = time.thread_time()
        bench.loop.turn(0.3)
        assert time.thread_time() - before_s < 0.1, "of the processor's time, which a busy machine does not stretch"
    finally:
        bench.close()


def test_rows_are_looked_at_when_the_loop_looks_and_when_they_asked_for_it(bench: Bench) -> None:
    looks: list[float] = []

    def record(now: float) -> float:
        looks.append(now)
        return now + 0.05

    bench.loop.record = record
    bench.now += TURN_S_MAX
    bench.loop.turn(0)
    bench.loop.turn(0)
    assert looks == [bench.now], "not in every turn"
    bench.now += 0.05
    bench.loop.turn(0)
    assert len(looks) == 2
    bench.dealer().send_multipart(PING)
    bench.turn_until(lambda: bench.core.received)
    bench.now += BUSY_S
    bench.loop.turn(0)
    assert len(looks) == 3, "soon after a message"


def test_rows_that_cannot_be_recorded_do_not_keep_the_loop_from_serving(lenient: Bench) -> None:
    def record(now: float) -> float:
        raise OSError("no pipe")

    lenient.loop.record = record
    lenient.now += TURN_S_MAX
    dealer = lenient.dealer()
    dealer.send_multipart(TASK)
    assert lenient.hear(dealer) == TASK
    assert any("rows to be recorded" in bug for bug in lenient.bugs)
