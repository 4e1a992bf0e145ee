"""Settled outcomes within their caps, in messages and in bytes (rule 8)."""

from __future__ import annotations

from scale0.core.settings import Limits
from tests.core.desk import Desk, bodies, only_task


def settle(desk: Desk, *sizes: int) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    for size in sizes:
        worker.reply(only_task(client.submit("greet"), "w"), bytes(size))


def test_large_outcomes_are_bounded_in_bytes() -> None:
    desk = Desk(limits=Limits(outcomes_bytes=100_000))
    settle(desk, *[20_000] * 10)
    assert desk.broker.state.outcomes.bytes <= 100_000
    assert 0 < desk.broker.state.outcomes.count <= 5


def test_body_that_came_in_its_header_frame_weighs_twice() -> None:
    desk = Desk()
    settle(desk, 2_000, 20_000, 100)
    assert desk.broker.state.outcomes.bytes == 24_000


def test_newest_outcomes_are_the_ones_that_stay() -> None:
    desk = Desk(limits=Limits(outcomes=10))
    settle(desk, *range(30))
    kept = desk.broker.state.sessions.by_identity["ada"].kept
    assert max(kept) == 30
    assert len(kept) <= 10


def test_what_is_acknowledged_weighs_nothing() -> None:
    desk = Desk()
    settle(desk, 20_000, 20_000)
    client_route = desk.broker.state.sessions.by_identity["ada"]
    desk.broker.state.outcomes.forget_below(client_route, 2)
    assert (desk.broker.state.outcomes.bytes, desk.broker.state.outcomes.count) == (20_000, 1)
    desk.broker.state.outcomes.forget_all(client_route)
    assert (desk.broker.state.outcomes.bytes, desk.broker.state.outcomes.count) == (0, 0)


def test_reply_larger_than_the_cap_is_delivered_and_not_kept() -> None:
    desk = Desk(limits=Limits(outcomes_bytes=1_000))
    settle(desk, 5_000)
    assert len(bodies(desk.sent)) == 1
    assert desk.broker.state.outcomes.count == 0
