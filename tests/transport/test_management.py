"""MANAGEMENTREQ to real brokers: by password, by peers, for one and for all; and the page's process beside them."""

from __future__ import annotations

import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from scale0.client.manager import manage
from scale0.core.settings import ManagementSettings
from scale0.errors import ProtocolError, SessionRefused, SettingsError, Unreachable
from scale0.management.audit import verify
from scale0.management.vocabulary import Role
from scale0.protocol import codec
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import Connect, Error, ManagementRep, ManagementReq
from scale0.testing import TestBroker, broker, managed_by, running_network

LIMIT_S = 60.0
PASSWORD = "open sesame"


def ask(endpoint: str, command: str, password: str = PASSWORD, timeout_s: float = LIMIT_S, **more: Any) -> Any:
    arguments = {name: more.pop(name) for name in list(more) if name not in ("brokers", "command_id")}
    return manage(endpoint, command, arguments, auth_id="ann", auth_password=password, timeout_s=timeout_s, **more)


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, what
        threading.Event().wait(0.02)


def audit_of(endpoint: str) -> list[dict[str, Any]]:
    """The newest first."""
    rows: list[dict[str, Any]] = ask(endpoint, "list", what="audit")["rows"]
    return rows


@pytest.fixture
def managed(tmp_path: Path) -> dict[str, Any]:
    return {**managed_by(tmp_path, {"ann": PASSWORD})}


@pytest.fixture
def running(managed: dict[str, Any]) -> Iterator[TestBroker]:
    with broker(identity="b1", management=managed) as made:
        yield made


# --- one broker -------------------------------------------------------------------------------------------------------


def test_a_command_is_authenticated_audited_carried_out_and_answered(running: TestBroker, tmp_path: Path) -> None:
    assert ask(running.endpoint, "drain", command_id="c-1")["state"] == "draining"
    found = verify(tmp_path / "audit-b1.log")
    assert (found.records, found.problems) == (2, [])
    done, begun = audit_of(running.endpoint)
    assert [(row["user"], row["role"], row["door"], row["outcome"]) for row in (begun, done)] == [
        ("ann", "admin", "managementreq", "begun"),
        ("ann", "admin", "managementreq", "done"),
    ]
    assert done["command_id"] == "c-1"
    events = ask(running.endpoint, "list", what="events")["rows"]
    assert ("command", "drain", "c-1") in [(row["kind"], row["command"], row["command_id"]) for row in events]


def test_a_wrong_password_is_refused_and_audited(running: TestBroker) -> None:
    with pytest.raises(SessionRefused) as caught:
        ask(running.endpoint, "drain", password="guess")
    assert "401" in str(caught.value)
    (denied,) = audit_of(running.endpoint)
    assert (denied["command"], denied["outcome"], denied["code"]) == ("login", "denied", 401)


def test_without_users_nobody_is_let_in_and_the_cure_is_named() -> None:
    with broker() as lone, pytest.raises(SessionRefused, match="scale0 user add"):
        ask(lone.endpoint, "list")


def test_a_user_who_was_removed_or_changed_is_let_in_no_longer(running: TestBroker, tmp_path: Path) -> None:
    ask(running.endpoint, "list")
    managed_by(tmp_path, {"ann": "another one"})
    with pytest.raises(SessionRefused):
        ask(running.endpoint, "list")
    ask(running.endpoint, "list", password="another one")


def test_a_role_that_does_not_suffice_is_403_and_names_the_one_that_does(tmp_path: Path) -> None:
    management = managed_by(tmp_path, {"ann": PASSWORD}, role="view")
    with broker(management=management) as made:
        with pytest.raises(SessionRefused, match="needs the role operate"):
            ask(made.endpoint, "drain")
        ask(made.endpoint, "list", what="workers")
        with pytest.raises(SessionRefused, match="needs the role operate"):
            ask(made.endpoint, "list", what="audit")


def test_a_disabled_broker_is_silent_to_all_but_an_authorised_enable(running: TestBroker) -> None:
    ask(running.endpoint, "disable")
    for command, password in (("list", PASSWORD), ("drain", PASSWORD), ("enable", "guess")):
        with pytest.raises(Unreachable):
            ask(running.endpoint, command, password=password, timeout_s=0.5)
    assert ask(running.endpoint, "enable") == {"state": "active"}


def test_over_a_socket_that_others_can_reach_without_encryption_nothing_is_managed(managed: dict[str, Any]) -> None:
    with broker(bind="tcp://0.0.0.0:0", backend="tcp://127.0.0.1:0", management=managed) as made:
        here = made.endpoint.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(SessionRefused, match="encrypted sockets, or on this machine"):
            ask(here, "list")
        (denied,) = audit_of(made.backend)
        assert (denied["code"], denied["source"]) == (403, "unencrypted")


def test_alarms_and_the_verdict_are_listed(running: TestBroker) -> None:
    overview = ask(running.endpoint, "list", what="overview")
    told = overview if "verdict" in overview else overview["rows"][0]
    assert told["verdict"]["level"] in ("ok", "warn", "bad")
    assert ask(running.endpoint, "list", what="alarms")["schema"] == "scale0.alarms/1"
    until(lambda: ask(running.endpoint, "list")["rows"][0]["rss_bytes"] is not None, "the watch looks")
    (row,) = ask(running.endpoint, "list")["rows"]
    assert row["rss_bytes"] > 1_000_000
    assert row["connections"] >= 0


def test_the_same_answers_come_from_a_process_of_its_own(managed: dict[str, Any], tmp_path: Path) -> None:
    with broker(process=True, identity="b1", management=managed, state_dir=tmp_path / "state") as made:
        assert ask(made.endpoint, "list")["rows"][0]["identity"] == "b1"
        assert ask(made.endpoint, "disable") == {"state": "disabled"}
        assert ask(made.endpoint, "enable") == {"state": "active"}
        made.restart(kill=True)
        assert [row["command"] for row in audit_of(made.endpoint)] == ["enable", "enable", "disable", "disable"]
    assert verify(tmp_path / "state" / "audit.log").is_good


def test_a_copy_of_the_audit_is_recorded(managed: dict[str, Any], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from scale0.telemetry import catalogue
    from scale0.telemetry.place import Place

    with broker(identity="b1", management=managed, telemetry=tmp_path / "telemetry") as made:
        ask(made.endpoint, "balance", command_id="c-9")
    place = Place(tmp_path / "telemetry" / "data")
    rows = [row for entry in catalogue.read(place, "b1") for row in pq.read_table(place.path(entry.path)).to_pylist()]
    audited = [row for row in rows if row["kind"] == "audit"]
    assert [(row["subject"], row["what"]) for row in audited] == [("ann", "balance")] * 2
    assert "c-9" in str(audited[0])


# --- a network --------------------------------------------------------------------------------------------------------


def link_of(asked: TestBroker, identity: str) -> str:
    rows = asked.manage("list", what="network")["rows"]
    return next(str(row["link"]) for row in rows if row["identity"] == identity)


def test_a_command_for_all_is_carried_out_and_audited_by_each(managed: dict[str, Any], tmp_path: Path) -> None:
    with running_network(3, management={**managed, "plain_peers": "operate"}) as network:
        first, _, third = network.brokers
        result = ask(first.endpoint, "balance", brokers="all", command_id="c-1")
        assert result["complete"] is True
        assert [(row["broker"], row["code"]) for row in result["results"]] == [
            ("broker-1", 200),
            ("broker-2", 200),
            ("broker-3", 200),
        ]
        done, _ = audit_of(third.endpoint)
        assert (done["user"], done["role"], done["door"], done["source"]) == ("ann", "operate", "peer", "broker-1")
        assert done["command_id"] == "c-1"
        third.kill()
        until(lambda: link_of(first, "broker-3") != "up", "the loss is noticed")
        partial = ask(first.endpoint, "balance", brokers="all")
        assert partial["complete"] is False
        lost = partial["results"][2]
        assert (lost["broker"], lost["code"]) == ("broker-3", 503)
        assert lost["text"].startswith("silent for ")


def test_peers_without_a_key_may_by_default_only_look(managed: dict[str, Any]) -> None:
    with running_network(2, management=managed) as network:
        first, second = network.brokers
        looked = ask(first.endpoint, "list", what="workers", brokers="all")
        assert looked["complete"] is True
        refused = ask(first.endpoint, "drain", brokers=["broker-2"])["results"]
        assert [(row["broker"], row["code"]) for row in refused] == [("broker-2", 403)]
        assert "what broker-1 passes on may have view here" in refused[0]["text"]
        assert second.listing("brokers")["broker"]["state"] == "active"
        assert [(row["door"], row["outcome"]) for row in audit_of(second.endpoint)] == [("peer", "denied")]


def test_the_network_shows_how_each_broker_says_that_it_does(managed: dict[str, Any]) -> None:
    with running_network(2, management=managed) as network:
        first = network.brokers[0]

        def told() -> list[bool]:
            rows = ask(first.endpoint, "list", what="network")["rows"]
            return [row["rss_bytes"] is not None and row["tasks_per_s"] == 0.0 for row in rows]

        until(lambda: told() == [True, True], "both have told their memory and their rate")


class Forger:
    """Somebody who says that it is a broker."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(endpoint)
        self.say(Connect(identity="evil", nonce=os.urandom(8), is_joining=True))

    def say(self, message: Any) -> None:
        self._socket.send_multipart(codec.encode(PEER, message))

    def command(self, name: str, role: str = "admin") -> int:
        """The code that answers it."""
        self.say(ManagementReq(auth_id="root", auth_password="", seq=99, command=name, role=role))
        while self._socket.poll(int(LIMIT_S * 1000)):
            _, message = codec.decode(self._socket.recv_multipart())
            if isinstance(message, ManagementRep) and message.seq == 99:
                return 200
            if isinstance(message, Error) and message.seq == 99:
                return int(message.code)
        raise AssertionError("no answer")

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.mark.parametrize(
    ("granted", "expected"),
    [("none", [403, 403, 403]), ("view", [200, 403, 403]), ("operate", [200, 200, 403]), ("admin", [200, 200, 200])],
)
def test_a_forged_peer_commands_nothing_beyond_what_plain_peers_may(
    managed: dict[str, Any], granted: str, expected: list[int]
) -> None:
    with broker(management={**managed, "plain_peers": granted}) as made:
        forger = Forger(made.endpoint)
        try:
            assert [forger.command(name) for name in ("list", "reload_config", "heal")] == expected
            assert forger.command("list", role="emperor") == 403
        finally:
            forger.close()


def test_a_forged_peer_commands_nothing_from_afar_without_encryption(managed: dict[str, Any]) -> None:
    management = {**managed, "plain_peers": "admin"}
    with broker(bind="tcp://0.0.0.0:0", management=management) as made:
        forger = Forger(made.endpoint.replace("0.0.0.0", "127.0.0.1"))
        try:
            assert forger.command("list") == 403
        finally:
            forger.close()


# --- the page ---------------------------------------------------------------------------------------------------------


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_without_a_page_there_is_none_and_it_says_how_to_get_one(running: TestBroker) -> None:
    with pytest.raises(SettingsError, match="--manage"):
        running.server.page_url  # noqa: B018
    with pytest.raises(SettingsError, match="--manage"):
        running.server.new_token(Role.VIEW)


def test_the_page_is_up_started_again_when_it_dies_and_gone_with_the_broker(managed: dict[str, Any]) -> None:
    with broker(management={**managed, "http": "127.0.0.1:0"}) as made:
        page = made.server.management._page
        assert page is not None
        first_url, first = made.server.page_url, page.pid
        assert is_up(first_url)
        os.kill(first, signal.SIGKILL)
        until(lambda: page.pid not in (0, first) and page.why == "", "it is started again")
        second = page.pid
        assert is_up(made.server.page_url)
    until(lambda: not is_alive(second), "it ends with the broker")
    assert not is_alive(first)


def test_the_page_does_not_outlive_a_broker_that_was_killed(managed: dict[str, Any]) -> None:
    with broker(process=True, management={**managed, "http": "127.0.0.1:0"}) as made:
        until(lambda: bool(children_of(made.pid)), "the page is started")
        pages = children_of(made.pid)
        made.kill()
        until(lambda: not any(map(is_alive, pages)), "the page ends with the broker")


def test_a_page_that_cannot_be_up_says_why_and_the_broker_serves_on(managed: dict[str, Any]) -> None:
    with broker(management={**managed, "http": "0.0.0.0:0"}) as made:
        with pytest.raises(SettingsError, match=r"TLS|tls"):
            made.server.page_url  # noqa: B018
        assert ask(made.endpoint, "list")["rows"]


def test_management_of_the_caller_wins_over_that_of_the_settings(tmp_path: Path) -> None:
    from scale0.core.settings import BrokerSettings
    from scale0.transport.logs import make_log
    from scale0.transport.server import Server

    told = ManagementSettings(users=str(tmp_path / "users.json"))
    server = Server(BrokerSettings(), "tcp://127.0.0.1:0", log=make_log(is_quiet=True), management=told)
    assert server.broker.state.local.management == told
    server.close()


def test_too_many_calls_of_the_loop_refuse_a_command(running: TestBroker) -> None:
    loop = running.server.loop
    hold, go_on = threading.Event(), threading.Event()

    def block() -> list[Any]:
        hold.set()
        assert go_on.wait(LIMIT_S)
        return []

    loop.call(block)
    assert hold.wait(LIMIT_S)
    answers = [running.server.manage("list") for _ in range(1_100)]
    go_on.set()
    refused = [answer for answer in answers if isinstance(answer.exception(LIMIT_S), ProtocolError)]
    assert refused
    assert {int(msgspec.convert(answer.exception().code, int)) for answer in refused} == {429}  # type: ignore[union-attr]
