"""The recorder on files: sealing, full disks, and what a crash leaves behind."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale0.events import Note, Records
from scale0.telemetry import frames, log, recorder, segments
from scale0.telemetry.frames import Goodbye, Hello, Kind, Order
from scale0.telemetry.place import Place
from scale0.telemetry.recorder import MEND_S, SEAL_FOLLOWED_S, SEAL_S, SYNC_S, Recorder
from scale0.telemetry.recovery import recover
from scale0.telemetry.spool import Spool
from tests.telemetry.rows import ANCHOR_US, HELLO, NAMES, note, tasks

GIGABYTE = 10**9


class Bench:
    """A recorder with a clock of its own, in a directory."""

    def __init__(self, directory: Path, hello: Hello = HELLO) -> None:
        self.directory, self.now_s, self.said, self.is_followed = directory, 100.0, list[str](), False
        self.order = Order(str(directory), str(directory / "data"), cap_bytes=GIGABYTE)
        self.spool = Spool(directory, GIGABYTE)
        self.recorder = Recorder(
            self.order, hello, self.said.append, is_followed=lambda: self.is_followed, now=lambda: self.now_s
        )

    def put(self, *told: Records) -> None:
        for records in told:
            self.recorder.receive(frames.encode(records))

    def rows(self) -> list[dict[str, Any]]:
        """All rows in the spool, in its order."""
        found: list[dict[str, Any]] = []
        for one in self.spool.waiting():
            found += pq.read_table(one.path).to_pylist()
        return found

    def recover(self, boot: str = "another") -> int:
        return recover(self.directory, self.spool, boot, {}, self.said.append)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def seqs(rows: list[dict[str, Any]]) -> list[int]:
    return [row["seq"] for row in rows]


def test_rows_are_in_the_log_at_once_and_in_the_spool_when_sealed(bench: Bench) -> None:
    bench.put(tasks(1, 3))
    ((boot, _, path),) = log.logs(bench.directory)
    assert boot == "boot-1"
    assert len(list(log.read(path))) == 2, "what a reader must know, and the rows"
    assert bench.rows() == []
    bench.now_s += SEAL_S
    bench.recorder.step()
    assert seqs(bench.rows()) == [1, 2, 3]
    ((_, number, path),) = log.logs(bench.directory)
    assert number == 2
    assert len(list(log.read(path))) == 1, "a new log, with nothing but its beginning"


def test_frames_that_are_cut_anywhere_are_put_together(bench: Bench) -> None:
    data = frames.encode(tasks(1, 2)) + frames.encode(tasks(3, 4))
    for at in range(0, len(data), 7):
        bench.recorder.receive(data[at : at + 7])
    bench.recorder.seal()
    assert seqs(bench.rows()) == [1, 2, 3, 4]


def test_the_log_is_flushed_soon_and_only_if_there_is_something(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    bench.put(tasks(1, 1))
    assert bench.recorder.step() == pytest.approx(SYNC_S)
    bench.now_s += SYNC_S
    assert bench.recorder.step() > SYNC_S
    assert len(synced) == 1
    bench.now_s += SYNC_S
    bench.recorder.step()
    assert len(synced) == 1


def test_segments_are_sealed_more_often_while_somebody_follows(bench: Bench) -> None:
    bench.is_followed = True
    bench.put(tasks(1, 1))
    bench.now_s += SEAL_FOLLOWED_S
    bench.recorder.step()
    assert seqs(bench.rows()) == [1]


def test_nothing_is_sealed_when_nothing_came(bench: Bench) -> None:
    bench.now_s += SEAL_S
    bench.recorder.step()
    assert bench.spool.waiting() == []


def test_a_long_log_is_sealed_before_its_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "LOG_BYTES_MAX", 2_000)
    for first in range(1, 41, 10):
        bench.put(tasks(first, first + 9))
    assert len(bench.spool.waiting()) > 1
    bench.recorder.seal()
    assert seqs(bench.rows()) == list(range(1, 41))


def test_many_pieces_are_one_segment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "PIECE_BYTES", 500)
    bench.put(tasks(1, 10), Records([], [], [note(11)], []), tasks(12, 20))
    bench.recorder.seal()
    (one,) = bench.spool.waiting()
    assert (one.seq_lo, one.seq_hi) == (1, 20)
    entry = segments.entry_of(one.path.read_bytes())
    assert (entry.rows, entry.tasks, entry.broker, entry.boot) == (20, 19, "eu-1", "boot-1")
    assert seqs(bench.rows()) == list(range(1, 21))


def test_a_broker_that_says_goodbye_has_a_clean_end(bench: Bench) -> None:
    bench.put(tasks(1, 2))
    bench.recorder.receive(frames.frame(Kind.GOODBYE, Goodbye(2, 11.0)))
    bench.recorder.end()
    last = bench.rows()[-1]
    assert (last["kind"], last["seq"], last["value"]) == ("boot_end", 3, 2)
    assert json.loads(last["detail"]) == {"clean": True}
    assert log.logs(bench.directory) == []


def test_a_broker_that_does_not_has_an_end_that_is_not_clean(bench: Bench) -> None:
    bench.put(tasks(1, 2))
    bench.recorder.end()
    last = bench.rows()[-1]
    assert (last["kind"], last["seq"], last["value"]) == ("boot_end", 3, 2)
    assert json.loads(last["detail"]) == {"clean": False}


# --- no room -------------------------------------------------------------------------------------------------------


def no_room(*_: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_rows_that_find_no_room_are_counted_when_there_is_room_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(tasks(1, 2))
    with monkeypatch.context() as full:
        full.setattr("scale0.telemetry.log.os.write", no_room)
        anchor = Note(5, 10.0, "anchor", value=1_000)
        bench.put(tasks(3, 4), Records([(9, "late")], [], [anchor], []))
        bench.put(tasks(6, 7))
    bench.put(tasks(8, 8))
    assert len(bench.said) == 1
    assert "the broker goes on serving" in bench.said[0]
    bench.now_s += MEND_S
    bench.put(tasks(9, 9, service_no=9))
    assert "again" in bench.said[1]
    bench.recorder.seal()
    rows = bench.rows()
    assert seqs(rows) == [1, 2, 4, 5, 8, 9]
    lost = [(row["value"], json.loads(row["detail"])["why"]) for row in rows if row["kind"] == "dropped"]
    assert lost == [(2, "disk"), (3, "disk")]
    assert rows[-1]["service"] == "late", "names that came while there was no room are known"
    assert rows[-1]["received_us"] == ANCHOR_US + 10_000_000 + 1_000, "and so is the clock"


def test_flushing_what_was_there_is_no_proof_of_room(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(tasks(1, 2))
    with monkeypatch.context() as full:
        full.setattr("scale0.telemetry.log.os.write", no_room)
        bench.put(tasks(3, 4))
        bench.now_s += SYNC_S
        bench.recorder.step()
    assert len(bench.said) == 1
    bench.now_s += MEND_S
    bench.put(tasks(5, 5))
    assert "again" in bench.said[1]


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_run_that_ends_soon_after_a_full_disk_has_one_end_and_tells_its_losses(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_clean: bool
) -> None:
    bench.put(tasks(1, 2))
    with monkeypatch.context() as full:
        full.setattr("scale0.telemetry.log.os.write", no_room)
        bench.put(tasks(3, 4))
        if is_clean:
            bench.recorder.receive(frames.frame(Kind.GOODBYE, Goodbye(4, 11.0)))
    bench.recorder.end()
    found = [(row["seq"], row["kind"], row["value"]) for row in bench.rows()]
    assert found == [(1, "task", None), (2, "task", None), (4, "dropped", 2), (5, "boot_end", 4)]
    assert json.loads(bench.rows()[-1]["detail"]) == {"clean": is_clean}


def test_a_segment_that_finds_no_room_is_kept_and_sealed_later(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(tasks(1, 2))
    with monkeypatch.context() as full:
        full.setattr("scale0.telemetry.place.os.fsync", no_room)
        bench.recorder.seal()
        bench.put(tasks(3, 3))
    assert bench.rows() == []
    bench.now_s += MEND_S
    bench.put(tasks(4, 4))
    assert seqs(bench.rows()) == [1, 2]
    bench.recorder.seal()
    assert seqs(bench.rows()) == [1, 2, 3, 4]
    assert [row["kind"] for row in bench.rows()] == ["task", "task", "dropped", "task"]


def test_a_write_that_fails_in_its_middle_leaves_no_torn_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = log.Log(tmp_path / "a.frames")
    written.append(b"first")
    real = os.write
    with monkeypatch.context() as full:
        full.setattr(
            "scale0.telemetry.log.os.write", lambda file, data: real(file, data[:3]) if len(data) > 3 else no_room()
        )
        with pytest.raises(OSError, match="No space"):
            written.append(b"second")
    written.append(b"third")
    written.close()
    assert list(log.read(written.path)) == [b"first", b"third"]


# --- recovery ------------------------------------------------------------------------------------------------------


def test_the_log_of_a_dead_recorder_is_sealed_by_the_next_one(bench: Bench) -> None:
    bench.put(tasks(1, 2))
    assert bench.recover() == 0
    rows = bench.rows()
    assert [row["kind"] for row in rows] == ["task", "task", "boot_end"]
    assert json.loads(rows[-1]["detail"]) == {"clean": False}
    assert log.logs(bench.directory) == []


def test_a_run_that_goes_on_has_no_end_and_is_told_where_it_was(bench: Bench) -> None:
    bench.put(tasks(1, 2))
    bench.recorder.seal()
    bench.put(tasks(3, 4))
    assert bench.recover("boot-1") == 4
    assert seqs(bench.rows()) == [1, 2, 3, 4]
    again = Bench(bench.directory, Hello("eu-1", "boot-1", ANCHOR_US, seq=4))
    again.put(Records(NAMES, [], [], []), tasks(3, 6))
    again.recorder.end()
    assert seqs(again.rows()) == [1, 2, 3, 4, 5, 6, 7]


def test_a_run_of_which_all_is_sealed_still_gets_its_end(bench: Bench) -> None:
    bench.put(tasks(1, 2))
    bench.recorder.seal()
    bench.recover()
    assert [(row["seq"], row["kind"]) for row in bench.rows()[2:]] == [(3, "boot_end")]


def test_a_recovery_that_is_interrupted_tells_nothing_twice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(tasks(1, 2))
    with monkeypatch.context() as dying:
        dying.setattr(log, "delete", no_room)  # it dies between sealing and deleting the log
        with pytest.raises(OSError, match="No space"):
            bench.recover()
    bench.recover()
    assert [(row["seq"], row["kind"]) for row in bench.rows()] == [(1, "task"), (2, "task"), (3, "boot_end")]


def test_rows_that_were_shipped_before_their_log_was_deleted_are_not_sealed_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put(tasks(1, 2))
    with monkeypatch.context() as dying:
        dying.setattr(log, "delete", no_room)  # it dies between sealing and deleting the log
        with pytest.raises(OSError, match="No space"):
            bench.recorder.seal()
    (one,) = bench.spool.waiting()
    bench.spool.ship(Place(bench.order.data), one)
    again = Bench(bench.directory)
    assert again.recover("boot-1") == 2
    assert again.rows() == []


@pytest.mark.parametrize("boot", ["boot-1", "another"])
def test_nothing_is_recorded_while_there_is_no_room_to_seal_a_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    bench.put(tasks(1, 2))
    with monkeypatch.context() as full:
        full.setattr("scale0.telemetry.place.os.fsync", no_room)
        with pytest.raises(OSError, match="No space"):
            bench.recover(boot)
    bench.recover(boot)
    assert seqs(bench.rows())[:2] == [1, 2]


def test_a_log_of_a_former_run_that_cannot_be_read_holds_up_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(path: Path) -> Any:
        raise OSError(5, "Input/output error")

    bench.put(tasks(1, 2))
    with monkeypatch.context() as broken:
        broken.setattr(log, "read", damaged)
        with pytest.raises(OSError, match="Input/output"):
            bench.recover("boot-1")
        assert bench.recover() == 0
    assert "waits for the next start" in bench.said[0]
    bench.recover()
    assert seqs(bench.rows()) == [1, 2, 3]


def test_a_log_that_is_torn_anywhere_gives_all_whole_chunks(bench: Bench) -> None:
    bench.put(tasks(1, 1), Records([], [], [note(2)], []), tasks(3, 3))
    ((_, _, path),) = log.logs(bench.directory)
    content = path.read_bytes()
    ends = [0]
    for chunk in frames.read_log(content):
        ends.append(ends[-1] + len(chunk) + frames.LOG_HEAD_BYTES)
    for size in range(0, len(content) + 1, 11):
        path.write_bytes(content[:size])
        bench.recover("boot-1")
        whole = sum(end <= size for end in ends) - 2  # without the beginning of all, and without the log's
        assert seqs(bench.rows()) == list(range(1, whole + 1)), size
        for one in bench.spool.waiting():
            one.path.unlink()


def test_names_survive_from_log_to_log(bench: Bench) -> None:
    bench.put(tasks(1, 1))
    bench.recorder.seal()
    bench.put(tasks(2, 2))
    bench.recover("boot-1")
    assert [row["service"] for row in bench.rows()] == ["echo", "echo"]


def test_a_file_of_the_segments_is_private(bench: Bench) -> None:
    bench.put(tasks(1, 1))
    bench.recorder.seal()
    (one,) = bench.spool.waiting()
    assert one.path.stat().st_mode & 0o777 == 0o600
    assert pa.parquet.read_schema(one.path).names == segments.ARROW_SCHEMA.names
