"""Every command passes the gate: known, well-formed, allowed, audited, carried out, audited again, answered."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from scale0.errors import ProtocolError
from scale0.management import gate as gates
from scale0.management.audit import verify
from scale0.management.gate import Gate
from scale0.management.vocabulary import COMMANDS, LISTINGS, Role
from scale0.testing import managed_by
from tests.management.engine import LIMIT_S, FakeEngine, arguments_of, gate_at, settle, who


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def gate(tmp_path: Path, engine: FakeEngine) -> Iterator[Gate]:
    with gate_at(tmp_path, engine) as made:
        yield made


def rows(gate: Gate) -> list[tuple[str, str, int]]:
    """The audit log, oldest first."""
    settle(gate)
    assert gate.audit is not None
    return [(row["command"], row["outcome"], row["code"]) for row in reversed(gate.audit.rows)]


def refusal(future: Future[Any]) -> ProtocolError:
    error = future.exception(LIMIT_S)
    assert isinstance(error, ProtocolError)
    return error


# --- roles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.text)
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_carried_out_for_its_role_and_denied_below(
    tmp_path: Path, engine: FakeEngine, name: str, role: Role
) -> None:
    command = COMMANDS[name]
    with gate_at(tmp_path, engine) as gate:
        answer = gate.ask(who(role), name, arguments_of(name))
        if role >= command.role:
            assert answer.result(LIMIT_S) == {"done": name}
            assert [asked for asked, _ in engine.asked] == [name]
            expected = [(name, "begun", 0), (name, "done", 200)] if command.is_change else []
        else:
            assert refusal(answer).code == 403
            assert command.role.text in refusal(answer).text
            assert engine.asked == []
            expected = [(name, "denied", 403)]
        assert rows(gate) == expected


@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.text)
@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_is_shown_to_its_role_however_it_is_asked_for(gate: Gate, name: str, role: Role) -> None:
    for command, arguments in (("list", {"what": name}), ("snapshot", {"parts": ["workers", name]})):
        answer = gate.ask(who(role), command, arguments)
        if role >= LISTINGS[name].role:
            answer.result(LIMIT_S)
        else:
            assert refusal(answer).code == 403


def test_a_test_task_needs_the_permission_for_its_service(gate: Gate, engine: FakeEngine) -> None:
    limited = who(Role.OPERATE, services=["render*", "ocr"])
    assert refusal(gate.ask(limited, "test_task", {"service": "pay"})).code == 403
    assert gate.ask(limited, "test_task", {"service": "render.hd"}).result(LIMIT_S) == {"done": "test_task"}
    assert refusal(gate.ask(who(Role.ADMIN, services=[]), "test_task", {"service": "ocr"})).code == 403
    assert [command for command, _ in engine.asked] == ["test_task"]


def test_the_key_of_hints_opens_nothing_else(gate: Gate, engine: FakeEngine) -> None:
    pipeline = who(Role.ADMIN, user="hints")
    assert refusal(gate.ask(pipeline, "drain", {})).code == 403
    gate.ask(pipeline, "hints", {"version": 1, "mode": "shadow", "newer": True}).result(LIMIT_S)
    gate.ask(pipeline, "list", {"what": "hints"}).result(LIMIT_S)
    assert [command for command, _ in engine.asked] == ["hints", "list"]


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "arguments", "told"),
    [
        ("kick_worker", {}, "worker"),
        ("kick_worker", {"worker": 7}, "worker"),
        ("kick_worker", {"worker": "w", "author": "somebody else"}, "author"),
        ("drain", {"now": True}, "now"),
        ("partition", {"peer": "b2", "for_s": 5, "lost": "everything"}, "lost"),
        ("list", {"what": ["workers"]}, "what"),
    ],
)
def test_arguments_that_are_not_good_are_400_and_named(
    gate: Gate, engine: FakeEngine, command: str, arguments: dict[str, object], told: str
) -> None:
    error = refusal(gate.ask(who(Role.ADMIN), command, arguments))
    assert error.code == 400
    assert told in error.text
    assert engine.asked == []


def test_an_unknown_command_says_what_there_is(gate: Gate) -> None:
    error = refusal(gate.ask(who(Role.ADMIN), "explode", {}))
    assert error.code == 501
    assert "drain" in error.text


def test_a_change_is_signed_with_the_users_name_and_nobody_elses(gate: Gate, engine: FakeEngine) -> None:
    gate.ask(who(Role.ADMIN), "config_apply", {"document": "{}", "comment": "why"}).result(LIMIT_S)
    assert engine.asked == [("config_apply", {"document": "{}", "comment": "why", "author": "ann"})]


def test_the_loops_refusal_is_the_answer_and_is_audited_as_failed(gate: Gate, engine: FakeEngine) -> None:
    def refuse(command: str, arguments: dict[str, object]) -> object:
        raise ProtocolError(503, "not now")

    engine.respond = refuse
    assert refusal(gate.ask(who(Role.OPERATE), "drain", {})).text == "not now"
    assert rows(gate) == [("drain", "begun", 0), ("drain", "failed", 503)]


def test_only_so_many_commands_are_underway(gate: Gate, engine: FakeEngine) -> None:
    engine.is_holding = True
    waiting = [gate.ask(who(Role.VIEW), "list", {}) for _ in range(gates.UNDERWAY_MAX)]
    assert refusal(gate.ask(who(Role.VIEW), "list", {})).code == 429
    engine.held[0].set_result({})
    assert waiting[0].result(LIMIT_S) == {}
    engine.is_holding = False
    gate.ask(who(Role.VIEW), "list", {}).result(LIMIT_S)


def test_who_waits_when_the_broker_ends_is_told(tmp_path: Path, engine: FakeEngine) -> None:
    engine.is_holding = True
    with gate_at(tmp_path, engine) as gate:
        waiting = [gate.ask(who(Role.ADMIN), command, {}) for command in ("list", "drain")]
        settle(gate)
    assert [refusal(answer).code for answer in waiting] == [503, 503]
    assert refusal(gate.ask(who(Role.ADMIN), "drain", {})).code == 503


# --- the audit log ----------------------------------------------------------------------------------------------------


def test_the_record_is_on_disk_before_the_command_and_before_its_answer(
    tmp_path: Path, gate: Gate, engine: FakeEngine
) -> None:
    seen: list[int] = []

    def look(command: str, arguments: dict[str, object]) -> object:
        seen.append(verify(tmp_path / "audit.log").records)
        return {}

    engine.respond = look
    gate.ask(who(Role.OPERATE), "drain", {}, command_id="c-1").result(LIMIT_S)
    assert seen == [1]
    found = verify(tmp_path / "audit.log")
    assert (found.records, found.problems) == (2, [])
    assert [row["command_id"] for row in engine.recorded] == ["c-1", "c-1"], "the event log has a copy"


def test_the_audit_log_holds_no_document_and_no_body(tmp_path: Path, gate: Gate) -> None:
    gate.ask(who(Role.ADMIN), "test_task", {"service": "ocr", "body": '"my secret"'}).result(LIMIT_S)
    gate.ask(who(Role.ADMIN), "config_apply", {"document": '{"network": "my secret"}'}).result(LIMIT_S)
    text = (tmp_path / "audit.log").read_text()
    assert "my secret" not in text
    assert "sha256" in text


@pytest.mark.parametrize("has_audit", [True, False])
def test_without_an_audit_log_changes_are_refused_except_disable(
    tmp_path: Path, engine: FakeEngine, has_audit: bool
) -> None:
    place = tmp_path / "file" / "below"
    (tmp_path / "file").write_text("no directory can be here")
    with gate_at(place, engine, has_audit=has_audit) as gate:
        for name, command in COMMANDS.items():
            answer = gate.ask(who(Role.ADMIN), name, arguments_of(name))
            if not command.is_change or name == "disable":
                answer.result(LIMIT_S)
                continue
            assert refusal(answer).code == 503
            assert "audit" in refusal(answer).text
        assert {name for name, _ in engine.asked if COMMANDS[name].is_change} == {"disable"}


def test_the_audit_log_can_be_mended_while_the_broker_runs(tmp_path: Path, engine: FakeEngine) -> None:
    place = tmp_path / "file" / "below"
    (tmp_path / "file").write_text("in the way")
    with gate_at(place, engine) as gate:
        assert refusal(gate.ask(who(Role.ADMIN), "drain", {})).code == 503
        (tmp_path / "file").unlink()
        gate.ask(who(Role.ADMIN), "drain", {}).result(LIMIT_S)
        assert gate.audit is not None
        assert gate.audit.why == ""


def test_many_denials_of_one_source_become_counted_records(tmp_path: Path, engine: FakeEngine) -> None:
    with gate_at(tmp_path, engine) as gate:
        for _ in range(100):
            gate.ask(who(Role.VIEW), "drain", {})
        gate.ask(who(Role.VIEW, source="10.0.0.8"), "drain", {})
        settle(gate)
        assert gate.audit is not None
        assert [row["source"] for row in gate.audit.rows].count("10.0.0.7") == 5
        assert [row["source"] for row in gate.audit.rows].count("10.0.0.8") == 1
    counted = gate.audit.rows[0]
    assert (counted["outcome"], counted["count"]) == ("denied", 95)
    assert verify(tmp_path / "audit.log").is_good


def test_a_wrong_password_is_denied_and_audited(tmp_path: Path, engine: FakeEngine) -> None:
    managed_by(tmp_path, {"ann": "open sesame"}, role="operate")
    with gate_at(tmp_path, engine) as gate:
        assert refusal(gate.authenticate("ann", "guess", "local")).code == 401
        known = gate.authenticate("ann", "open sesame", "local").result(LIMIT_S)
        assert (known.user, known.role, known.door) == ("ann", Role.OPERATE, "managementreq")
        assert rows(gate) == [("login", "denied", 401)]


# --- events -----------------------------------------------------------------------------------------------------------


def test_commands_and_denials_are_events_with_the_commands_id(gate: Gate) -> None:
    heard: list[dict[str, object]] = []
    gate.events.on_event = heard.append
    gate.ask(who(Role.OPERATE), "kick_worker", {"worker": "w-12"}, command_id="c-7").result(LIMIT_S)
    gate.ask(who(Role.VIEW), "drain", {})
    settle(gate)
    assert [(row["kind"], row["command"], row["target"], row["command_id"]) for row in heard] == [
        ("command", "kick_worker", "w-12", "c-7"),
        ("denied", "drain", "", ""),
    ]
    assert gate.events.rows() == heard[::-1]


# --- for several brokers ----------------------------------------------------------------------------------------------


def answered(result: object) -> Future[object]:
    answer: Future[object] = Future()
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)
    return answer


def test_a_command_for_all_has_a_result_for_each_and_says_if_it_is_partial(gate: Gate, engine: FakeEngine) -> None:
    engine.others = {"b2": answered({"state": "draining"}), "b3": answered(ProtocolError(503, "silent for 14 s"))}
    result = gate.ask(who(Role.OPERATE), "drain", {}, command_id="c-1", brokers="all").result(LIMIT_S)
    assert result == {
        "command_id": "c-1",
        "complete": False,
        "results": [
            {"broker": "b1", "code": 200, "result": {"done": "drain"}},
            {"broker": "b2", "code": 200, "result": {"state": "draining"}},
            {"broker": "b3", "code": 503, "text": "silent for 14 s"},
        ],
    }
    ((request, brokers),) = engine.passed
    assert (request.auth_id, request.role, request.auth_password, request.command_id) == ("ann", "operate", "", "c-1")
    assert brokers == "all"
    assert rows(gate) == [("drain", "begun", 0), ("drain", "done", 207)]


def test_a_command_for_others_is_not_carried_out_here(gate: Gate, engine: FakeEngine) -> None:
    engine.others = {"b2": answered({})}
    result = gate.ask(who(Role.OPERATE), "drain", {}, brokers=["b2"]).result(LIMIT_S)
    assert [row["broker"] for row in result["results"]] == ["b2"]
    assert result["complete"] is True
    assert engine.asked == []


def test_a_role_is_checked_before_anything_is_passed_on(gate: Gate, engine: FakeEngine) -> None:
    assert refusal(gate.ask(who(Role.VIEW), "drain", {}, brokers="all")).code == 403
    assert engine.passed == []
