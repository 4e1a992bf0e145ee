"""Hints at a broker: who is asked last, for how long, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core.hints import HINTS_MAX, TEXT_MAX
from scale0.core.journal import Journal
from scale0.errors import ProtocolError
from scale0.events import Note
from scale0.protocol.messages import Disconnect
from tests.core.desk import Client, Desk, Worker, only_task


@pytest.fixture
def ten(desk: Desk) -> list[Worker]:
    """Ten workers of one service with one slot each; two of them may be damped."""
    return [desk.worker(f"w{n}", "s") for n in range(10)]


def _hint(desk: Desk, worker: str, life_s: float = 3600.0, **more: Any) -> dict[str, Any]:
    expires_us = round((desk.wall_s + life_s) * 1e6)
    return {"hint_id": f"h-{worker}", "subject": worker, "expires_us": expires_us, **more}


def _tell(desk: Desk, *workers: str, version: int = 1, mode: str = "enforce", **more: Any) -> Any:
    return desk.manage("hints", version=version, mode=mode, hints=[_hint(desk, name, **more) for name in workers])


def _asked(desk: Desk, client: Client, count: int) -> list[str]:
    """Who gets the client's next tasks, while none is answered."""
    asked = []
    for _ in range(count):
        client.submit("s")
        asked.append(desk.sent[0][0])
    return asked


def test_a_damped_worker_is_asked_last(desk: Desk, ten: list[Worker]) -> None:
    assert _tell(desk, "w0", "w3")["damped"] == ["w0", "w3"]
    client = desk.client("c")
    asked = _asked(desk, client, 10)
    assert asked == ["w1", "w2", "w4", "w5", "w6", "w7", "w8", "w9", "w0", "w3"]
    assert client.submit("s") == []  # all are busy: it waits
    assert desk.broker.census().queued == 1


def test_a_freed_damped_worker_takes_what_waits(desk: Desk, ten: list[Worker]) -> None:
    _tell(desk, "w0")
    client = desk.client("c")
    tasks = [only_task(client.submit("s"), name) for name in [f"w{n}" for n in range(1, 10)] + ["w0"]]
    client.submit("s")
    sent = ten[0].reply(tasks[-1])
    assert [name for name, _ in sent] == ["c", "w0"]


def test_in_shadow_nothing_changes_but_a_count(desk: Desk, ten: list[Worker]) -> None:
    _tell(desk, "w0", mode="shadow")
    client = desk.client("c")
    assert _asked(desk, client, 2) == ["w0", "w1"]
    row = desk.manage("list", what="hints")["rows"][0]
    assert (row["worker"], row["passed"], row["is_damped"]) == ("w0", 1, False)


def test_advice_is_told_to_people_and_not_followed(desk: Desk, ten: list[Worker]) -> None:
    _tell(desk, "w0", mode="advise", reason="9 sessions within an hour")
    assert "w0: 9 sessions" in desk.others[0].text  # type: ignore[union-attr]
    assert _asked(desk, desk.client("c"), 1) == ["w0"]


def test_expired_hints_leave_plain_lru(desk: Desk, ten: list[Worker]) -> None:
    _tell(desk, "w0", life_s=5.0)
    client = desk.client("c")
    task = only_task(client.submit("s"), "w1")
    ten[1].reply(task)
    for worker in ten:
        worker.ping()
    desk.pass_time(5.1)
    assert desk.broker.state.damped == {}
    assert desk.manage("list", what="hints")["rows"] == []
    assert _asked(desk, client, 3) == ["w0", "w2", "w3"]


def test_off_forgets_all_hints(desk: Desk, ten: list[Worker]) -> None:
    _tell(desk, "w0")
    assert _tell(desk, "w0", version=2, mode="off")["hints"] == 0
    assert _asked(desk, desk.client("c"), 1) == ["w0"]


def test_a_damped_worker_that_comes_back_is_still_damped(desk: Desk, ten: list[Worker]) -> None:
    _tell(desk, "w0")
    ten[0].say(Disconnect())
    desk.worker("w0", "s", nonce=b"87654321")
    assert _asked(desk, desk.client("c"), 10)[-1] == "w0"


def test_no_more_than_a_fifth_of_the_slots_is_damped(desk: Desk, ten: list[Worker]) -> None:
    assert _tell(desk, "w5", "w6", "w7")["damped"] == ["w5", "w6"]
    assert _tell(desk, "w5", "w6", version=2, bound=0.1)["damped"] == ["w5"]
    assert _tell(desk, "w5", version=3, bound=1.0)["damped"] == ["w5"]
    desk.worker("big", "s", capacity=4)
    assert _tell(desk, "big", "w5", version=4)["damped"] == ["w5"]  # 4 of 14 slots are too many, 1 is not


def test_the_last_two_workers_are_never_damped(desk: Desk) -> None:
    small = desk.worker("small", "s", capacity=1)
    desk.worker("large", "s", capacity=100)
    assert _tell(desk, "small")["damped"] == []
    desk.worker("third", "s", capacity=100)
    small.ping()
    desk.pass_time(1.5)
    assert sorted(desk.broker.state.damped) == ["small"]


def test_each_service_of_a_worker_must_spare_it(desk: Desk, ten: list[Worker]) -> None:
    desk.worker("both", "s", "rare")
    desk.worker("other", "rare")
    assert _tell(desk, "both")["damped"] == []


def test_an_older_version_is_refused_and_the_same_one_changes_nothing(desk: Desk, ten: list[Worker]) -> None:
    assert _tell(desk, "w0", version=7)["changed"]
    assert not _tell(desk, "w1", version=7)["changed"]
    with pytest.raises(ProtocolError, match="hints are at 7"):
        _tell(desk, "w1", version=6)
    assert sorted(desk.broker.state.damped) == ["w0"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"mode": "always"}, "mode"),
        ({"bound": 1.5}, "bound"),
        ({"bound": float("nan")}, "bound"),
        ({"kind": "kill"}, "kind"),
        ({"life_s": 25 * 3600.0}, "at most 24 hours"),
        ({"reason": "x" * (TEXT_MAX + 1)}, "characters"),
        ({"hint_id": 5}, "hint_id"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_document_out_of_bounds_is_refused_as_a_whole(
    desk: Desk, ten: list[Worker], change: dict[str, Any], why: str
) -> None:
    with pytest.raises(ProtocolError, match=why):
        _tell(desk, "w0", **change)
    assert desk.broker.state.hints.version == 0
    assert desk.broker.state.damped == {}


def test_too_many_hints_and_two_for_one_worker_are_refused(desk: Desk) -> None:
    with pytest.raises(ProtocolError, match="at most"):
        _tell(desk, *[f"w{n}" for n in range(HINTS_MAX + 1)])
    with pytest.raises(ProtocolError, match="one for each worker"):
        _tell(desk, "w0", "w0")


def test_what_is_heard_applied_expired_and_refused_is_recorded() -> None:
    desk = Desk()
    workers = [desk.worker(f"w{n}", "s") for n in range(10)]
    desk.broker.state.journal = Journal("boot")
    _tell(desk, "w0", life_s=5.0)
    with pytest.raises(ProtocolError):
        _tell(desk, "w0", version=2, mode="always")
    _asked(desk, desk.client("c"), 3)
    for worker in workers:
        worker.ping()
    desk.pass_time(5.1)
    records = desk.broker.take_records()
    assert records is not None
    notes: list[Note] = [note for note in records.notes if note.kind == "hint"]
    assert [(note.subject, note.what, note.value) for note in notes] == [
        ("w0", "heard", None),
        ("", "refused", None),
        ("w0", "applied", 3),
        ("w0", "expired", 3),
    ]
    assert notes[0].detail["mode"] == "enforce"
    assert notes[0].detail["hint_id"] == "h-w0"
