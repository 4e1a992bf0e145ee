"""`scale0 config apply` and `rollback`: what is shown, what is asked, what is sent, and how it ends."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scale0.cli import config_change
from scale0.cli.config_change import Door, Terms
from scale0.cli.config_source import Source
from scale0.cli.failures import Exit
from scale0.cli.render import Page
from scale0.errors import DeadlineExceeded, Scale0Error, Unreachable, UsageError, task_error
from scale0.protocol import documents
from scale0.protocol.network import Document
from tests.cli.canned import config, document, listing, network_broker, past_config

YES = Terms(is_yes=True)


def wanted(**changes: Any) -> Source:
    plain = json.dumps(document(**changes)).encode()
    return Source("network.toml", documents.decode(plain, "JSON", Document))


class Network:
    """A network that answers as it is told and remembers what it was sent."""

    def __init__(self, *configs: dict[str, Any], refusal: Scale0Error | None = None) -> None:
        self.configs = list(configs) or [config(), config(version="1.43.0000abcd")]
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.questions: list[str] = []
        self.pauses = 0
        self._refusal = refusal
        self._file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    def ask(self, service: str) -> bytes:
        if service == "scale0.network":
            return listing("network", network_broker("eu-1"), network_broker("eu-2", workers=9))
        if service == "scale0.config_history":
            older = past_config("1.41.0badcafe", document=document(liveness=9))
            return listing("config_history", past_config("1.42.00c0ffee", "current"), older)
        if not self.configs:
            raise Unreachable({"tcp://eu-1:5555": "silent"}, 3.0)
        return listing("config", self.configs.pop(0) if len(self.configs) > 1 else self.configs[0])

    def manage(self, command: str, arguments: dict[str, Any]) -> Any:
        self.sent.append((command, arguments))
        if self._refusal is not None:
            raise self._refusal
        return {"version": "1.43.0000abcd", "changed": True}

    def door(self, confirm: Callable[[str], bool] | None = None) -> Door:
        return Door(self.ask, self.manage, Page(self._file), confirm, self.pause)

    def pause(self, _seconds: float) -> None:
        self.pauses += 1

    def answer(self, said: bool) -> Callable[[str], bool]:
        def confirm(question: str) -> bool:
            self.questions.append(question)
            return said

        return confirm

    @property
    def lines(self) -> list[str]:
        self._file.seek(0)
        return self._file.read().splitlines()


def test_a_change_is_shown_sent_with_its_base_and_waited_for() -> None:
    network = Network()
    terms = Terms(comment="shorter", is_yes=True)
    assert config_change.apply(wanted(liveness=4), network.door(), terms) == Exit.GOOD
    assert network.lines == [
        "● 1.42.00c0ffee → network.toml: 1 change",
        "liveness 3 → 4",
        "● applied 1.43.0000abcd to prod: 3 brokers run it",
    ]
    [(command, arguments)] = network.sent
    assert command == "config_apply"
    assert json.loads(arguments.pop("document"))["liveness"] == 4
    assert arguments == {"base": "1.42.00c0ffee", "comment": "shorter", "force": False}


def test_nothing_to_change_is_not_sent() -> None:
    network = Network()
    assert config_change.apply(wanted(), network.door(network.answer(True)), Terms()) == Exit.GOOD
    assert network.lines == ["● nothing to change: prod runs it as 1.42.00c0ffee"]
    assert (network.sent, network.questions) == ([], [])


def test_a_document_without_brokers_takes_none_out() -> None:
    network = Network()
    config_change.apply(wanted(brokers=[], liveness=4), network.door(), YES)
    assert network.lines[1] == "liveness 3 → 4"
    assert "brokers" not in json.loads(network.sent[0][1]["document"])


def test_brokers_that_joined_stay_also_where_the_file_does_not_list_them() -> None:
    brokers = [*document()["brokers"], {"identity": "ap-1", "joined": True}]
    network = Network(config(document=document(brokers=brokers)))
    assert config_change.apply(wanted(), network.door(), YES) == Exit.GOOD
    assert network.lines == ["● nothing to change: prod runs it as 1.42.00c0ffee"]


def test_workers_that_would_move_are_told_of() -> None:
    network = Network()
    brokers = [{"identity": "eu-1", "group": "eu"}, {"identity": "us-1", "group": "us"}]
    config_change.apply(wanted(brokers=brokers), network.door(), Terms(is_dry_run=True))
    assert network.lines == [
        "! 1.42.00c0ffee → network.toml: 1 change",
        "broker.eu-2 removed  ! 9 workers move",
        "dry run: nothing was changed",
    ]
    assert network.sent == []


@pytest.mark.parametrize(("is_yes", "code", "sent"), [(True, Exit.GOOD, 1), (False, Exit.BAD_ANSWER, 0)])
def test_the_operator_is_asked_in_a_terminal(is_yes: bool, code: Exit, sent: int) -> None:
    network = Network()
    assert config_change.apply(wanted(liveness=4), network.door(network.answer(is_yes)), Terms()) == code
    assert network.questions == ["Apply this change to prod?"]
    assert len(network.sent) == sent


def test_who_has_said_yes_is_not_asked() -> None:
    network = Network()
    assert config_change.apply(wanted(liveness=4), network.door(network.answer(False)), YES) == Exit.GOOD
    assert network.questions == []


def test_without_a_terminal_nobody_is_asked() -> None:
    network = Network()
    assert config_change.apply(wanted(liveness=4), network.door(None), Terms()) == Exit.GOOD
    assert len(network.sent) == 1


def test_force_is_passed_on() -> None:
    network = Network()
    config_change.apply(wanted(liveness=4), network.door(), Terms(is_yes=True, is_forced=True))
    assert network.sent[0][1]["force"] is True


def test_brokers_that_get_it_late_are_waited_for() -> None:
    late = config(version="1.43.0000abcd", behind=["eu-2"])
    network = Network(config(), config(), late, config(version="1.43.0000abcd"))
    assert config_change.apply(wanted(liveness=4), network.door(), YES) == Exit.GOOD
    assert network.pauses == 2


def test_a_broker_that_stays_behind_makes_it_partial() -> None:
    network = Network(config(), config(version="1.43.0000abcd", behind=["eu-2"]))
    assert config_change.apply(wanted(liveness=4), network.door(), Terms(is_yes=True, timeout_s=0.0)) == Exit.PARTIAL
    assert network.lines[-2:] == [
        "! applied 1.43.0000abcd to prod: 2 brokers run it, eu-2 is behind",
        "Next: scale0 network   (who is behind?)",
    ]


def test_a_broker_that_cannot_be_asked_is_told_of_and_not_waited_for() -> None:
    network = Network(config(), config(version="1.43.0000abcd", unknown=["us-1"]))
    assert config_change.apply(wanted(liveness=4), network.door(), YES) == Exit.GOOD
    assert network.lines[-1] == "! applied 1.43.0000abcd to prod: 2 brokers run it, us-1 cannot be asked"


def test_a_newer_version_by_somebody_else_ends_the_wait_too() -> None:
    network = Network(config(), config(version="2.1.00000000"))
    assert config_change.apply(wanted(liveness=4), network.door(), YES) == Exit.GOOD
    assert network.pauses == 0


def test_the_broker_that_was_asked_may_itself_be_behind() -> None:
    network = Network(config(), config())
    assert config_change.apply(wanted(liveness=4), network.door(), Terms(is_yes=True, timeout_s=0.0)) == Exit.PARTIAL
    assert "still runs 1.42.00c0ffee" in network.lines[-2]


def test_a_change_that_silences_the_broker_that_was_asked_is_partial() -> None:
    network = Network(config())

    def manage(command: str, arguments: dict[str, Any]) -> Any:
        network.configs = []
        return {"version": "1.43.0000abcd"}

    door = Door(network.ask, manage, Page(network._file), None, network.pause)
    assert config_change.apply(wanted(liveness=4), door, YES) == Exit.PARTIAL
    assert network.lines[-1].startswith("! applied 1.43.0000abcd, but who runs it cannot be asked: no broker at")


@pytest.mark.parametrize(
    ("code", "text", "cure"),
    [
        (400, "config: liveness: must be above 0", ""),
        (409, "the config is at 1.43.0000abcd by now", "scale0 config diff 1.42.00c0ffee; then apply again"),
        (503, "no config broker can be reached (eu-1); or use --force", "--force"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(code: int, text: str, cure: str, capsys: pytest.CaptureFixture[str]) -> None:
    network = Network(refusal=task_error(code, text))
    assert config_change.apply(wanted(liveness=4), network.door(), YES) == Exit.REFUSED
    told = capsys.readouterr().err
    assert text in told
    assert cure in told


def test_an_answer_that_never_came_is_no_refusal() -> None:
    network = Network(refusal=task_error(504, "the sequencer did not answer"))
    with pytest.raises(DeadlineExceeded):
        config_change.apply(wanted(liveness=4), network.door(), YES)


def test_a_rollback_names_the_whole_version() -> None:
    network = Network()
    terms = Terms(comment="too slow", is_yes=True)
    assert config_change.rollback("41", network.door(), terms) == Exit.GOOD
    assert network.sent == [("config_rollback", {"version": "1.41.0badcafe", "comment": "too slow", "force": False})]
    assert network.lines[:2] == ["● 1.42.00c0ffee → 1.41.0badcafe: 1 change", "liveness 3 → 9"]


def test_a_rollback_may_be_forced_while_no_config_broker_can_be_reached() -> None:
    network = Network()
    assert config_change.rollback("41", network.door(), Terms(is_yes=True, is_forced=True)) == Exit.GOOD
    assert network.sent == [("config_rollback", {"version": "1.41.0badcafe", "comment": "", "force": True})]


def test_a_rollback_to_what_runs_changes_nothing() -> None:
    network = Network()
    assert config_change.rollback("42", network.door(), YES) == Exit.GOOD
    assert network.sent == []


def test_a_manager_needs_credentials_and_a_dry_run_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCALE0_AUTH_ID", raising=False)
    with pytest.raises(UsageError, match="credentials"):
        config_change.manager(["tcp://127.0.0.1:9"], None, Terms())
    config_change.manager(["tcp://127.0.0.1:9"], None, Terms(is_dry_run=True))


def test_every_address_is_tried_before_it_is_given_up(tmp_path: Path) -> None:
    auth = tmp_path / "auth"
    auth.write_text("ops:secret")
    auth.chmod(0o600)
    # Ports 9 and 13 of loopback: nothing listens there, and nothing that a test starts is ever given them.
    addresses = ["tcp://127.0.0.1:9", "tcp://127.0.0.1:13"]
    manage = config_change.manager(addresses, auth, Terms(timeout_s=0.2))
    with pytest.raises(Unreachable) as caught:
        manage("config_apply", {})
    assert list(caught.value.tried) == addresses
