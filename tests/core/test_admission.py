"""TASK and CANCEL from clients: refusals, repeated ids, outcomes (rules 4, 8, 16, 33)."""

from __future__ import annotations

import math

import pytest

from scale0.core.settings import Limits, ServiceSettings
from scale0.protocol.messages import Error, Flag, Task
from tests.core.desk import Desk, bodies, codes, only_task, tasks_to


def test_unknown_service_is_404_at_once_with_near_names(desk: Desk) -> None:
    desk.worker("w", "resize")
    (_, error), *_ = desk.client("ada").submit("resise")
    assert isinstance(error, Error)
    assert error.code == 404
    assert error.detail == {"near": ["resize"]}
    assert "did you mean resize" in error.text
    assert desk.broker.census().accepted == 0


def test_unknown_service_waits_soon_after_the_brokers_start() -> None:
    desk = Desk(is_settled=False)
    client = desk.client("ada")
    assert client.submit("greet") == []
    desk.worker("w", "greet")
    assert tasks_to(desk.sent) == ["w"]


def test_unknown_service_that_nobody_announced_until_the_broker_settled_is_404() -> None:
    desk = Desk(is_settled=False)
    client = desk.client("ada")
    client.submit("nothing", timeout_s=60)
    assert desk.broker.next_deadline() <= desk.now + 7.5
    assert codes(desk.pass_time(7.4)) == []
    client.ping()
    assert codes(desk.pass_time(0.2)) == [("ada", 404)]
    assert "nothing" not in desk.broker.state.services.by_name


def test_service_of_the_config_is_known_without_workers() -> None:
    desk = Desk(service={"greet": ServiceSettings()})
    desk.client("ada").submit("greet", timeout_s=1)
    assert codes(desk.pass_time(1.1)) == [("ada", 408)]


def test_service_whose_workers_left_is_known(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.pass_time(10, steps=200)
    assert worker.state == "gone"
    assert codes(desk.client("ada").submit("greet")) == []


def test_service_that_is_not_managed_is_404() -> None:
    desk = Desk(services=["greet"])
    assert codes(desk.client("ada").submit("count")) == [("ada", 404)]


def test_repeated_id_of_an_open_task_changes_nothing(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=5)
    client = desk.client("ada")
    task = client.task("greet")
    assert tasks_to(client.say(task)) == ["w"]
    assert client.say(task) == []
    assert desk.broker.census().accepted == 1


def test_repeated_id_of_a_settled_task_gets_its_outcome_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = client.task("greet")
    worker.reply(only_task(client.say(task), "w"))
    task.flags = Flag.RESENT
    assert bodies(client.say(task)) == [("ada", b"done")]
    assert desk.broker.census().accepted == 1


def test_settled_error_answers_resends_too(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    task = client.task("greet", timeout_s=1)
    client.say(task)
    desk.pass_time(1.1)
    assert codes(client.say(task)) == [("ada", 504)]


def test_resent_task_that_is_not_held_runs_only_if_idempotent(desk: Desk) -> None:
    desk.worker("w1", "read", idempotent=True)
    desk.worker("w2", "write")
    client = desk.client("ada")
    assert codes(client.submit("write", flags=Flag.RESENT)) == [("ada", 502)]
    assert tasks_to(client.submit("read", flags=Flag.RESENT)) == ["w1"]
    assert codes(client.submit("read", flags=Flag.RESENT | Flag.PARTLY_ANSWERED)) == [("ada", 502)]


def test_acknowledged_outcomes_are_forgotten_by_ping_and_by_task(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    for _ in range(4):
        worker.reply(only_task(client.submit("greet", behind=0), "w"))
    outcomes = desk.broker.state.outcomes
    assert outcomes.count == 4
    client.ping(oldest_unanswered=3)
    assert outcomes.count == 2
    for _ in range(100):
        worker.reply(only_task(client.submit("greet", behind=1), "w"))
    assert outcomes.count <= 66, "a TASK's word is acted upon some at a time"


def test_task_below_what_was_acknowledged_is_dropped(desk: Desk) -> None:
    worker = desk.worker("w", "greet", idempotent=True)
    client = desk.client("ada")
    tasks = [client.task("greet") for _ in range(9)]
    for task in tasks:
        worker.reply(only_task(client.say(task), "w"))
    client.ping(oldest_unanswered=6)
    for late in tasks[:5]:
        late.flags = Flag.RESENT
        assert client.say(late) == []
    assert desk.counters["tasks_after_acknowledgement"] == 5
    assert bodies(client.say(tasks[5])) == [("ada", b"done")], "the sixth was not acknowledged"
    assert desk.broker.census().accepted == 9


def test_far_leap_of_the_oldest_unanswered_costs_little(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    worker.reply(only_task(client.submit("greet"), "w"))
    client.ping(oldest_unanswered=2**63)
    assert desk.broker.state.outcomes.count == 0


def test_forgotten_outcome_of_a_full_table_is_unknown(desk: Desk) -> None:
    desk = Desk(limits=Limits(outcomes=2))
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    tasks = [client.task("greet") for _ in range(3)]
    for task in tasks:
        worker.reply(only_task(client.say(task), "w"))
    assert desk.broker.state.outcomes.count == 2
    tasks[0].flags = Flag.RESENT
    assert codes(client.say(tasks[0])) == [("ada", 502)]
    assert bodies(client.say(tasks[2])) == [("ada", b"done")]


def test_id_of_another_session_is_refused_and_held_against_the_connection(desk: Desk) -> None:
    desk.worker("w", "greet")
    ada, eve = desk.client("ada"), desk.client("eve")
    stolen = Task(ada.id(1), "greet", (b"x",), 1000)
    assert codes(eve.say(stolen)) == [("eve", 400)]
    assert len(desk.broker.state.error_clients.records) == 1
    assert eve.cancel(1) != []
    assert codes(eve.say(Task(ada.id(2), "greet", (b"x",), 1000))) == [("eve", 400)]


def test_cancel_of_another_clients_task_does_nothing(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    ada, eve = desk.client("ada"), desk.client("eve")
    task = only_task(ada.submit("greet"), "w")
    eve.identity = "ada"  # eve claims ada's id on her own connection
    assert codes(eve.cancel(1)) == [("eve", 400)]
    assert bodies(worker.reply(task)) == [("ada", b"done")]


def test_cancel_of_an_unknown_task_is_502_and_of_a_settled_one_its_outcome(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    assert codes(client.cancel(9)) == [("ada", 502)]
    worker.reply(only_task(client.submit("greet"), "w"))
    assert bodies(client.cancel(1)) == [("ada", b"done")]


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(queued_per_service=2), "wait for greet"),
        (Limits(queued_bytes_per_service=9), "wait for greet"),
        (Limits(accepted=2), "holds 2 tasks"),
        (Limits(accepted_bytes=9), "holds 2 tasks"),
        (Limits(accepted_per_client=2), "open tasks"),
    ],
)
def test_full_table_is_429_and_says_which(limits: Limits, text: str) -> None:
    desk = Desk(limits=limits, service={"greet": ServiceSettings()})
    client = desk.client("ada")
    assert client.submit("greet", b"1234") == []
    assert client.submit("greet", b"1234") == []
    (_, error), *_ = client.submit("greet", b"1234")
    assert isinstance(error, Error)
    assert error.code == 429
    assert text in error.text


def test_services_are_limited_and_idle_ones_make_room() -> None:
    desk = Desk(limits=Limits(services=2))
    worker = desk.worker("w", "a", "b", "c")
    assert worker.state == "ready"
    assert sorted(desk.broker.state.services.by_name) == ["a", "b"]
    worker.offers = worker.offers[2:]
    worker.ready()
    worker.ready()
    assert "c" in desk.broker.state.services.by_name


def test_unannounced_service_is_forgotten_when_nobody_waits_for_it() -> None:
    desk = Desk(is_settled=False)
    desk.client("ada").submit("nothing", timeout_s=1)
    assert "nothing" in desk.broker.state.services.by_name
    desk.pass_time(1.1)
    assert "nothing" not in desk.broker.state.services.by_name


def test_config_wins_over_ready_and_workers_that_disagree_make_it_not_idempotent() -> None:
    desk = Desk(service={"told": ServiceSettings(idempotent=True, max_attempts=5)})
    desk.worker("w1", "told", "free", idempotent=True, max_attempts=4)
    desk.worker("w2", "told", "free", idempotent=False)
    services = desk.broker.state.services.by_name
    assert (services["told"].idempotent, services["told"].max_attempts) == (True, 5)
    assert (services["free"].idempotent, services["free"].max_attempts) == (False, 1)


def test_resent_task_waits_after_the_start_for_its_workers_word() -> None:
    desk = Desk(is_settled=False)
    client = desk.client("ada")
    assert client.submit("read", flags=Flag.RESENT) == []
    assert client.submit("write", flags=Flag.RESENT) == []
    assert client.submit("write") == []
    assert codes(client.submit("read", flags=Flag.RESENT | Flag.PARTLY_ANSWERED)) == [("ada", 502)]
    desk.worker("w1", "read", idempotent=True)
    assert tasks_to(desk.sent) == ["w1"]
    desk.worker("w2", "write", capacity=5)
    assert codes(desk.sent) == [("ada", 502)], "it may have run, and must not run again"
    assert tasks_to(desk.sent) == ["w2"], "the one that was never sent before runs"


def test_resent_task_of_a_service_that_nobody_announced_ends_as_unknown() -> None:
    desk = Desk(is_settled=False)
    client = desk.client("ada")
    client.submit("read", timeout_s=60, flags=Flag.RESENT)
    desk.pass_time(7.4)
    client.ping()
    assert codes(desk.pass_time(0.2)) == [("ada", 502)]


# --- tasks that were sent to this pair of brokers only (rule 31) ------------------------------------------------------


def copied(desk: Desk, name: str) -> None:
    """As if this session came with the copy that the broker took over from."""
    desk.broker.state.sessions.by_identity[name].copied_until_s = math.inf


SAME_PAIR = int(Flag.RESENT | Flag.SAME_PAIR)


def test_resent_task_that_a_trusted_copy_does_not_know_has_not_run(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    copied(desk, "ada")
    assert only_task(client.submit("greet", flags=SAME_PAIR), "w").flags == 0


def test_resent_task_to_one_that_has_not_taken_over_may_have_run(desk: Desk) -> None:
    desk.worker("w", "greet")
    assert codes(desk.client("ada").submit("greet", flags=SAME_PAIR)) == [("ada", 502)]


def test_resent_task_that_was_at_other_brokers_too_may_have_run(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    copied(desk, "ada")
    assert codes(client.submit("greet", flags=int(Flag.RESENT))) == [("ada", 502)]


def test_resent_task_below_what_the_copy_has_seen_may_have_run(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=3)
    client = desk.client("ada")
    copied(desk, "ada")
    client.sequence = 5
    client.submit("greet")
    client.sequence = 2
    assert codes(client.submit("greet", flags=SAME_PAIR)) == [("ada", 502)], "it was settled, and is forgotten"


def test_resent_task_whose_reply_has_begun_is_not_repeated_though_the_copy_does_not_know_it(desk: Desk) -> None:
    desk.worker("w", "greet", idempotent=True)
    client = desk.client("ada")
    copied(desk, "ada")
    flags = SAME_PAIR | int(Flag.PARTLY_ANSWERED)
    assert codes(client.submit("greet", flags=flags)) == [("ada", 502)]
