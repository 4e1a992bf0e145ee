"""Hints and their scores on small frames, against the rules in plain Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from scale0_pipeline.hints import damping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

HOUR_US = 3_600_000_000
DAY = date(2026, 11, 3)
DAY_US = 20_760 * 24 * HOUR_US  # 2026-11-03
FLAPS = "day date, hour_us long, worker string, broker string, sessions int, penalty double"
WORKERS = "day date, hour_us long, worker string, service string, count long, errors long"
WHOLE = "day date, hour_us long, broker string, completeness double"
NOTES = "day date, kind string, what string, detail string"


def _at(hour: int) -> int:
    return DAY_US + hour * HOUR_US


PENALTIES = {1: 3.0, 2: 5.0, 3: 3.0, 4: 2.0, 5: 1.9, 6: 3.0, 7: 6.0, 12: 4.0, 13: 7.0}


def _flaps(worker: str, penalties: Mapping[int, float], broker: str = "x") -> list[tuple[Any, ...]]:
    return [(DAY, _at(hour), worker, broker, int(penalty), penalty) for hour, penalty in penalties.items()]


def _serving(service: str, hours: range, workers: int, prefix: str) -> list[tuple[Any, ...]]:
    return [(DAY, _at(hour), f"{prefix}{n}", service, 100, 0) for hour in hours for n in range(workers)]


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> list[Row]:
    """The hints of a day, at 15 o'clock; the workers of each story have a letter of their own."""
    from scale0_pipeline.hints.tables import hints
    from scale0_pipeline.transforms.window import Window

    flaps = _flaps("a0", PENALTIES)
    # b: of ten, six flap; b5 serves a second service too, of four, which can spare nobody.
    flaps += [row for n in range(6) for row in _flaps(f"b{n}", {1: 6.0 + n})]
    # c: one at a broker whose record is whole, one at a broker with holes; and an hour that is not over.
    flaps += [*_flaps("c0", {1: 9.0, 15: 9.0}), *_flaps("c1", {1: 9.0}, broker="y")]
    serving = [*_serving("one", range(24), 5, "a"), *_serving("ten", range(1, 2), 10, "b")]
    serving += [(DAY, _at(1), "b5", "four", 5, 0), *_serving("four", range(1, 2), 3, "d")]
    serving += [row for hours in (range(1, 2), range(15, 16)) for row in _serving("holes", hours, 10, "c")]
    whole = [(DAY, _at(1), "x", 0.99), (DAY, _at(1), "y", 0.5)]
    inputs: dict[str, DataFrame] = {
        "gold/flaps": spark.createDataFrame(flaps, FLAPS),
        "gold/worker_1h": spark.createDataFrame(serving, WORKERS),
        "gold/completeness_1h": spark.createDataFrame(whole, WHOLE),
    }
    return hints(inputs, Window((DAY,), _at(15))).orderBy("made_us", "subject").collect()


def _about(made: list[Row], letter: str) -> list[Row]:
    return [row for row in made if row["subject"].startswith(letter)]


def test_a_worker_is_damped_from_on_until_it_is_below_off(made: list[Row]) -> None:
    rows = _about(made, "a")
    expected, is_damped, before = [], False, -99
    for hour, penalty in PENALTIES.items():
        left = damping.decayed(PENALTIES.get(before, 0.0), hour - before - 1)
        is_damped = damping.is_damped(is_damped and left >= damping.OFF, penalty)
        if is_damped:
            expected.append(hour)
        before = hour
    hours = [(row["made_us"] - DAY_US) // HOUR_US - 1 for row in rows]
    assert hours == expected == [2, 3, 4, 7, 13]  # after the calm from 8 to 11, a penalty of 4 is not enough


def test_a_hint_has_its_evidence_and_its_end(made: list[Row]) -> None:
    first = _about(made, "a")[0]
    assert first["hint_id"] == damping.hint_id("a0", _at(2))
    assert (first["day"], first["kind"], first["service"], first["mode"]) == (DAY, "damp", "one", "shadow")
    assert first["reason"] == "5 sessions within an hour, penalty 5.0"
    assert (first["evidence_from_us"], first["evidence_to_us"]) == (_at(3) - 24 * HOUR_US, _at(3))
    assert (first["made_us"], first["expires_us"]) == (_at(3), _at(5))
    assert [row["is_held_out"] for row in made] == [damping.is_held_out(row["hint_id"]) for row in made]


def test_about_one_hint_in_ten_is_held_out() -> None:
    names = [damping.hint_id(f"w{n}", 0) for n in range(2_000)]
    assert 150 < sum(map(damping.is_held_out, names)) < 250


def test_no_more_are_damped_than_a_service_can_spare(made: list[Row]) -> None:
    assert [row["subject"] for row in _about(made, "b")] == ["b4"]
    assert [damping.allowance(workers) for workers in (2, 4, 5, 10)] == [0, 0, 1, 2]


def test_evidence_with_holes_and_hours_that_are_not_over_make_no_hint(made: list[Row]) -> None:
    assert [(row["subject"], row["made_us"], row["completeness"]) for row in _about(made, "c")] == [
        ("c0", _at(2), 0.99)
    ]


def test_hints_are_scored_against_those_held_out(spark: SparkSession) -> None:
    from scale0_pipeline.hints.tables import hint_scores
    from scale0_pipeline.transforms.window import Window

    known = "hint_id string, subject string, service string, made_us long, evidence_to_us long, is_held_out boolean"
    made = [("control", "w0", True), ("damped", "w1", False), ("watched", "w2", False), ("worse", "w3", False)]
    rows = [(name, worker, "s", _at(2), _at(2), held) for name, worker, held in made]
    rows += [("alone", "w9", "other", _at(2), _at(2), False), ("early", "w1", "s", _at(4), _at(4), False)]
    errors = {"w0": (8, 10), "w1": (8, 2), "w2": (6, 7), "w3": (4, 20), "w9": (1, 0)}
    serving = [(DAY, _at(hour), worker, "s", 50, pair[hour - 1]) for worker, pair in errors.items() for hour in (1, 2)]
    heard = [(DAY, "hint", "heard", json.dumps({"hint_id": name, "mode": "enforce"})) for name in
             ("control", "damped", "worse", "alone")]  # fmt: skip
    heard.append((DAY, "hint", "heard", json.dumps({"hint_id": "watched", "mode": "shadow"})))
    inputs: dict[str, DataFrame] = {
        "gold/hints": spark.createDataFrame(rows, known),
        "gold/worker_1h": spark.createDataFrame(serving, WORKERS),
        "silver/notes": spark.createDataFrame(heard, NOTES),
    }
    scored = {row["hint_id"]: row for row in hint_scores(inputs, Window((DAY,), _at(4))).collect()}
    assert sorted(scored) == ["alone", "control", "damped", "watched", "worse"]  # an hour that is not over has no score
    assert {name: row["verdict"] for name, row in scored.items()} == {
        "control": "control",
        "damped": "helps",
        "watched": "shadow",
        "worse": "harms",
        "alone": "no control yet",
    }
    damped = scored["damped"]
    assert (damped["predicted"], damped["observed"], damped["control"]) == (8.0, 2.0, 10.0)
    assert damped["score"] == pytest.approx(0.8)
    assert scored["watched"]["score"] is None
