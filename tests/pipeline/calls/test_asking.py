"""A partition's rows, asked of a real broker: in order, in sessions of bounded size, and once over all attempts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from scale0.client.repeatable import TASKS_MAX
from scale0.errors import DeadlineExceeded, EncodingError, RemoteError, Unreachable
from scale0_pipeline.calls import asking
from scale0_pipeline.calls.asking import BATCH, QUERY, Asker, Order, Work, code_and_text, work_of
from tests.pipeline.calls.posts import Post, running_post


@pytest.fixture
def post() -> Iterator[Post]:
    with running_post() as made:
        yield made


def order(*brokers: str, service: str = "double", **more: Any) -> Order:
    return Order(service=service, brokers=brokers, label="label", run="run", **more)


class Context:
    """What Spark tells a task."""

    def __init__(
        self, partition: int = 3, stage: int = 5, attempt: int = 0, told: dict[str, str] | None = None
    ) -> None:
        self._place = partition, stage, attempt
        self._told = told or {}

    def partitionId(self) -> int:  # noqa: N802
        return self._place[0]

    def stageId(self) -> int:  # noqa: N802
        return self._place[1]

    def attemptNumber(self) -> int:  # noqa: N802
        return self._place[2]

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self._told.get(name)


def work(context: Context | None) -> Work:
    return work_of(order("tcp://127.0.0.1:1"), context)  # type: ignore[arg-type]


def test_all_attempts_of_a_partition_are_one_piece_of_work_and_other_partitions_and_stages_are_not() -> None:
    first, second = work(Context()), work(Context(attempt=1))
    assert first.name == second.name
    assert (first.is_later, second.is_later) == (False, True)
    assert len({first.name, work(Context(partition=4)).name, work(Context(stage=6)).name, work(None).name}) == 4


def test_in_a_stream_the_batch_is_the_piece_of_work_whatever_its_stage() -> None:
    told = {QUERY: "query", BATCH: "7"}
    first, again = work(Context(stage=5, told=told)), work(Context(stage=99, told=told))
    assert first == again
    assert first.is_later, "a restarted query does not say so"
    assert work(Context(told={**told, BATCH: "8"})).name != first.name
    assert "run" not in first.name.split("/"), "the next process has another one"


def test_rows_are_answered_in_order_and_errors_stand_in_their_places(post: Post) -> None:
    with Asker(order(post.endpoint), Work("w", 0, False)) as asker:
        told = list(asker.ask([(number,) for number in range(20)]))
        told += asker.ask([("x",)])
    assert told[:13] == [2 * number for number in range(13)]
    assert isinstance(told[13], RemoteError)
    assert code_and_text(told[13]) == (500, "ValueError: unlucky")
    assert "number" in code_and_text(told[20])[1]


def test_an_attempt_that_comes_after_a_lost_one_runs_nothing_again(post: Post) -> None:
    rows = [(number,) for number in range(50)]
    with Asker(order(post.endpoint), Work("w", 0, False)) as first:
        begun = first.ask(rows)
        assert [next(begun) for _ in range(10)] == [2 * number for number in range(10)]
    with Asker(order(post.endpoint), Work("w", 0, True)) as second:
        told = list(second.ask(rows[::-1]))
    assert told[-1] == 0
    assert len(told) == 50
    assert set(post.runs.values()) == {1}


def test_two_attempts_at_once_are_both_answered_and_nothing_runs_twice(post: Post) -> None:
    rows = [(number,) for number in range(14, 414)]

    def attempt(rows: list[tuple[int]], *, is_later: bool) -> list[Any]:
        with Asker(order(post.endpoint), Work("w", 0, is_later)) as asker:
            return list(asker.ask(rows))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(attempt, rows, is_later=False)
        second = pool.submit(attempt, rows[::-1], is_later=True)
        assert first.result() == second.result()[::-1] == [2 * number for (number,) in rows]
    assert set(post.runs.values()) == {1}


def test_a_large_partition_has_several_sessions_and_the_broker_keeps_the_first_and_the_last(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TASKS_MAX >= 1_000
    monkeypatch.setattr(asking, "TASKS_MAX", 10)
    with Asker(order(post.endpoint), Work("w", 2, False)) as asker:
        told = [*asker.ask([(number,) for number in range(100, 115)]), *asker.ask([(number,) for number in range(20)])]
        assert len(told) == 35
        assert told[:15] == [2 * number for number in range(100, 115)]
    kept = {row["identity"]: row["outcomes_kept"] for row in post.broker.listing("clients")["rows"]}
    assert sorted(kept.values()) == [5, 10]
    assert all(identity.startswith("spark-") and identity.endswith("-2") for identity in kept)


def test_a_broker_that_cannot_be_reached_is_no_error_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "CONNECT_S", 0.05)
    with Asker(order("tcp://127.0.0.1:1"), Work("w", 0, False)) as asker, pytest.raises(Unreachable):
        list(asker.ask([(1,)]))


def test_every_error_has_a_code_and_a_text() -> None:
    assert code_and_text(DeadlineExceeded(504, "too late", "double")) == (504, "too late")
    assert code_and_text(EncodingError("no such thing")) == (400, "no such thing")
