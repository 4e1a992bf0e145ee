"""The data place: whole files, private ones, and nothing outside."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from scale0.errors import UsageError
from scale0.telemetry.place import Place, quoted


@pytest.fixture(params=["disk", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A directory, and something that is none."""
    return Place(tmp_path / "data") if request.param == "disk" else Place("mock://bucket/data")


def test_what_is_written_is_read(place: Place) -> None:
    place.write_atomic(("a", "b"), b"content")
    assert place.exists("a", "b")
    assert place.read_bytes("a", "b") == b"content"
    assert place.read_bytes("a/b") == b"content"
    assert place.read_range("a/b", 3, 100) == b"tent"
    assert place.read_range("a/b", 100, 5) == b""
    assert place.size("a/b") == 7


def test_a_file_is_replaced_and_deleted(place: Place) -> None:
    place.write_atomic("a", b"1")
    place.write_atomic("a", b"22")
    assert place.read_bytes("a") == b"22"
    place.delete("a")
    place.delete("a")
    assert not place.exists("a")
    with pytest.raises(FileNotFoundError):
        place.read_bytes("a")


def test_a_new_file_does_not_take_the_place_of_another(place: Place) -> None:
    place.write_atomic("a", b"1", is_new=True)
    with pytest.raises(FileExistsError):
        place.write_atomic("a", b"2", is_new=True)
    assert place.read_bytes("a") == b"1"
    assert place.list() == ["a"], "nothing is left beside it"


def test_names_are_listed_in_order_and_none_where_nothing_is(place: Place) -> None:
    for name in ("b", "a", ".hidden"):
        place.write_atomic(("d", name), b"")
    assert place.list("d") == ["a", "b"]
    assert place.list("nowhere") == []


def test_files_and_directories_on_disk_are_their_owners_alone(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "data"))
    place.write_atomic(("a", "b"), b"")
    assert stat.S_IMODE((tmp_path / "data" / "a" / "b").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "data" / "a").stat().st_mode) == 0o700


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)

    def no_room(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scale0.telemetry.place.os.fsync", no_room)
    with pytest.raises(OSError, match="No space"):
        place.write_atomic("a", b"1")
    assert list(tmp_path.iterdir()) == []


def test_a_path_stays_within_the_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leads out"):
        Place(tmp_path).path("a", "../../b")
    assert quoted("..") == "%2E%2E"
    assert quoted("a/b") == "a%2Fb"


def test_the_same_place_has_a_path_and_a_uri(tmp_path: Path) -> None:
    assert Place(tmp_path).uri("tables", "x") == str(tmp_path / "tables" / "x")
    assert Place(tmp_path.as_uri()).local_path == tmp_path
    assert Place("mock://bucket/data").local_path is None
    assert Place("mock://bucket/data").uri("tables/x") == "mock://bucket/data/tables/x"


def test_a_url_of_no_file_system_is_refused_with_a_cure() -> None:
    with pytest.raises(UsageError, match="give a directory, or a URL"):
        Place("gopher://x/y")
