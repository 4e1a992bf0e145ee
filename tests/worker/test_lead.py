"""The lead: lent while handlers run, taken by the deputy if they do not come back."""

from __future__ import annotations

import threading

from scale0.worker.lead import Lead

LIMIT_S = 60.0


def test_work_is_done_by_the_leader_itself() -> None:
    pairs: list[tuple[threading.Thread, threading.Thread]] = []
    is_done = threading.Event()

    def main() -> None:
        leader = threading.current_thread()
        while len(pairs) < 100:
            if not lead.lend(lambda: pairs.append((leader, threading.current_thread()))):
                return  # on a busy machine even this may seem long, and the deputy goes on
        lead.end()
        is_done.set()

    lead = Lead(main)
    lead.start()
    assert is_done.wait(LIMIT_S)
    assert all(leader is worker for leader, worker in pairs)


def test_a_leader_that_is_kept_is_relieved_again_and_again() -> None:
    gate = threading.Event()
    leaders: list[threading.Thread] = []
    lost: list[threading.Thread] = []
    is_done = threading.Event()
    has_returned = threading.Semaphore(0)

    def be_kept() -> None:
        gate.wait(LIMIT_S)

    def main() -> None:
        me = threading.current_thread()
        leaders.append(me)
        if len(leaders) == 4:
            lead.end()
            is_done.set()
        elif not lead.lend(be_kept):
            lost.append(me)
            has_returned.release()

    lead = Lead(main)
    lead.start()
    assert is_done.wait(LIMIT_S)  # three leaders in a row were kept, and the fourth one ends it
    gate.set()
    for _ in range(3):
        assert has_returned.acquire(timeout=LIMIT_S)
    assert len(set(leaders)) == 4
    assert set(lost) == set(leaders[:3])


def test_the_deputy_goes_when_all_is_over() -> None:
    is_done = threading.Event()

    def main() -> None:
        lead.lend(lambda: None)
        lead.end()
        is_done.set()

    lead = Lead(main)
    before = set(threading.enumerate())
    lead.start()
    assert is_done.wait(LIMIT_S)
    for thread in set(threading.enumerate()) - before:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
