"""A broker for the gate that is no broker: it remembers what it was asked, and answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from scale0.errors import ProtocolError
from scale0.management.audit import Audit
from scale0.management.gate import Gate
from scale0.management.users import Users
from scale0.management.vocabulary import COMMANDS, Principal, Role
from scale0.protocol.messages import ManagementReq
from scale0.transport.logs import make_log

LIMIT_S = 30.0


class FakeEngine:
    """`asked` is what reached the loop, `passed` what went to others."""

    identity = "b1"

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.passed: list[tuple[ManagementReq, object]] = []
        self.recorded: list[dict[str, Any]] = []
        self.others: dict[str, Future[Any]] = {}
        self.respond: Callable[[str, dict[str, Any]], Any] = lambda command, arguments: {"done": command}
        self.is_holding = False
        self.held: list[Future[Any]] = []
        self.threads: set[str] = set()

    def manage(self, command: str, arguments: dict[str, Any]) -> Future[Any]:
        self.asked.append((command, arguments))
        self.threads.add(threading.current_thread().name)
        answer: Future[Any] = Future()
        if self.is_holding:
            self.held.append(answer)
            return answer
        try:
            answer.set_result(self.respond(command, arguments))
        except ProtocolError as error:
            answer.set_exception(error)
        return answer

    def pass_on(
        self, request: ManagementReq, brokers: list[str] | Literal["all"], for_s: float
    ) -> Future[dict[str, Future[Any]]]:
        self.passed.append((request, brokers))
        answer: Future[dict[str, Future[Any]]] = Future()
        answer.set_result({name: done for name, done in self.others.items() if brokers == "all" or name in brokers})
        return answer

    def record(self, row: dict[str, Any]) -> None:
        self.recorded.append(row)


@contextmanager
def gate_at(directory: Path, engine: FakeEngine, *, has_audit: bool = True) -> Iterator[Gate]:
    """A gate with its files in `directory`."""
    audit = Audit(directory / "audit.log") if has_audit else None
    gate = Gate(engine, Users(directory / "users.json"), audit, make_log(is_quiet=True))
    gate.begin()
    try:
        yield gate
    finally:
        gate.close()


def settle(gate: Gate) -> None:
    """Until the gate's thread has done everything that it was given."""
    done = threading.Event()
    gate.step(done.set)
    assert done.wait(LIMIT_S)


def who(role: Role, **more: Any) -> Principal:
    return Principal(**{"user": "ann", "role": role, "door": "http", "source": "10.0.0.7", **more})


EXAMPLES: dict[str, dict[str, Any]] = {
    "kick_worker": {"worker": "w-12", "reason": "stuck"},
    "cancel_task": {"task": "7f3a"},
    "retry_dead_letter": {"task": "7f3a"},
    "test_task": {"service": "render", "body": '{"secret": 1}'},
    "config_check": {"document": "{}"},
    "config_apply": {"document": '{"liveness": 4}'},
    "config_rollback": {"version": "1.40"},
    "forget_broker": {"broker": "eu-2"},
    "partition": {"peer": "eu-2", "for_s": 5},
    "hints": {"version": 1},
    "segment": {"path": "segments/x"},
    "snapshot": {"parts": ["workers"]},
}
"""Arguments of commands that need some."""


def arguments_of(command: str) -> dict[str, Any]:
    assert command in COMMANDS
    return EXAMPLES.get(command, {})
