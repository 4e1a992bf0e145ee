"""Who may do what, by key: roles, identities, services, management, and brokers."""

from __future__ import annotations

import pytest

from scale0.core import access
from scale0.core.effects import Route
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.dialects import (
    CLIENT,
    MDP1_CLIENT,
    MDP1_WORKER,
    MDP2_WORKER,
    PEER,
    REQ_CLIENT,
    WORKER,
    Dialect,
)
from scale0.protocol.majordomo import MdpDisconnect, MdpReady, MdpReply, MdpRequest
from scale0.protocol.messages import Connect, Error, ManagementReq, NeedBroker, ReadyOk, Task
from tests.core.desk import NONCE, Desk, Sent, codes, only, only_task, route_of
from tests.core.keys_kit import Lobby, key, permission


def connect(identity: str, nonce: bytes = NONCE) -> Connect:
    return Connect(identity=identity, nonce=nonce)


def refusal(sent: Sent) -> Error:
    error = only(sent, sent[0][0])
    assert isinstance(error, Error)
    return error


@pytest.mark.parametrize(
    ("kind", "dialect", "is_fit"),
    [
        ("worker", WORKER, True),
        ("worker", CLIENT, False),
        ("client", CLIENT, True),
        ("client", REQ_CLIENT, True),
        ("client", WORKER, False),
        ("any", WORKER, True),
        ("any", CLIENT, True),
        ("peer", CLIENT, False),
        ("peer", WORKER, False),
    ],
)
def test_the_role_of_a_session_must_fit_its_key(kind: str, dialect: Dialect, is_fit: bool) -> None:
    lobby = Lobby(permission("a", kind=kind))
    lobby.introduce("a", "a")
    sent = lobby.say("a", dialect, connect("a"))
    assert ("a" in lobby.broker.state.sessions.by_identity) == is_fit
    if not is_fit:
        error = refusal(sent)
        assert (error.code, error.fatal) == (Code.NOT_ALLOWED, True)
        assert f"scale0 keys allow '{key('a')}' --kind {dialect.role.value}" in error.text


def test_a_key_that_is_not_allowed_gets_401_and_the_cure() -> None:
    lobby = Lobby()
    lobby.introduce("a", "a")
    error = refusal(lobby.say("a", CLIENT, connect("a")))
    assert (error.code, error.fatal) == (Code.NOT_AUTHENTICATED, True)
    assert f"scale0 keys allow '{key('a')}'" in error.text


def test_a_connection_that_was_never_introduced_is_nobody() -> None:
    lobby = Lobby(permission("a"))
    assert codes(lobby.say("?", CLIENT, connect("a"))) == [("?", Code.NOT_AUTHENTICATED)]


def test_an_identity_must_be_one_that_its_key_may_have() -> None:
    lobby = Lobby(permission("a", identities=["pay-*"]))
    lobby.introduce("a", "a")
    assert codes(lobby.say("a", WORKER, connect("ocr-1"))) == [("a", Code.NOT_ALLOWED)]
    lobby.say("a", WORKER, connect("pay-1"))
    assert lobby.broker.state.sessions.by_identity["pay-1"].key == key("a")


def test_a_live_identity_is_never_taken_over_by_another_key() -> None:
    lobby = Lobby(permission("a"), permission("b"))
    lobby.introduce("a", "a")
    lobby.introduce("b", "b")
    lobby.say("a", CLIENT, connect("me"))
    assert codes(lobby.say("b", CLIENT, connect("me"))) == [("b", Code.NOT_ALLOWED)], "with the same nonce"
    lobby.now += 4.0  # beyond an interval: without keys it would be replaced now
    assert codes(lobby.say("b", CLIENT, connect("me", b"another!"))) == [("b", Code.NOT_ALLOWED)]
    assert lobby.broker.state.sessions.by_identity["me"].route == route_of("a")


def test_a_session_moves_with_its_key_to_another_connection() -> None:
    lobby = Lobby(permission("a"))
    for name in ("a", "again"):
        lobby.introduce(name, "a")
        lobby.say(name, CLIENT, connect("me"))
    assert lobby.broker.state.sessions.by_identity["me"].route == route_of("again")


def test_a_new_key_of_the_same_owner_keeps_the_identity() -> None:
    lobby = Lobby(permission("a"), permission("a", key=key("new")))
    lobby.introduce("a", "a")
    lobby.introduce("b", "new")
    lobby.say("a", CLIENT, connect("me"))
    lobby.say("b", CLIENT, connect("me"))
    assert lobby.broker.state.sessions.by_identity["me"].key == key("new")


def test_services_that_a_key_may_not_serve_are_refused_one_by_one() -> None:
    lobby = Lobby(permission("w", serve=["pay.*"]))
    lobby.introduce("w", "w")
    worker = lobby.worker("w", "pay.card", "ocr")
    answer = next(message for _, message in worker.ready() if isinstance(message, ReadyOk))
    assert list(answer.refused) == ["ocr"]
    assert "may not serve it" in answer.refused["ocr"]
    assert [service.name for service in lobby.broker.state.services.by_name.values() if service.workers] == ["pay.card"]


def test_a_worker_cannot_claim_another_s_service() -> None:
    lobby = Lobby(permission("w", kind="worker", serve=["pay"]), permission("x", kind="worker", serve=["ocr"]))
    lobby.introduce("w", "w")
    lobby.introduce("x", "x")
    lobby.worker("w", "pay")
    lobby.worker("x", "pay", "ocr")
    lobby.introduce("c", "c")
    lobby.allow(*(grant.permission for grant in lobby.access.grants.values()), permission("c", kind="client"))
    client = lobby.client("c")
    only_task(client.submit("pay"), "w")
    assert not [name for name, message in client.submit("pay") if isinstance(message, Task)], "x has room, and no right"


def test_a_ping_in_place_of_ready_gives_no_more_rights() -> None:
    lobby = Lobby(permission("w", serve=["pay"]))
    lobby.introduce("w", "w")
    lobby.say("w", WORKER, Connect(identity="w", nonce=NONCE, services=["ocr"]))
    worker = lobby.worker("w", "ocr")
    worker.ping()
    assert not any(service.workers for service in lobby.broker.state.services.by_name.values())


def test_a_task_for_a_service_that_a_key_may_not_call_is_refused() -> None:
    lobby = Lobby(permission("w"), permission("c", kind="client", call=["pay", "scale0.services"]))
    for name in ("w", "c"):
        lobby.introduce(name, name)
    lobby.worker("w", "pay", "ocr")
    client = lobby.client("c")
    only_task(client.submit("pay"), "w")
    assert codes(client.submit("ocr")) == [("c", Code.NOT_ALLOWED)]
    assert codes(client.submit("no-such")) == [("c", Code.NOT_ALLOWED)], "whether it exists is not told"
    assert codes(client.submit("scale0.workers")) == [("c", Code.NOT_ALLOWED)]
    assert codes(client.submit("scale0.services")) == []


def test_majordomo_workers_and_clients_have_the_same_rights() -> None:
    lobby = Lobby(permission("w", kind="worker", serve=["pay"]), permission("c", kind="client", call=["pay"]))
    for name in ("w", "c", "x", "y"):
        lobby.introduce(name, "c" if name in ("c", "y") else "w")
    lobby.say("w", MDP1_WORKER, MdpReady("pay"))
    assert [name for name, _ in lobby.say("c", MDP1_CLIENT, MdpRequest("pay", (b"x",)))] == ["w"]
    assert lobby.say("c", MDP1_CLIENT, MdpRequest("ocr", (b"x",))) == [], "errors reach Majordomo clients as silence"
    assert isinstance(only(lobby.say("x", MDP2_WORKER, MdpReady("ocr")), "x"), MdpDisconnect)
    assert isinstance(only(lobby.say("y", MDP1_WORKER, MdpReady("pay")), "y"), MdpDisconnect), "a client's key"
    assert isinstance(only(lobby.say("y", MDP1_WORKER, MdpReply(b"a" * 20, (b"x",))), "y"), MdpDisconnect)
    assert lobby.say("x", MDP1_CLIENT, MdpRequest("pay", (b"x",))) == [], "a worker's key"


@pytest.mark.parametrize("how", [{"kind": "worker"}, {"kind": "client"}, {"kind": "any"}, {"kind": "peer"}])
def test_only_a_key_that_may_manage_brings_commands(how: dict[str, str]) -> None:
    lobby = Lobby(permission("a", **how), users={"root": "secret"})
    lobby.introduce("a", "a")
    request = ManagementReq(auth_id="root", auth_password="secret", seq=7, command="drain")
    for dialect in (CLIENT, WORKER):
        error = refusal(lobby.say("a", dialect, request))
        assert (error.code, error.seq) == (Code.NOT_ALLOWED, 7)
    assert lobby.broker.state.mode == "active"
    lobby.allow(permission("a", manage=True, **how))
    lobby.say("a", CLIENT, request)
    assert lobby.broker.state.mode == "draining"


def test_needbroker_is_answered_to_fitting_keys_only() -> None:
    lobby = Lobby(permission("c", kind="client"))
    lobby.introduce("c", "c")
    ask = NeedBroker(identity="c", services=[], tried=[])
    assert codes(lobby.say("c", WORKER, ask)) == [("c", Code.NOT_ALLOWED)]
    assert codes(lobby.say("c", CLIENT, ask)) != [("c", Code.NOT_ALLOWED)]


def test_bad_messages_are_held_against_the_key_and_not_the_connection() -> None:
    lobby = Lobby(permission("a"), permission("b"))
    for number in range(8):
        lobby.introduce(f"a{number}", "a")
        lobby.garble(f"a{number}", CLIENT, ProtocolError(Code.MALFORMED, "no message"))
    assert len(lobby.broker.state.error_clients.records) == 1, "one key, one record, by however many connections"
    lobby.introduce("fresh", "a")
    assert lobby.say("fresh", CLIENT, connect("a")) == [], "it gets silence"
    lobby.introduce("b", "b")
    assert lobby.say("b", CLIENT, connect("b")) != [], "and nobody else does"


def test_what_is_no_message_gets_no_answer_without_a_good_key() -> None:
    lobby = Lobby()
    lobby.introduce("a", "a")
    assert lobby.garble("a", CLIENT, ProtocolError(Code.MALFORMED, "no message")) == []
    assert lobby.broker.state.error_clients.records == {}


def test_ten_thousand_forged_identities_leave_nothing_behind() -> None:
    lobby = Lobby(permission("a", identities=["me"]), permission("b"))
    lobby.introduce("a", "a")
    lobby.introduce("b", "b")
    for number in range(10_000):
        lobby.say("a", CLIENT, connect(f"forged-{number}"))
        lobby.broker.receive(route_of("b"), CLIENT, connect(f"forged-{number}"), lobby.now)
    state = lobby.broker.state
    assert len(state.sessions) == 1, "a connection has one session, whatever it calls itself"
    assert len(state.error_clients.records) <= 1
    assert len(state.strangers) == 0


def test_connections_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "ROUTES_MAX", 100)
    lobby = Lobby(permission("a"))
    for number in range(1_000):
        lobby.introduce(str(number), "a")
    assert len(lobby.access.keys) == 100
    assert lobby.access.key_of(route_of("999")) == key("a")
    assert lobby.access.key_of(route_of("0")) == "", "the shell introduces it again when it speaks"


def test_without_a_key_of_its_own_a_broker_asks_for_none() -> None:
    desk = Desk()
    assert desk.broker.state.access is None
    assert desk.client("a").submit("nothing")
    assert desk.broker.state.sessions.by_identity["a"].key == ""


# --- brokers ------------------------------------------------------------------------------------------------------


def test_a_broker_joins_by_a_key_that_may() -> None:
    lobby = Lobby(permission("eu-2", kind="peer", identities=["eu-2"]))
    lobby.introduce("p", "eu-2")
    assert access.why_peer_refused(lobby.broker.state, route_of("p"), "eu-2") is None
    refused = access.why_peer_refused(lobby.broker.state, route_of("p"), "eu-3")
    assert refused is not None
    assert "may not join as eu-3" in refused.text


def test_a_worker_s_key_is_no_broker_s() -> None:
    lobby = Lobby(permission("w", kind="worker"), permission("x", kind="any"))
    for name in ("w", "x"):
        lobby.introduce(name, name)
        assert codes(lobby.say(name, PEER, connect("eu-2"))) == [(name, Code.NOT_ALLOWED)]


def test_a_listed_broker_must_have_the_key_that_is_listed() -> None:
    lobby = Lobby(permission("other", kind="peer"), identity="eu-1")
    lobby.introduce("p", "other")
    refused = access.why_peer_refused(lobby.broker.state, route_of("p"), "eu-1")
    assert refused is not None, "even one that may join cannot be a broker whose key is known"
    assert "a changed key is accepted through it only" in refused.text
    assert not access.is_proven(lobby.broker.state, route_of("p"), "eu-1")


def test_the_key_of_one_broker_is_not_good_for_another() -> None:
    lobby = Lobby(identity="eu-1")
    lobby.introduce("p", "broker")  # the key of eu-1, by the document
    assert access.is_proven(lobby.broker.state, route_of("p"), "eu-1")
    refused = access.why_peer_refused(lobby.broker.state, route_of("p"), "eu-2")
    assert refused is not None
    assert "this is the key of eu-1" in refused.text


def test_a_link_that_was_dialed_is_known_by_the_key_that_was_dialed() -> None:
    lobby = Lobby(identity="eu-1")
    route = Route(b"\xffL0001")
    lobby.access.dialed[route] = key("seed")
    assert access.why_peer_refused(lobby.broker.state, route, "eu-2") is None, "an address to join by"
    assert access.why_peer_refused(lobby.broker.state, route, "eu-1") is not None


def test_the_listing_of_keys_has_no_secret_and_counts_sessions() -> None:
    lobby = Lobby(permission("w", kind="worker", serve=["pay"], until="2099-01-01T00:00:00Z"), identity="eu-1")
    lobby.introduce("w", "w")
    lobby.worker("w", "pay")
    rows = {row["name"]: row for row in access.rows(lobby.broker.state)}
    assert rows["w"] == {
        "key": key("w"),
        "name": "w",
        "kind": "worker",
        "serve": ["pay"],
        "call": ["*"],
        "identities": ["*"],
        "manage": False,
        "until": "2099-01-01T00:00:00Z",
        "sessions": 1,
    }
    assert (rows["eu-1"]["kind"], rows["eu-1"]["key"]) == ("peer", key("broker"))
