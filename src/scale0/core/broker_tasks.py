"""The broker as a client of its own: an operator's test task, and a dead letter's task once more.

Such a task goes the ordinary way, through admission, routing, ledger and record, so that what the operator sees is what
a client would have seen. Only its outcome goes to nobody's socket: it becomes the answer to the command, which comes
when it comes (`askers.Later`). What is not accepted refuses the command.

The fallback of a pair is not told of them, as it is not told of REQ clients' tasks: who waits for the answer waits for
this process. If the broker gives way while one is under way, its outcome is unknown, and the answer says so.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scale0.core import admission, askers
from scale0.core.outcomes import DeadLetter
from scale0.core.own_tasks import OwnTask
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER
from scale0.protocol.ids import show_id
from scale0.protocol.limits import DOCUMENT_DEPTH_MAX, PRIORITY_NORMAL
from scale0.protocol.messages import Body, Error, ManagementRep, Status, Task, TaskReply

BODY_BYTES_MAX: Final = 64 * 1024  # of a test task, and of what is shown of its reply
TIMEOUT_S_MAX: Final = 30.0  # operators do not wait longer
OWN_TASKS_MAX: Final = 32
ENCODED: Final = msgspec.msgpack.encode({"encoding": "msgpack"})  # what the clients' library says of such a body
HANDLER_FAILED: Final = 500  # as it is recorded: an outcome, and no code of the protocol's
_OK: Final = int(Status.OK)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def test(state: State, service: str, body: str, timeout_s: float) -> Any:
    """A task with this JSON text for its arguments, as `scale0 call` reads it."""
    frame = _read_arguments(body)
    task = Task(state.own.new_id(), service, (frame,), round(timeout_s * 1000), 1, PRIORITY_NORMAL, 0, state.wall_us())
    task.options = ENCODED
    return _submit(state, task, None)


def retry(state: State, letter: DeadLetter) -> Any:
    """A dead letter's task once more. It may have run before: whether that matters is for people to judge."""
    if any(asked.letter is letter for asked in state.own.asked.values()):
        raise ProtocolError(
            Code.IDENTITY_IN_USE, f"{show_id(letter.task.id)} is being tried again; wait for its outcome"
        )
    former = letter.task
    timeout_ms = round(min(state.settings.timeout_s(former.service), TIMEOUT_S_MAX) * 1000)
    task = Task(state.own.new_id(), former.service, former.body, timeout_ms, 1, former.priority, 0, state.wall_us())
    task.options = former.options
    letter.retries += 1
    return _submit(state, task, letter)


def _submit(state: State, task: Task, letter: DeadLetter | None) -> Any:
    own = state.own
    if state.mode not in ("active", "holding"):
        raise ProtocolError(
            Code.NOT_ACCEPTING, f"this broker is {state.mode} and takes no task; ask one that is active"
        )
    if len(own.asked) >= OWN_TASKS_MAX:
        text = f"{OWN_TASKS_MAX} tasks of operators are under way"
        raise ProtocolError(Code.OVER_LIMIT, f"{text}; wait for the outcome of one of them")
    key = askers.wait(state, task.service)
    asked = OwnTask(id=task.id, service=task.service, begun_s=state.now, letter=letter, key=key)
    own.asked[task.id] = asked
    admission.submit(state, own.session, task, own.session.made)
    asked.entry = state.ledger.entries.get(task.id)
    if asked.entry is not None:
        return askers.Later(key)
    # It was refused, or a service of the broker itself has answered.
    del own.asked[task.id], state.network.askers[key]
    assert asked.outcome is not None, "what is not accepted is answered"
    if isinstance(asked.outcome, Error):
        raise ProtocolError(asked.outcome.code, asked.outcome.text)
    return _describe(state, asked, asked.outcome)


def hear(state: State, message: TaskReply | Error) -> None:
    """The outcome of one of them; parts were joined."""
    asked = state.own.asked.get(message.id)  # type: ignore[call-overload]
    if asked is None:  # it was answered before: the broker gave way meanwhile
        return
    if asked.entry is None:  # it is just being submitted
        asked.outcome = message
        return
    del state.own.asked[asked.id]
    askers.answered(state, ManagementRep(seq=asked.key, result=_describe(state, asked, message)))


def look(state: State) -> None:
    """Those that this broker holds no more, or settles no more, since another one of its pair serves."""
    for asked in list(state.own.asked.values()):
        if state.mode == "passive" or asked.id not in state.ledger.entries:
            text = "outcome unknown: this broker gave way to the other one of its pair; ask that one"
            hear(state, Error(code=int(Code.WORKER_LOST), text=text, id=asked.id))


# --- bodies -------------------------------------------------------------------------------------------------------


def _read_arguments(text: str) -> bytes:
    """A JSON array holds positional arguments, an object those by name; anything else is the one argument."""
    if len(text.encode()) > BODY_BYTES_MAX:
        raise ProtocolError(Code.TOO_LARGE, f"body: a test task has at most {BODY_BYTES_MAX:,} bytes")
    try:
        value = msgspec.json.decode(text) if text.strip() else None
        _check_depth(value, DOCUMENT_DEPTH_MAX)
    except _UNREADABLE as error:
        raise ProtocolError(Code.MALFORMED, f"body: JSON is needed, text in quotes: {error}") from None
    if value is None:
        return msgspec.msgpack.encode([])
    if isinstance(value, dict):
        return msgspec.msgpack.encode({"args": [], "kwargs": value})
    return msgspec.msgpack.encode(value if isinstance(value, list) else [value])


def _check_depth(value: Any, depth: int) -> None:
    if not depth:
        raise ProtocolError(Code.MALFORMED, f"body: nested more than {DOCUMENT_DEPTH_MAX} deep")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(inner, depth - 1)


def _describe(state: State, asked: OwnTask, outcome: TaskReply | Error) -> dict[str, Any]:
    """What became of it, and by whom."""
    code, text, shown, size = _outcome(outcome, asked.service)
    entry, letter = asked.entry, asked.letter
    worker = entry.worker if entry is not None else None
    name = worker.session.identity if worker is not None else None
    is_afar = worker is not None and worker.session.dialect is PEER
    told = {
        "task": show_id(asked.id),
        "service": asked.service,
        "code": code,
        "text": text,
        "duration_us": round((state.now - asked.begun_s) * 1e6),
        "worker": None if is_afar else name,
        "via": name if is_afar else None,
        "attempts": entry.attempt if entry is not None else 1,
        "body": shown,
        "body_bytes": size,
    }
    if letter is None:
        return told
    is_over = code == 200
    if is_over:
        state.dead_letters.remove(letter)
    return {**told, "letter": show_id(letter.task.id), "is_removed": is_over}


def _outcome(outcome: TaskReply | Error, service: str) -> tuple[int, str, str | None, int]:
    """Its code, its text, its body as people can read it, and the body's size."""
    if isinstance(outcome, Error):
        return outcome.code, outcome.text, None, 0
    size = sum(map(len, outcome.body))
    if outcome.status == _OK:
        return 200, "", _shown(outcome.body, service), size
    return HANDLER_FAILED, _failure(outcome.body), None, size


def _shown(body: Body, service: str) -> str:
    """JSON text where the body is msgpack or JSON, else text; cut where it is long."""
    is_marked = len(body) == 2 and not body[0]  # bytes, as the workers' library marks them
    data = b"".join(body)
    text = data.decode(errors="replace")
    if not is_marked and not service.startswith("scale0."):
        try:
            text = msgspec.json.encode(msgspec.msgpack.decode(data)).decode()
        except (*_UNREADABLE, TypeError, ValueError, OverflowError):
            pass  # whatever it is, it is shown as it is
    return text.encode(errors="replace")[:BODY_BYTES_MAX].decode(errors="ignore")


def _failure(body: Body) -> str:
    try:
        failure = msgspec.msgpack.decode(b"".join(body), type=dict[str, Any])
        return f"{failure['type']}: {failure['message']}"[:BODY_BYTES_MAX]
    except (*_UNREADABLE, KeyError):
        return b"".join(body)[:500].decode(errors="replace") or "the handler failed and did not say why"
