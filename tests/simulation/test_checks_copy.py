"""A copy says what its original says; but each forgets outcomes for its own caps, the oldest of a client first."""

from __future__ import annotations

from scale0.core.settings import Limits
from scale0.core.state import State
from scale0.protocol.dialects import REQ_CLIENT
from scale0.protocol.messages import Connect, Task
from scale0.simulator.checks_copy import difference
from tests.core.mesh import CLIENT_NONCE, Node, id_of, pair_of

CAP = 4


def states(replies: int, *, with_req_client: bool = False) -> tuple[State, State]:
    """A broker that keeps `CAP` outcomes, and its copy, after so many replies to ada; before them one over REQ."""
    _, primary, fallback = pair_of(limits=Limits(outcomes=CAP))
    primary.worker("w", "echo")
    if with_req_client:
        ask_over_req(primary)
    primary.client("ada")
    for sequence in range(1, replies + 1):
        primary.submit("ada", sequence, "echo")
        primary.answer("w")
    return primary.state, fallback.state


def ask_over_req(primary: Node) -> None:
    primary.say("rita", REQ_CLIENT, Connect(identity="rita", nonce=CLIENT_NONCE))
    primary.say("rita", REQ_CLIENT, Task(id_of("rita", 1), "echo", (b"body",), 10_000))
    primary.answer("w")


def kept(state: State) -> list[int]:
    return list(state.sessions.by_identity["ada"].kept)


def test_copy_may_keep_what_its_original_had_to_forget_for_a_req_client() -> None:
    original, copy = states(CAP, with_req_client=True)
    assert (kept(original), kept(copy)) == ([2, 3, 4], [1, 2, 3, 4])
    assert difference(original, copy) == ""


def test_copy_may_have_had_to_forget_the_oldest() -> None:
    original, copy = states(CAP + 1)
    ada = original.sessions.by_identity["ada"]
    ada.kept = {1: ada.kept[2], **ada.kept}
    assert (kept(original), kept(copy)) == ([1, 2, 3, 4, 5], [2, 3, 4, 5])
    assert difference(original, copy) == ""


def test_copy_that_lacks_the_newest_is_found_though_one_was_forgotten() -> None:
    original, copy = states(CAP + 1)
    del copy.sessions.by_identity["ada"].kept[5]
    assert difference(original, copy).startswith("outcome ada:5 differs: None")


def test_copy_that_lacks_the_oldest_is_found_if_nothing_had_to_be_forgotten() -> None:
    original, copy = states(CAP)
    del copy.sessions.by_identity["ada"].kept[1]
    assert difference(original, copy).startswith("outcome ada:1 differs: None")
