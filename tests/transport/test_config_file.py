from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.core.config import content_hash
from scale0.errors import SettingsError
from scale0.protocol.messages import ConfigVersion
from scale0.protocol.network import ConfigRecord
from scale0.transport.config_file import FILE_NAME, ConfigFile

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.integers(0, 2**32 - 1)


def record(number: int, document: Any = None, **more: Any) -> ConfigRecord:
    text = msgspec.json.encode({"network": "prod", "liveness": number} if document is None else document)
    return ConfigRecord(version=ConfigVersion(1, number, content_hash(text)).pack(), document=text, **more)


def test_without_a_file_there_are_no_records(tmp_path: Path) -> None:
    for directory in (None, tmp_path, tmp_path / "not-there-yet"):
        assert ConfigFile(directory).records == []


def test_kept_records_are_read_again_the_current_one_last(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    records = [record(1, author="ann", comment='first "ever"', time_us=7), record(2, state="lost"), record(3)]
    ConfigFile(directory).keep(records[:2])
    ConfigFile(directory).keep(records)
    assert ConfigFile(directory).records == records
    assert [path.name for path in directory.iterdir()] == [FILE_NAME], "nothing temporary is left"


def test_without_a_directory_records_are_kept_in_memory_alone() -> None:
    file = ConfigFile(None)
    file.keep([record(1)])
    assert file.records == [record(1)]


def test_record_that_no_broker_can_start_from_is_refused_with_the_files_name(tmp_path: Path) -> None:
    ConfigFile(tmp_path).keep([record(1, {"liveness": "much"}), record(2)])
    ConfigFile(tmp_path).check()
    ConfigFile(tmp_path).keep([record(1), record(2, {"liveness": "much"})])
    with pytest.raises(SettingsError, match=rf"{FILE_NAME}: cannot be used; delete it[^\n]*liveness"):
        ConfigFile(tmp_path).check()


def test_document_that_is_no_text_is_refused_although_its_hash_fits(tmp_path: Path) -> None:
    document = b'{"network":"\xff"}'
    version = ConfigVersion(1, 1, content_hash(document))
    line = b'{"version":"1.1.%s","document":%s}' % (version.hash.hex().encode(), document)
    (tmp_path / FILE_NAME).write_bytes(b'{"records":[%s]}' % line)
    with pytest.raises(SettingsError, match=FILE_NAME):
        ConfigFile(tmp_path)


def test_file_can_be_read_by_people_a_line_a_version(tmp_path: Path) -> None:
    ConfigFile(tmp_path).keep([record(1), record(2, author="ann")])
    text = (tmp_path / FILE_NAME).read_text()
    assert len(text.splitlines()) == 4
    read = json.loads(text)["records"][1]
    assert read["document"] == {"network": "prod", "liveness": 2}
    assert read["version"].startswith("1.2.")
    assert (read["author"], "comment" in read) == ("ann", False)


def test_file_is_its_owners_alone(tmp_path: Path) -> None:
    ConfigFile(tmp_path).keep([record(1)])
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


@given(
    st.lists(
        st.builds(
            lambda document, epoch, number, **more: ConfigRecord(
                version=ConfigVersion(epoch, number, content_hash(document)).pack(), document=document, **more
            ),
            document=VALUES.map(msgspec.json.encode),
            epoch=NUMBERS,
            number=NUMBERS,
            author=st.text(),
            comment=st.text(),
            time_us=st.integers(0, 2**62),
            state=st.sampled_from(["past", "lost"]),
        ),
        max_size=4,
    )
)
def test_any_document_survives_byte_for_byte(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    directory = tmp_path_factory.mktemp("kept")
    ConfigFile(directory).keep(records)
    assert ConfigFile(directory).records == records


def test_spaces_inside_a_document_survive_for_they_count_in_its_hash(tmp_path: Path) -> None:
    text = b'{ "network" :  "prod" }'
    kept = ConfigRecord(version=ConfigVersion(1, 1, content_hash(text)).pack(), document=text)
    ConfigFile(tmp_path).keep([kept])
    assert ConfigFile(tmp_path).records == [kept]


@pytest.mark.parametrize("document", [b"", b"{", b"{} ", b"1,2"])
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, document: bytes) -> None:
    ConfigFile(tmp_path).keep([record(1)])
    bad = ConfigRecord(version=ConfigVersion(1, 2, content_hash(document)).pack(), document=document)
    with pytest.raises((AssertionError, ValueError)):
        ConfigFile(tmp_path).keep([record(1), bad])
    assert ConfigFile(tmp_path).records == [record(1)]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('"prod"', '"test"', "was changed"),
        ('"version":"1.1.', '"version":"1.1.00', "is no version"),
        ('"version":"1.1.', '"version":"9999999999.1.', "too large"),
        ('"document"', '"documents"', "missing required field"),
        ("]}", "", "truncated"),
    ],
)
def test_file_that_was_changed_is_refused_and_the_cure_is_named(
    tmp_path: Path, before: str, after: str, why: str
) -> None:
    ConfigFile(tmp_path).keep([record(1)])
    path = tmp_path / FILE_NAME
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(SettingsError, match=why) as caught:
        ConfigFile(tmp_path)
    assert str(path) in str(caught.value)
    assert "delete it to start" in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    directory = tmp_path_factory.mktemp("any")
    (directory / FILE_NAME).write_bytes(content)
    with pytest.raises(SettingsError, match="delete it"):
        ConfigFile(directory)


def test_directory_that_cannot_be_written_raises_and_the_old_records_stay(tmp_path: Path) -> None:
    ConfigFile(tmp_path).keep([record(1)])
    (tmp_path / "file").write_text("in the way of a directory")
    with pytest.raises(OSError, match="file"):
        ConfigFile(tmp_path / "file" / "below").keep([record(2)])
    assert ConfigFile(tmp_path).records == [record(1)]


def test_endless_nesting_is_refused_like_any_other_damage(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b'{"records": [{"version": "1.1.0", "document": ' + b"[" * 100_000)
    with pytest.raises(SettingsError, match="delete it"):
        ConfigFile(tmp_path)
