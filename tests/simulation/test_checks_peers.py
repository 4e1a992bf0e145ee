"""What a peer has granted counts until its process ends; what it was given takes its room before it has left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scale0.protocol.messages import Connect, PeerService, PeerStatus, Task, TaskId
from scale0.simulator.checks_peers import PeerChecks

FIRST, SECOND = b"11111111", b"22222222"


def checks_of(nonce: bytes) -> PeerChecks:
    """`b2` is linked, in the process with this nonce."""
    peer = SimpleNamespace(session=SimpleNamespace(nonce=nonce, serial=0), is_linked=True)
    core = SimpleNamespace(network=SimpleNamespace(peers={"b2": peer}), sessions=SimpleNamespace(by_route={b"r": peer}))
    checks: Any = SimpleNamespace(host=None, world=SimpleNamespace(counts=_Counts()), core=core)
    return PeerChecks(checks)


class _Counts(dict[tuple[str, str], int]):
    def __missing__(self, key: tuple[str, str]) -> int:
        return 0


def connect(checks: PeerChecks, nonce: bytes) -> None:
    checks.received("b2", b"r", Connect(identity="b2", nonce=nonce))
    checks.handled()


def grant(checks: PeerChecks) -> None:
    offers = [PeerService("echo", workers=1, credit=3)]
    checks.received("b2", b"r", PeerStatus(identity="b2", state="active", epoch=1, config_version=b"", services=offers))


def test_peer_that_comes_back_after_the_broker_forgot_all_is_the_same_process() -> None:
    before = checks_of(FIRST)
    connect(before, FIRST)
    checks = checks_of(FIRST)
    checks.owes_as(before)
    grant(checks)
    connect(checks, FIRST)
    assert checks._credit == {"b2": {"echo": 3}}


def test_peer_that_was_started_anew_has_granted_nothing() -> None:
    before = checks_of(FIRST)
    connect(before, FIRST)
    checks = checks_of(SECOND)
    checks.owes_as(before)
    grant(checks)
    connect(checks, SECOND)
    assert checks._credit == {}


def test_what_was_given_to_a_peer_and_leaves_in_this_burst_takes_its_room() -> None:
    checks = checks_of(FIRST)
    core: Any = checks.core
    worker = SimpleNamespace(slots={b"1": 1, b"2": 1})
    core.network.peers["b2"].workers = {"echo": worker}
    held_back = SimpleNamespace(worker=worker, sent_s=7.0)  # until the fallback knew of it, and nobody follows any more
    just_now = SimpleNamespace(worker=worker, sent_s=9.0)
    core.ledger = SimpleNamespace(entries={b"1": held_back, b"2": just_now})
    core.stream, core.now = None, 9.0
    assert checks._held_back("b2", "echo") == 1
    checks._held["b2"] = {TaskId(b"1"): Task(TaskId(b"1"), "echo", (b"",), 100)}
    assert checks._held_back("b2", "echo") == 0
