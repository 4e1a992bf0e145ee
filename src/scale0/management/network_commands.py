"""A command for several brokers: the own one and its peers at once, with a result for each.

The own one is asked like always; peers are sent MANAGEMENTREQ with user and role, and decide by themselves how much of
that they believe. Who cannot be reached, or does not answer in time, has a result that says so: a partial failure is
shown as such, and never taken for a success.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any, Literal

from scale0.errors import ProtocolError
from scale0.protocol.codes import Code

Results = dict[str, Any]


def row_of(broker: str, done: Future[Any]) -> dict[str, Any]:
    """What one broker said."""
    error = done.exception()
    if error is None:
        return {"broker": broker, "code": 200, "result": done.result()}
    if isinstance(error, ProtocolError):
        return {"broker": broker, "code": int(error.code), "text": error.text}
    return {"broker": broker, "code": 500, "text": "this command failed; the broker's log has more"}


def gather(command_id: str, asked: dict[str, Future[Any]], done: Callable[[Results], None]) -> None:
    """Call `done` with the results of all, in the order of `asked`, when the last one has answered."""
    rows: dict[str, dict[str, Any]] = {}
    lock = Lock()

    def one(broker: str, answer: Future[Any]) -> None:
        with lock:
            rows[broker] = row_of(broker, answer)
            is_last = len(rows) == len(asked)
        if is_last:
            results = [rows[name] for name in asked]
            is_complete = all(row["code"] == 200 for row in results)
            done({"command_id": command_id, "complete": is_complete, "results": results})

    for broker, answer in asked.items():
        answer.add_done_callback(partial(one, broker))
    if not asked:
        done({"command_id": command_id, "complete": True, "results": []})


def refused(text: str, code: int = Code.NOT_ACCEPTING) -> Future[Any]:
    """An answer that is there already: no."""
    answer: Future[Any] = Future()
    answer.set_exception(ProtocolError(code, text))
    return answer


def others(brokers: list[str] | Literal["own", "all"], own: str) -> tuple[bool, list[str] | Literal["all"]]:
    """Whether the own broker is meant, and which others."""
    if brokers == "all":
        return True, "all"
    if brokers == "own":
        return True, []
    names = list(dict.fromkeys(brokers))
    return own in names, [name for name in names if name != own]
