"""The simulator as a library: users' handlers run as at a real worker, in virtual time, and figures come out."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from scale0.errors import UsageError
from scale0.protocol.network import BrokerEntry, Document, ServiceEntry
from scale0.simulator import Handler, Load, Simulation, simulate

pytestmark = pytest.mark.timeout(240)


def quick(**more: Any) -> Simulation:
    given: dict[str, Any] = {"handlers": {"sum": 0.05}, "load": Load("sum", per_s=5.0), "seconds": 20.0, **more}
    return simulate(**given)


def test_handlers_run_with_the_arguments_of_the_load() -> None:
    seen: list[tuple[int, int]] = []

    def add(first: int, second: int) -> int:
        seen.append((first, second))
        return first + second

    def draw(random: Random) -> tuple[int, int]:
        return random.randint(1, 9), 1

    result = quick(handlers={"sum": Handler(add)}, load=Load("sum", 5.0, draw))
    assert result.is_good
    assert result.outcomes == {"OK": len(seen)}
    assert len({first for first, _ in seen}) > 3
    assert sum(result.workers.values()) == len(seen)


def test_what_a_handler_raises_is_a_failed_reply() -> None:
    def fails(number: int) -> int:
        raise ValueError(f"{number} is unlucky")

    result = quick(handlers={"sum": fails}, load=Load("sum", 5.0, (13,)))
    assert set(result.outcomes) == {"FAILED"}
    assert result.failures[0] == "sum: ValueError: 13 is unlucky"
    assert result.is_good


def test_arguments_are_checked_as_at_a_real_worker() -> None:
    def strict(number: int) -> int:
        return number

    result = quick(handlers={"sum": strict}, load=Load("sum", 5.0, ("no number",)))
    assert set(result.outcomes) == {"FAILED"}
    assert "parameter 'number' of sum" in result.failures[0]


def test_work_takes_virtual_time() -> None:
    figures = quick(handlers={"sum": Handler(work_s=(2.0, 3.0))}, workers=20, load=Load("sum", 1.0)).services["sum"]
    shortest, longest = figures.percentile_s(0.0), figures.percentile_s(1.0)
    assert shortest is not None
    assert longest is not None
    assert 2.0 <= shortest <= longest < 3.5


def test_too_few_workers_show_in_outcomes_and_latency() -> None:
    load = Load("sum", per_s=10.0, timeout_s=1.0)
    few = quick(handlers={"sum": 0.5}, workers=1, load=load)
    enough = quick(handlers={"sum": 0.5}, workers=10, load=load)
    assert few.outcomes.get("OK", 0) < enough.outcomes["OK"]
    assert few.outcomes.get("408", 0) > 0
    assert few.is_good, "a deadline that cannot be met breaks no promise"


def test_the_same_seed_gives_the_same_run() -> None:
    kinds = ["busy worker crashes", "connection breaks"]
    first, second, other = (quick(faults=kinds, fault_every_s=2.0, seed=seed) for seed in (1, 1, 2))
    assert first.digest == second.digest != other.digest
    assert first == second


def test_faults_happen_and_are_told() -> None:
    result = simulate(
        2,
        handlers={"sum": Handler(work_s=0.1, idempotent=True)},
        load=Load("sum", per_s=5.0),
        workers=4,
        faults=["broker-crashes"],
        fault_every_s=6.0,
        seconds=40.0,
    )
    assert result.is_good, result.violation
    assert set(result.faults) == {"broker crashes"}
    assert result.timeline[0].kind == "broker crashes"
    assert set(result.brokers) == {"broker0", "broker1"}


def test_a_topology_comes_from_a_document(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(
        'network = "prod"\ndefault_heartbeat_interval = 0.5\n'
        '[[brokers]]\nidentity = "eu-1"\ngroup = "eu"\nbind = "tcp://*:5555"\n'
        '[[brokers]]\nidentity = "us-1"\ngroup = "us"\nbind = "tcp://*:5556"\n'
        '[[groups]]\nname = "eu"\nfallback_groups = ["us"]\n[[groups]]\nname = "us"\n'
    )
    result = simulate(path, handlers={"sum": 0.01}, load=Load("sum", 5.0), workers=2, seconds=10.0)
    assert result.is_good, result.violation
    assert set(result.brokers) == {"eu-1", "us-1"}


def test_a_fallback_broker_takes_over_when_the_active_one_crashes() -> None:
    pair = Document(
        default_heartbeat_interval_s=0.5,
        takeover_timeout_s=1.5,
        brokers=[
            BrokerEntry(identity="eu-1", group="eu", fallback_broker="eu-1b"),
            BrokerEntry(identity="eu-1b", group="eu"),
        ],
    )
    result = simulate(
        pair,
        handlers={"sum": Handler(work_s=0.1, idempotent=True)},
        load=Load("sum", 5.0),
        faults=["active-one-crashes"],
        fault_every_s=8.0,
        seconds=30.0,
    )
    assert result.is_good, result.violation
    assert all(result.brokers.values()), "both have served"


def test_what_the_document_says_of_a_service_holds() -> None:
    document = Document(
        brokers=[BrokerEntry(identity="one")], service=[ServiceEntry(name="sum", idempotent=True, max_attempts=2)]
    )
    result = simulate(
        document,
        handlers={"sum": 0.3},
        load=Load("sum", 5.0),
        workers=3,
        faults=["busy worker crashes"],
        fault_every_s=2.0,
        seconds=30.0,
    )
    assert result.is_good, result.violation


def test_each_service_may_have_workers_of_its_own() -> None:
    result = simulate(
        handlers={"a": 0.01, "b": 0.01},
        load=[Load("a", 3.0), Load("b", 6.0)],
        workers={"a": 1, "b": 2},
        seconds=20.0,
    )
    assert result.workers["worker0"] == result.services["a"].tasks
    assert result.workers["worker1"] + result.workers["worker2"] == result.services["b"].tasks


async def asynchronous() -> None: ...


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"load": Load("other", 1.0)}, "no handler for 'other'"),
        ({"load": Load("sum", 0.0)}, "above zero"),
        ({"load": []}, "nothing would happen"),
        ({"workers": {"strange": 1}}, "workers for 'strange'"),
        ({"handlers": {"sum": 0.1, "idle": 0.1}, "workers": {"sum": 1}}, "no worker serves 'idle'"),
        ({"load": Load("sum", 1e6)}, "more than 1,000,000 tasks"),
        ({"network": 99}, "99 brokers"),
        ({"network": "no/such/file.toml"}, "cannot be read"),
        ({"handlers": {"sum": asynchronous}}, "no plain function"),
        ({"faults": ["broker crash"]}, "did you mean"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_the_cure(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        quick(**wrong)
