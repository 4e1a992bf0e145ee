"""REQ mode (rule 3): exactly one answer to each request, nothing pushed, parts joined."""

from __future__ import annotations

from scale0.core.settings import Limits
from scale0.protocol.dialects import REQ_CLIENT, REQ_WORKER
from scale0.protocol.messages import Connect, Flag, ForceNegotiate, Ping, Pong, Ready, ServiceOffer, Task
from tests.core.desk import NONCE, Desk, Worker, bodies, codes, only_task, tasks_to


def req_worker(desk: Desk, name: str = "rw") -> Worker:
    return desk.worker(name, "greet", dialect=REQ_WORKER)


def test_req_clients_task_is_answered_by_its_reply(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("rc", dialect=REQ_CLIENT)
    task = only_task(client.submit("greet"), "w")
    assert bodies(worker.reply(task)) == [("rc", b"done")]


def test_parts_are_joined_for_a_req_client(desk: Desk) -> None:
    worker = desk.worker("w", "count")
    client = desk.client("rc", dialect=REQ_CLIENT)
    task = only_task(client.submit("count"), "w")
    assert worker.reply(task, b"1", part=0, final=False) == []
    assert worker.reply(task, b"2", part=1, final=False) == []
    assert bodies(worker.reply(task, b"3", part=2)) == [("rc", b"123")]


def test_joined_parts_are_limited() -> None:
    desk = Desk(limits=Limits(joined_bytes=10))
    worker = desk.worker("w", "count")
    client = desk.client("rc", dialect=REQ_CLIENT)
    task = only_task(client.submit("count"), "w")
    assert worker.reply(task, b"123456", part=0, final=False) == []
    assert codes(worker.reply(task, b"123456", part=1, final=False)) == [("rc", 413)]


def test_error_answers_a_req_client(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("rc", dialect=REQ_CLIENT)
    client.submit("greet", timeout_s=1)
    assert codes(desk.pass_time(1.1)) == [("rc", 504)]


def test_late_outcome_never_answers_another_request(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    client = desk.client("rc", dialect=REQ_CLIENT)
    first = only_task(client.submit("greet", b"1"), "w")
    client.connect(route="rc2")  # it gave up waiting and opened a new socket
    second = only_task(client.submit("greet", b"2"), "w")
    assert bodies(worker.reply(first, b"one")) == []
    assert bodies(worker.reply(second, b"two")) == [("rc2", b"two")]
    asked_again = Task(first.id, "greet", (b"1",), 1000, flags=Flag.RESENT)
    assert bodies(client.say(asked_again)) == [("rc2", b"one")]


def test_stranger_on_a_req_socket_gets_each_answer(desk: Desk) -> None:
    for _ in range(3):
        (_, message), *_ = desk.say("x", REQ_CLIENT, Ping(0))
        assert isinstance(message, ForceNegotiate)


def test_req_clients_ping_is_answered_by_pong(desk: Desk) -> None:
    client = desk.client("rc", dialect=REQ_CLIENT)
    assert [type(message) for _, message in client.ping()] == [Pong]


def test_req_worker_gets_a_task_as_the_answer_to_ready(desk: Desk) -> None:
    client = desk.client("ada")
    worker = req_worker(desk)
    assert desk.sent == [], "READY waits for a task"
    task = only_task(client.submit("greet"), "rw")
    assert worker.state == "full"
    sent = worker.reply(task)
    assert bodies(sent) == [("ada", b"done")]
    assert [name for name, _ in sent] == ["ada"], "its own answer waits"
    assert tasks_to(client.submit("greet")) == ["rw"]


def test_waiting_req_worker_gets_pong_within_an_interval_and_then_nothing_until_it_asks(desk: Desk) -> None:
    worker = req_worker(desk)
    sent = desk.pass_time(2.4, steps=4)
    assert [(name, type(message)) for name, message in sent] == [("rw", Pong)]
    client = desk.client("ada")
    assert client.submit("greet") == [], "its turn is over"
    assert tasks_to(worker.ping()) == ["rw"]


def test_req_worker_has_one_slot_whatever_it_says(desk: Desk) -> None:
    worker = req_worker(desk)
    worker.ready(capacity=10)
    client = desk.client("ada")
    assert tasks_to(client.submit("greet")) == ["rw"]
    assert tasks_to(client.submit("greet")) == []


def test_req_worker_that_works_is_not_expired_by_silence(desk: Desk) -> None:
    worker = req_worker(desk)
    only_task(desk.client("ada").submit("greet", timeout_s=100), "rw")
    desk.pass_time(60, steps=20)
    assert worker.state == "full"


def test_idle_req_worker_that_is_silent_is_gone(desk: Desk) -> None:
    worker = req_worker(desk)
    desk.pass_time(30, steps=20)
    assert worker.state == "gone"


def test_nothing_is_pushed_to_a_req_socket(desk: Desk) -> None:
    desk.say("rw", REQ_WORKER, Connect(identity="rw", nonce=NONCE))
    desk.say("rw", REQ_WORKER, Ready(services=[ServiceOffer("greet")]))
    task = only_task(desk.client("ada").submit("greet", timeout_s=1), "rw")
    sent = desk.pass_time(1.1)
    assert codes(sent) == [("ada", 504)]
    assert [name for name, _ in sent] == ["ada"], f"no CANCEL for {task.id!r}"


def test_busy_req_worker_gets_one_pong_an_interval_when_it_falls_idle(desk: Desk) -> None:
    worker = req_worker(desk)
    client = desk.client("ada")
    for _ in range(5):
        worker.reply(only_task(client.submit("greet"), "rw"))
    pongs = 0
    for _ in range(40):
        sent = desk.pass_time(0.25)
        if any(isinstance(message, Pong) for name, message in sent if name == "rw"):
            pongs += 1
            worker.ping()
        client.ping()
    assert pongs <= 6, "ten seconds at one PONG in 0.7 of 2.5 s"


def test_refused_ready_answers_a_req_worker_and_gives_it_no_task(desk: Desk) -> None:
    worker = req_worker(desk)
    assert codes(worker.ready(capacity=5000)) == [("rw", 400)]
    assert desk.client("ada").submit("greet") == []
