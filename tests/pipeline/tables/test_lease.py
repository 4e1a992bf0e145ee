"""One writer: who comes second is told who is first, and who was taken for dead writes no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from scale0.telemetry.place import Place
from scale0_pipeline.errors import LeaseHeld, LeaseLost
from scale0_pipeline.tables.lease import SILENT_S, Holder, Lease, started

DIES_WITH_THE_LEASE = """
import os, sys
from scale0.telemetry.place import Place
from scale0_pipeline.tables.lease import Lease
Lease(Place(sys.argv[1])).acquire()
os._exit(9)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def rewrite(place: Place, **changes: object) -> None:
    holder = msgspec.json.decode(place.read_bytes("pipeline", "lease.json"), type=Holder)
    place.write_atomic(("pipeline", "lease.json"), msgspec.json.encode(msgspec.structs.replace(holder, **changes)))


def test_the_second_is_told_who_is_first(place: Place) -> None:
    with Lease(place), pytest.raises(LeaseHeld, match=rf"process {os.getpid()} on .*, since \d{{4}}-"):
        Lease(place).acquire()


def test_a_lease_that_was_given_back_can_be_taken_at_once(place: Place) -> None:
    with Lease(place) as first:
        assert first.fence == 1
    with Lease(place) as second:
        assert second.fence == 2


def test_the_lease_of_a_process_that_died_is_taken_with_a_higher_fence(place: Place) -> None:
    done = subprocess.run([sys.executable, "-c", DIES_WITH_THE_LEASE, place.url], check=False)
    assert done.returncode == 9
    with Lease(place) as lease:
        assert lease.fence == 2


def test_the_lease_of_a_pid_that_is_another_process_now_is_taken(place: Place) -> None:
    Lease(place).acquire()
    rewrite(place, started="long ago")
    Lease(place).acquire()


def test_a_holder_elsewhere_counts_as_gone_after_a_long_silence(place: Place) -> None:
    first = Lease(place)
    first.acquire()
    rewrite(place, host="elsewhere")
    with pytest.raises(LeaseHeld, match="on elsewhere"):
        Lease(place).acquire()
    holder = first.holder()
    assert holder is not None
    rewrite(place, host="elsewhere", renewed_us=holder.renewed_us - int(SILENT_S * 1e6) - 1_000_000)
    Lease(place).acquire()


def test_a_holder_that_was_taken_for_dead_notices(place: Place) -> None:
    first = Lease(place)
    first.acquire()
    first.check()
    rewrite(place, is_released=True)
    Lease(place).acquire()
    with pytest.raises(LeaseLost, match="taken the lease"):
        first.check()
    first.release()
    with pytest.raises(LeaseHeld):
        Lease(place).acquire()


def test_leases_of_other_names_do_not_meet(place: Place) -> None:
    with Lease(place), Lease(place, "backfill") as other:
        assert other.fence == 1


def test_renewing_tells_whoever_listens(place: Place) -> None:
    lease = Lease(place)
    lease.acquire()
    told: list[bool] = []
    lease.on_renew = lambda: told.append(True)
    before = lease.holder()
    lease.renew()
    after = lease.holder()
    assert told == [True]
    assert before is not None
    assert after is not None
    assert after.renewed_us >= before.renewed_us


def test_a_process_is_known_by_its_start() -> None:
    assert started(os.getpid())
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    assert started(gone.pid) != started(os.getpid())
