"""What becomes of a command's answer: a sentence, a row a broker, an exit code."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.cli import ctl_results
from scale0.cli.ctl_doors import Answer, BrokerAnswer
from scale0.cli.failures import Exit
from scale0.management.vocabulary import COMMANDS

GOOD = BrokerAnswer("eu-1", 200, {"state": "draining", "queued": 0})
SILENT = BrokerAnswer("eu-3", 503, text="silent for 14 s")


def drawn(name: str, answer: Answer, target: str = "") -> list[str]:
    return [line.plain for line in ctl_results.draw(COMMANDS[name], answer, target)]


def test_one_result_is_told_in_words() -> None:
    answer = Answer("id", {"worker": "w-12", "tasks": 2, "lost": 1, "took_us": 1_500, "is_new": True})
    assert drawn("kick_worker", answer, "w-12") == [
        "● kick worker w-12: done",
        "  worker w-12",
        "  tasks 2",
        "  lost 1",
        "  took 1.5 ms",
        "  is new yes",
    ]


def test_partial_failure_is_shown_as_such_and_the_exit_code_is_5() -> None:
    answer = Answer("id", results=[GOOD, SILENT])
    assert drawn("drain", answer) == [
        "! drain: 1 of 2 brokers; not eu-3",
        "BROKER RESULT",
        "eu-3   ✗ 503 silent for 14 s",
        "eu-1   ● state draining, queued 0",
    ]
    assert ctl_results.end(answer) == Exit.PARTIAL


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer("id", results=[GOOD]), Exit.GOOD),
        (Answer("id", results=[SILENT]), Exit.REFUSED),
        (Answer("id", {"state": "active"}), Exit.GOOD),
        (Answer("id", {"code": 504, "text": "late"}), Exit.BAD_ANSWER),
        (Answer("id", {"code": 200}), Exit.GOOD),
    ],
)
def test_the_exit_code_tells_what_came_of_it(answer: Answer, code: Exit) -> None:
    assert ctl_results.end(answer) == code


def test_a_test_task_says_who_answered_what_and_how_soon() -> None:
    result: dict[str, Any] = {
        "task": "eu-1.00.1",
        "code": 200,
        "text": "",
        "duration_us": 8_200,
        "worker": "w-12",
        "via": None,
        "attempts": 1,
        "body": '"hello"',
    }
    assert drawn("test_task", Answer("id", result), "greet") == [
        "● test task greet: answered by w-12 in 8.2 ms",
        '  "hello"',
        "  task eu-1.00.1, attempts 1",
    ]
    failed = {**result, "code": 500, "text": "ValueError: no", "body": None}
    assert drawn("test_task", Answer("id", failed), "greet")[0] == (
        "✗ test task greet: 500 ValueError: no by w-12 in 8.2 ms"
    )


def test_what_comes_from_elsewhere_stays_text_and_is_cut() -> None:
    lines = drawn("kick_worker", Answer("id", {"worker": "\x1b[2J[red]", "text": "x" * 500}), "\x1b[2J")
    assert "\x1b" not in "".join(lines)
    assert lines[-1].endswith("… (all of it: --json)")
