"""One service's queue: priorities that age, and turns among clients (rule 14)."""

from __future__ import annotations

from tests.core.desk import Desk, only_task


def drain_order(desk: Desk, *waiting: tuple[str, bytes, int]) -> list[bytes]:
    """Let a busy worker's queue fill with (client, body, priority), and read in which order they are served."""
    worker = desk.worker("w", "greet")
    clients = {name: desk.client(name) for name, _, _ in waiting}
    clients["first"] = desk.client("first")
    task = only_task(clients["first"].submit("greet", timeout_s=1000), "w")
    for name, body, priority in waiting:
        clients[name].submit("greet", body, timeout_s=1000, priority=priority)
    order = []
    for _ in waiting:
        task = only_task(worker.reply(task), "w")
        order.append(b"".join(task.body))
    return order


def test_clients_take_turns() -> None:
    waiting = [("a", b"a1", 1), ("a", b"a2", 1), ("a", b"a3", 1), ("b", b"b1", 1), ("c", b"c1", 1)]
    assert drain_order(Desk(), *waiting) == [b"a1", b"b1", b"c1", b"a2", b"a3"]


def test_higher_priority_goes_first() -> None:
    waiting = [("a", b"low", 0), ("a", b"normal", 1), ("a", b"urgent", 3), ("a", b"high", 2)]
    assert drain_order(Desk(), *waiting) == [b"urgent", b"high", b"normal", b"low"]


def test_waiting_raises_a_priority_so_that_none_starves() -> None:
    desk = Desk(ageing_s=1.0, default_heartbeat_interval_s=100.0)
    worker = desk.worker("w", "greet")
    client = desk.client("a")
    task = only_task(client.submit("greet", timeout_s=1000), "w")
    client.submit("greet", b"old and low", timeout_s=1000, priority=0)
    served: list[bytes] = []
    for n in range(20):
        client.submit("greet", b"urgent %d" % n, timeout_s=1000, priority=3)
        desk.pass_time(0.5)
        task = only_task(worker.reply(task), "w")
        served.append(b"".join(task.body))
        if served[-1] == b"old and low":
            break
    assert served[-1] == b"old and low"
    assert 5 <= len(served) <= 9


def test_removal_from_the_middle_keeps_the_turns() -> None:
    desk = Desk()
    worker = desk.worker("w", "greet")
    a, b = desk.client("a"), desk.client("b")
    task = only_task(a.submit("greet"), "w")
    for body in (b"a2", b"a3"):
        a.submit("greet", body)
    b.submit("greet", b"b1")
    a.cancel(2)
    order = []
    for _ in range(2):
        task = only_task(worker.reply(task), "w")
        order.append(b"".join(task.body))
    assert order == [b"a3", b"b1"]
    assert desk.broker.census().queued == 0
