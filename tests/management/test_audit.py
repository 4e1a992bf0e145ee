"""The audit log: a chain that shows what was done to it, on disk before anything is answered."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scale0.errors import ProtocolError
from scale0.management import audit as audits
from scale0.management.audit import Audit, Record, verify


def record(number: int, **more: Any) -> Record:
    told = {"user": "ann", "role": "operate", "door": "http", "source": "10.0.0.7", "outcome": "done", **more}
    return Record(at="2026-11-16T12:00:00.000Z", command=f"command-{number}", **told)


def written(path: Path, count: int, first: int = 0) -> list[str]:
    """A log with so many records; its lines."""
    audit = Audit(path)
    for number in range(first, first + count):
        audit.write([record(number)])
    audit.close()
    return path.read_text().splitlines()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.log"


def test_each_record_holds_the_hash_of_the_one_before(path: Path) -> None:
    written(path, 5)
    found = verify(path)
    assert (found.records, found.first_seq, found.last_seq, found.problems) == (5, 1, 5, [])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_changed_line_is_found(path: Path) -> None:
    lines = written(path, 5)
    lines[2] = lines[2].replace('"user":"ann"', '"user":"bob"')
    path.write_text("\n".join(lines) + "\n")
    problems = verify(path).problems
    assert problems[0].line == 3
    assert "changed" in problems[0].text


def test_a_changed_line_with_a_hash_of_its_own_is_found_by_the_next(path: Path) -> None:
    lines = written(path, 5)
    body = lines[2].rpartition(',"hash"')[0].replace('"user":"ann"', '"user":"bob"') + "}"
    changed = msgspec.json.decode(body, type=Record)
    lines[2] = audits._write(changed)[0].decode().rstrip()
    path.write_text("\n".join(lines) + "\n")
    assert [problem.line for problem in verify(path).problems] == [4]


@pytest.mark.parametrize("gone", [0, 2, 3])
def test_a_line_that_was_taken_out_is_found(path: Path, gone: int) -> None:
    lines = written(path, 5)
    del lines[gone]
    path.write_text("\n".join(lines) + "\n")
    found = verify(path)
    if gone == 0:
        assert found.first_seq == 2, "the beginning may have been set aside: who reads it sees where it begins"
    else:
        assert [problem.line for problem in found.problems] == [gone + 1]


def test_swapped_lines_are_found(path: Path) -> None:
    lines = written(path, 5)
    lines[1], lines[2] = lines[2], lines[1]
    path.write_text("\n".join(lines) + "\n")
    assert [problem.line for problem in verify(path).problems] == [2, 3, 4]


def test_a_cut_end_shows_in_the_last_hash(path: Path) -> None:
    lines = written(path, 5)
    before = verify(path).last_hash
    path.write_text("\n".join(lines[:3]) + "\n")
    assert verify(path).is_good
    assert verify(path).last_hash != before


def test_another_process_goes_on_with_the_chain_and_shows_what_was(path: Path) -> None:
    written(path, 3)
    audit = Audit(path)
    audit.write([record(3)])
    assert [row["seq"] for row in audit.rows] == [4, 3, 2, 1]
    assert verify(path).records == 4
    assert verify(path).is_good


def test_what_was_being_written_when_the_process_died_is_taken_off(path: Path) -> None:
    written(path, 3)
    with path.open("ab") as file:
        file.write(b'{"seq":4,"at":"2026')
    written(path, 1, first=3)
    found = verify(path)
    assert (found.records, found.problems) == (4, [])


def test_a_full_file_is_set_aside_and_the_chain_goes_on(path: Path) -> None:
    audit = Audit(path, bytes_max=2_000)
    for number in range(30):
        audit.write([record(number)])
    audit.close()
    aside = audits.set_aside(path)
    assert len(aside) >= 3
    found = verify(path)
    assert (found.records, found.last_seq, found.problems) == (30, 30, [])
    assert found.files == [*(file.name for file in aside), "audit.log"]
    aside[1].unlink()
    assert "missing" in verify(path).problems[0].text


def test_only_so_many_files_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "FILES_MAX", 2)
    audit = Audit(path, bytes_max=500)
    for number in range(20):
        audit.write([record(number)])
    assert len(audits.set_aside(path)) == 2
    found = verify(path)
    assert found.is_good
    assert found.first_seq > 1


def test_a_file_that_was_moved_away_is_made_anew_and_the_chain_goes_on(path: Path) -> None:
    audit = Audit(path)
    audit.write([record(0)])
    moved = path.with_name("elsewhere")
    path.rename(moved)
    audit.write([record(1)])
    assert verify(path).first_seq == 2
    moved.write_bytes(moved.read_bytes() + path.read_bytes())
    assert verify(moved).is_good


def test_two_brokers_do_not_share_a_log(path: Path) -> None:
    first, second = Audit(path), Audit(path)
    first.write([record(0)])
    with pytest.raises(ProtocolError, match="another broker writes it") as caught:
        second.write([record(1)])
    assert caught.value.code == 503
    first.close()
    second.write([record(1)])
    assert verify(path).is_good


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    place = Path("/proc/self")  # where not even root makes files
    if os.geteuid() != 0:
        place = tmp_path / "locked"
        place.mkdir(mode=0o500)
    audit = Audit(place / "audit.log")
    with pytest.raises(ProtocolError, match="the audit log cannot be written") as caught:
        audit.write([record(0)])
    assert caught.value.code == 503
    assert str(place) in audit.why


FULL = """
import resource, sys
from pathlib import Path
from scale0.errors import ProtocolError
from scale0.management.audit import Audit, Record, verify
path = Path(sys.argv[1])
audit = Audit(path)
told = dict(at="now", user="ann", role="admin", door="http", source="", command="drain", outcome="done")
audit.write([Record(**told)])
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        audit.write([Record(**told)])
        sys.exit("it was written")
    except ProtocolError as error:
        assert error.code == 503, error
assert path.stat().st_size == size, "what did not fit was taken off again"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
audit.write([Record(**told)])
found = verify(path)
assert (found.records, found.problems) == (2, []), found
assert audit.why == ""
"""


def test_a_full_disk_leaves_the_chain_as_it_was(path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
