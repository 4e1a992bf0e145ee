"""What is allowed changes while sessions are here."""

from __future__ import annotations

from scale0.protocol.codes import Code
from scale0.protocol.dialects import CLIENT, MDP1_WORKER, WORKER
from scale0.protocol.majordomo import MdpDisconnect, MdpReady
from scale0.protocol.messages import Connect, Error, Task
from tests.core.desk import NONCE, codes, only, only_task
from tests.core.keys_kit import Lobby, key, permission


def three() -> Lobby:
    lobby = Lobby(permission("w", kind="worker"), permission("v", kind="worker"), permission("c", kind="client"))
    for name in ("w", "v", "c"):
        lobby.introduce(name, name)
    return lobby


def test_revoking_ends_the_session_and_says_401() -> None:
    lobby = three()
    lobby.worker("w", "pay")
    error = only(lobby.allow(permission("c", kind="client")), "w")
    assert isinstance(error, Error)
    assert (error.code, error.fatal) == (Code.NOT_AUTHENTICATED, True)
    assert "w" not in lobby.broker.state.sessions.by_identity


def test_what_a_revoked_connection_says_later_is_not_handled() -> None:
    lobby = three()
    worker = lobby.worker("w", "pay")
    client = lobby.client("c")
    task = only_task(client.submit("pay"), "w")
    lobby.allow(permission("c", kind="client"))
    assert codes(worker.reply(task)) == [("w", Code.NOT_AUTHENTICATED)]
    assert codes(worker.ready()) == [("w", Code.NOT_AUTHENTICATED)]
    assert codes(lobby.say("w", WORKER, Connect(identity="w", nonce=NONCE))) == [("w", Code.NOT_AUTHENTICATED)]
    assert lobby.counters["late_replies"] == 0, "it did not reach the rules of tasks"
    for _ in range(4):
        worker.ping()
    assert worker.ping() == [], "and who goes on is ignored"


def test_tasks_of_a_revoked_worker_go_to_another() -> None:
    lobby = three()
    lobby.worker("w", "pay", idempotent=True)
    client = lobby.client("c")
    only_task(client.submit("pay"), "w")
    lobby.worker("v", "pay", idempotent=True)
    sent = lobby.allow(permission("v", kind="worker"), permission("c", kind="client"))
    assert [name for name, message in sent if isinstance(message, Task)] == ["v"]


def test_a_revoked_client_hears_401_and_its_tasks_end() -> None:
    lobby = three()
    client = lobby.client("c")
    worker = lobby.worker("w", "pay")
    task = only_task(client.submit("pay"), "w")
    sent = lobby.allow(permission("w", kind="worker"))
    assert ("c", Code.NOT_AUTHENTICATED) in codes(sent)
    assert worker.reply(task) == [], "nobody waits for it"
    assert lobby.broker.census().in_flight == 0


def test_a_majordomo_worker_is_told_by_disconnect() -> None:
    lobby = three()
    lobby.say("w", MDP1_WORKER, MdpReady("pay"))
    assert isinstance(only(lobby.allow(), "w"), MdpDisconnect)


def test_others_are_not_disturbed() -> None:
    lobby = three()
    lobby.worker("w", "pay")
    client = lobby.client("c")
    lobby.allow(permission("w", kind="worker"), permission("c", kind="client"))
    only_task(client.submit("pay"), "w")


def test_a_worker_loses_the_services_that_it_may_not_serve_any_more() -> None:
    lobby = three()
    lobby.worker("w", "pay", "ocr", capacity=4)
    client = lobby.client("c")
    only_task(client.submit("ocr"), "w")
    lobby.allow(permission("w", kind="worker", serve=["pay"]), permission("c", kind="client"))
    only_task(client.submit("pay"), "w")
    assert not [name for name, message in client.submit("ocr") if isinstance(message, Task)]
    assert lobby.broker.census().in_flight == 2, "what it had begun it may finish"


def test_a_client_feels_a_change_of_what_it_may_call_at_its_next_task() -> None:
    lobby = three()
    lobby.worker("w", "pay")
    client = lobby.client("c")
    lobby.allow(permission("w", kind="worker"), permission("c", kind="client", call=["ocr"]))
    assert codes(client.submit("pay")) == [("c", Code.NOT_ALLOWED)]


def test_a_kind_or_identity_that_no_longer_fits_ends_the_session() -> None:
    lobby = three()
    lobby.worker("w", "pay")
    lobby.client("c")
    sent = lobby.allow(permission("w", kind="client"), permission("c", kind="client", identities=["d"]))
    assert sorted(codes(sent)) == [("c", Code.NOT_AUTHENTICATED), ("w", Code.NOT_AUTHENTICATED)]


def test_the_shell_is_told_whom_to_admit() -> None:
    lobby = Lobby(permission("a"))
    assert lobby.admitted() == {key("a"), key("broker")}, "and the brokers of the document"
    lobby.allow()
    assert lobby.admitted() == {key("broker")}
    lobby.allow()
    assert lobby.others == [], "and not twice the same"


def test_a_next_key_of_our_own_is_entered_into_the_document() -> None:
    lobby = Lobby(identity="eu-1")
    lobby.allow(next_key=key("next"))
    lobby.pass_time(0.1)
    entry = lobby.broker.state.config.document.broker("eu-1")
    assert entry is not None
    assert (entry.public_key, entry.next_public_key) == (key("broker"), key("next"))
    assert key("next") in lobby.access.admitted()


def test_a_session_without_a_role_is_only_a_connection() -> None:
    lobby = three()
    lobby.allow()
    assert codes(lobby.say("c", CLIENT, Connect(identity="c", nonce=NONCE))) == [("c", Code.NOT_AUTHENTICATED)]
