"""A task's way through the broker (rules 5–7, 9–14)."""

from __future__ import annotations

import pytest

from scale0.core.effects import Send
from scale0.core.settings import ServiceSettings
from scale0.protocol.messages import Cancel, Disconnect, Error, Flag, ReadyOk, ServiceOffer, Status, TaskReply
from tests.core.desk import Desk, bodies, codes, only_task, tasks_to


def test_task_goes_to_a_worker_and_its_reply_to_the_asker(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client, other = desk.client("ada"), desk.client("bob")
    task = only_task(client.submit("greet", b"hello"), "w")
    assert (task.body, task.attempt) == ((b"hello",), 1)
    assert task.config_version == desk.broker.state.config.packed_version
    assert bodies(worker.reply(task)) == [("ada", b"done")]
    assert desk.broker.census().replied == 1
    assert other.submit("greet") != []


def test_least_recently_used_worker_comes_first(desk: Desk) -> None:
    for name in ("w1", "w2", "w3"):
        desk.worker(name, "greet", capacity=10)
    client = desk.client("ada")
    order = [tasks_to(client.submit("greet"))[0] for _ in range(7)]
    assert order == ["w1", "w2", "w3", "w1", "w2", "w3", "w1"]


def test_worker_of_two_services_moves_back_in_both(desk: Desk) -> None:
    desk.worker("both", "greet", "count", capacity=10)
    desk.worker("one", "count", capacity=10)
    client = desk.client("ada")
    assert tasks_to(client.submit("greet")) == ["both"]
    assert tasks_to(client.submit("count")) == ["one"]


def test_full_worker_gets_nothing_until_it_replies(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=1)
    client = desk.client("ada")
    first = only_task(client.submit("greet"), "w")
    assert worker.state == "full"
    assert client.submit("greet", b"second") == []
    sent = worker.reply(first)
    assert only_task(sent, "w").body == (b"second",)


def test_ping_never_puts_a_full_worker_back(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    client.submit("greet")
    worker.ping()
    assert tasks_to(client.submit("greet")) == []


def test_late_reply_is_discarded_and_frees_its_slot(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet", timeout_s=1), "w")
    sent = desk.pass_time(1.1)
    assert codes(sent) == [("ada", 504)]
    assert [message for name, message in sent if name == "w"] == [Cancel(id=task.id)]
    assert worker.state == "full", "a deadline never frees a slot"
    assert bodies(worker.reply(task)) == []
    assert desk.counters["late_replies"] == 1
    assert worker.state == "ready"


def test_stuck_slot_is_counted_until_the_worker_replies(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    client = desk.client("ada")
    task = only_task(client.submit("greet", timeout_s=1), "w")
    desk.pass_time(1.1)
    rows = desk.manage("list", what="workers")["rows"]
    assert (rows[0]["stuck"], rows[0]["busy"]) == (1, 1)
    worker.reply(task)
    assert desk.manage("list", what="workers")["rows"][0]["stuck"] == 0


def test_reply_of_another_worker_is_discarded(desk: Desk) -> None:
    desk.worker("w1", "greet")
    thief = desk.worker("w2", "greet")
    task = only_task(desk.client("ada").submit("greet"), "w1")
    assert thief.reply(task) == []
    assert desk.counters["late_replies"] == 1


def test_reply_with_another_attempt_is_discarded(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    task = only_task(desk.client("ada").submit("greet"), "w")
    assert worker.say(TaskReply(task.id, (b"x",), task.attempt + 1)) == []


def test_second_reply_is_discarded(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    task = only_task(desk.client("ada").submit("greet"), "w")
    worker.reply(task)
    assert worker.reply(task) == []
    assert desk.broker.census().replied == 1


def test_lost_worker_of_an_idempotent_service_has_its_task_repeated(desk: Desk) -> None:
    first = desk.worker("w1", "greet", idempotent=True)
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w1")
    second = desk.worker("w2", "greet", idempotent=True)
    again = only_task(first.say(Disconnect()), "w2")
    assert (again.id, again.attempt) == (task.id, 2)
    assert bodies(second.reply(again)) == [("ada", b"done")]


def test_lost_worker_of_another_service_means_outcome_unknown(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    only_task(desk.client("ada").submit("greet"), "w")
    assert codes(worker.say(Disconnect())) == [("ada", 502)]


def test_attempts_are_limited_and_the_last_failure_is_a_dead_letter(desk: Desk) -> None:
    client = desk.client("ada")
    workers = [desk.worker(f"w{n}", "greet", idempotent=True, max_attempts=2) for n in range(3)]
    only_task(client.submit("greet"), "w0")
    only_task(workers[0].say(Disconnect()), "w1")
    assert codes(workers[1].say(Disconnect())) == [("ada", 502)]
    letters = desk.manage("list", what="dead_letters")["rows"]
    assert [(letter["service"], letter["attempts"], letter["code"]) for letter in letters] == [("greet", 2, 502)]


def test_returned_task_goes_to_the_front_and_counts_no_attempt(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=1)
    client = desk.client("ada")
    first = only_task(client.submit("greet", b"first"), "w")
    client.submit("greet", b"second")
    assert worker.give_back(first) == [], "who returns a task has no room until it is heard again"
    again = only_task(worker.ping(), "w")
    assert (again.body, again.attempt) == ((b"first",), 1)


def test_returned_task_goes_to_another_worker_at_once(desk: Desk) -> None:
    worker = desk.worker("w1", "greet")
    task = only_task(desk.client("ada").submit("greet"), "w1")
    desk.worker("w2", "greet")
    assert only_task(worker.give_back(task), "w2").attempt == 1


def test_unroutable_task_goes_back_and_the_worker_gets_no_other(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=5)
    client = desk.client("ada")
    client.submit("greet")
    desk.fail(desk.sends[0], "unroutable")
    assert client.submit("greet") == []
    assert desk.broker.census().queued == 2
    assert len(tasks_to(worker.ping())) == 2, "it spoke, so it can be reached"


def test_task_for_a_full_pipe_waits_until_the_worker_is_heard(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=5)
    client = desk.client("ada")
    client.submit("greet")
    desk.fail(desk.sends[0], "full")
    assert client.submit("greet") == []
    assert len(tasks_to(worker.ping())) == 2


def test_reply_that_cannot_be_sent_waits_for_its_client(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    worker.reply(only_task(client.submit("greet"), "w"))
    desk.fail(desk.sends[0], "unroutable")
    assert bodies(client.connect(route="ada-again")) == [("ada-again", b"done")]


def test_leaving_worker_gets_nothing_after_readyok_and_loses_nothing(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=3)
    client = desk.client("ada")
    held = [only_task(client.submit("greet"), "w") for _ in range(2)]
    sent = worker.ready(capacity=0)
    assert isinstance(sent[0][1], ReadyOk)
    assert worker.state == "draining"
    assert client.submit("greet", b"later") == []
    assert bodies(worker.reply(held[0])) == [("ada", b"done")]
    worker.give_back(held[1])
    assert worker.say(Disconnect()) == []
    census = desk.broker.census()
    assert (census.queued, census.errored) == (2, 0)


def test_lower_capacity_recalls_nothing(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=3)
    client = desk.client("ada")
    tasks = [only_task(client.submit("greet"), "w") for _ in range(3)]
    worker.ready(capacity=1)
    assert worker.state == "full"
    client.submit("greet", b"later")
    assert tasks_to(worker.reply(tasks[0])) == []
    assert tasks_to(worker.reply(tasks[1])) == []
    assert tasks_to(worker.reply(tasks[2])) == ["w"]


def test_cancel_in_the_queue_is_answered_at_once(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    first = only_task(client.submit("greet"), "w")
    client.submit("greet")
    assert codes(client.cancel(2)) == [("ada", 499)]
    assert tasks_to(worker.reply(first)) == []


def test_cancel_in_flight_is_forwarded_and_the_first_final_settles_it(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w")
    assert client.cancel(1) == [("w", Cancel(id=task.id))]
    assert bodies(worker.reply(task)) == [("ada", b"done")]


@pytest.mark.parametrize("status", [Status.FAILED, Status.RETURNED])
def test_confirmed_cancel_is_499_and_frees_the_slot(desk: Desk, status: Status) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w")
    client.cancel(1)
    assert codes(worker.reply(task, status=status)) == [("ada", 499)]
    worker.ping()
    assert worker.state == "ready"


def test_failed_reply_reaches_the_client_and_is_not_repeated(desk: Desk) -> None:
    worker = desk.worker("w", "greet", idempotent=True)
    task = only_task(desk.client("ada").submit("greet"), "w")
    sent = worker.reply(task, b"oops", status=Status.FAILED)
    assert bodies(sent) == [("ada", b"oops")]
    assert tasks_to(sent) == []


def test_parts_pass_in_order_and_make_the_task_unrepeatable(desk: Desk) -> None:
    worker = desk.worker("w1", "count", idempotent=True)
    desk.worker("w2", "count", idempotent=True)
    task = only_task(desk.client("ada").submit("count"), "w1")
    assert bodies(worker.reply(task, b"0", part=0, final=False)) == [("ada", b"0")]
    assert worker.reply(task, b"0", part=0, final=False) == [], "none twice"
    assert worker.reply(task, b"2", part=2, final=False) == [], "none out of order"
    assert codes(worker.say(Disconnect())) == [("ada", 502)]


def test_deadline_travels_as_remaining_time(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    first = only_task(client.submit("greet", timeout_s=10), "w")
    client.submit("greet", timeout_s=10)
    desk.pass_time(4)
    assert first.remaining_ms == 10_000
    assert only_task(worker.reply(first), "w").remaining_ms == 6_000


def test_deadline_in_the_queue_is_408(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    client.submit("greet", timeout_s=60)
    client.submit("greet", timeout_s=1)
    assert codes(desk.pass_time(1.1)) == [("ada", 408)]


def test_task_without_a_deadline_gets_the_services(desk: Desk) -> None:
    desk = Desk(service={"greet": ServiceSettings(timeout_s=2.0)})
    desk.client("ada").submit("greet", timeout_s=0)
    assert codes(desk.pass_time(1.9)) == []
    assert codes(desk.pass_time(0.2)) == [("ada", 408)]


def test_freed_slot_takes_the_highest_priority_of_all_its_services(desk: Desk) -> None:
    worker = desk.worker("w", "greet", "count")
    client = desk.client("ada")
    first = only_task(client.submit("greet"), "w")
    client.submit("greet", b"normal")
    client.submit("count", b"urgent", priority=3)
    assert only_task(worker.reply(first), "w").body == (b"urgent",)


def test_freed_slot_takes_the_longest_waiting_head_of_equal_priority(desk: Desk) -> None:
    worker = desk.worker("w", "greet", "count")
    client = desk.client("ada")
    first = only_task(client.submit("greet"), "w")
    client.submit("count", b"older")
    desk.pass_time(0.5)
    client.submit("greet", b"younger")
    assert only_task(worker.reply(first), "w").body == (b"older",)


def test_lost_worker_without_another_leaves_its_task_in_the_queue(desk: Desk) -> None:
    worker = desk.worker("w", "greet", idempotent=True)
    desk.client("ada").submit("greet")
    worker.say(Disconnect())
    assert desk.broker.census().queued == 1
    desk.worker("w2", "greet", idempotent=True)
    assert only_task(desk.sent, "w2").attempt == 2


def test_change_of_services_at_run_time_moves_the_worker(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    client = desk.client("ada")
    worker.offers = [ServiceOffer("count")]
    worker.ready(capacity=2)
    assert tasks_to(client.submit("count")) == ["w"]
    assert tasks_to(client.submit("greet")) == []
    assert desk.broker.census().queued == 1, "greet is known, so its task waits"


def test_dispatch_is_even_among_workers_with_room() -> None:
    desk = Desk()
    for n in range(7):
        desk.worker(f"w{n}", "greet", "count", capacity=100)
    client = desk.client("ada")
    counts = dict.fromkeys((f"w{n}" for n in range(7)), 0)
    for n in range(100):
        counts[tasks_to(client.submit("greet" if n % 3 else "count"))[0]] += 1
        assert max(counts.values()) - min(counts.values()) <= 1


def test_effects_of_one_verb_come_in_order(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    first = only_task(client.submit("greet"), "w")
    client.submit("greet")
    worker.reply(first)
    assert [type(send) for send in desk.sends] == [Send, Send]
    assert [name for name, _ in desk.sent] == ["ada", "w"]


def test_lost_worker_tells_cause_in_the_error(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.client("ada").submit("greet")
    (_, error), *_ = worker.say(Disconnect(reason="maintenance"))
    assert isinstance(error, Error)
    assert "w is gone" in error.text
    assert "not declared idempotent" in error.text


def test_held_replies_go_out_some_at_a_time_and_in_order(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=3000)
    client = desk.client("ada")
    tasks = [only_task(client.submit("greet", timeout_s=100), "w") for _ in range(1500)]
    worker.reply(tasks[0], b"0")
    desk.fail(desk.sends[0], "full")
    for number, task in enumerate(tasks[1:], 1):
        worker.reply(task, b"%d" % number)
    first, second = bodies(client.ping()), bodies(client.ping())
    assert (len(first), len(second)) == (1000, 500)
    assert [int(body) for _, body in first + second] == list(range(1500))


def test_refusal_that_cannot_be_sent_is_dropped(desk: Desk) -> None:
    client = desk.client("ada")
    assert codes(client.submit("nothing")) == [("ada", 404)]
    desk.fail(desk.sends[0], "full")
    assert codes(client.ping()) == []


def test_worker_without_heartbeat_whose_connection_is_gone_does_not_stay_for_ever(desk: Desk) -> None:
    worker = desk.worker("w", "greet", heartbeat=False)
    desk.client("ada").submit("greet", timeout_s=100)
    desk.fail(desk.sends[0], "unroutable")
    desk.pass_time(20, steps=5)
    assert worker.state == "gone"


def test_deadline_in_the_queue_of_a_task_that_may_have_run_is_504(desk: Desk) -> None:
    worker = desk.worker("w", "greet", idempotent=True)
    client = desk.client("ada")
    client.submit("greet", timeout_s=2)
    worker.say(Disconnect())
    client.submit("greet", timeout_s=2, flags=Flag.RESENT)
    client.submit("greet", timeout_s=2)
    assert codes(desk.pass_time(2.1)) == [("ada", 504), ("ada", 504), ("ada", 408)]
