"""What brokers say of themselves: asked for while somebody looks, not waited for, and forgotten when it is old."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from scale0.errors import ProtocolError
from scale0.management.neighbours import FIGURES, LOOK_S, OLD_S, Neighbours

ROWS = [{"identity": "b1", "state": "active"}, {"identity": "b2", "state": "active"}]
UNKNOWN = dict.fromkeys(FIGURES)


class Network:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[Future[Any]] = []
        self.neighbours = Neighbours(self.ask, lambda: self.now)

    def ask(self) -> Future[Any]:
        self.asked.append(Future())
        return self.asked[-1]

    def answer(self, **cpu: Any) -> None:
        rows = {name: {"identity": name, "cpu_percent": percent, "rss_bytes": 7} for name, percent in cpu.items()}
        results = [{"broker": name, "code": 200, "result": {"rows": [row]}} for name, row in rows.items()]
        self.asked[-1].set_result({"results": [*results, {"broker": "b3", "code": 503, "text": "gone"}]})

    def shown(self) -> dict[str, dict[str, Any]]:
        rows = self.neighbours.added_to(ROWS)
        return {row["identity"]: {name: row[name] for name in FIGURES} for row in rows}


@pytest.fixture
def network() -> Network:
    return Network()


def test_nobody_waits_and_what_is_not_known_is_null(network: Network) -> None:
    assert network.shown() == {"b1": UNKNOWN, "b2": UNKNOWN}
    network.answer(b1=12.5, b2=80)
    assert network.shown()["b2"] == {**UNKNOWN, "cpu_percent": 80, "rss_bytes": 7}


def test_all_who_look_cost_one_question_every_few_seconds(network: Network) -> None:
    for _ in range(50):
        network.shown()
    assert len(network.asked) == 1
    network.now += LOOK_S
    network.shown()
    assert len(network.asked) == 2


def test_a_broker_that_is_silent_keeps_what_it_said_until_that_is_old(network: Network) -> None:
    network.shown()
    network.answer(b1=1, b2=2)
    network.now += LOOK_S
    network.shown()
    network.answer(b1=3)
    assert [one["cpu_percent"] for one in network.shown().values()] == [3, 2]
    network.now += OLD_S - 1
    assert [one["cpu_percent"] for one in network.shown().values()] == [3, None]


def test_answers_that_fail_or_make_no_sense_add_nothing(network: Network) -> None:
    network.shown()
    network.asked[-1].set_exception(ProtocolError(503, "not now"))
    network.now += LOOK_S
    network.shown()
    network.answer(b1="much", b2=True)
    assert [one["cpu_percent"] for one in network.shown().values()] == [None, None]
