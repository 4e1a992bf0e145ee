"""Finding the rows of one task, in tables and in segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from scale0.telemetry import catalogue
from scale0.telemetry.place import Place
from scale0_pipeline import why
from scale0_pipeline.errors import NothingRecorded, PipelineError, UnknownTask
from scale0_pipeline.gold import Gold
from scale0_pipeline.why import AmbiguousTask
from scale0_pipeline.why.find import find
from tests.pipeline.report.sample import write as write_table
from tests.pipeline.why.lives import AT_US, NONCE, S, failed_over, file, forwarded, lost_and_late, note, seal, task

ID = f"web-1.{NONCE}.118"


def test_a_task_is_found_before_any_table_is_made(tmp_path: Path) -> None:
    seal(tmp_path, [task(), task(seq=11, sequence=119)])
    found = find(Gold(str(tmp_path)), ID)
    assert (found.task_id, len(found.rows), found.is_from_segments) == (ID, 1, True)


def test_a_task_is_found_in_the_tables(tmp_path: Path) -> None:
    file(tmp_path, [task(), task(seq=11, sequence=119)])
    found = find(Gold(str(tmp_path)), ID)
    assert (found.task_id, len(found.rows), found.is_from_segments) == (ID, 1, False)


def test_rows_of_all_brokers_are_found_each_once(tmp_path: Path) -> None:
    rows = failed_over()
    file(tmp_path, rows[:1])
    seal(tmp_path, rows)  # the first is in a table and in a segment
    found = find(Gold(str(tmp_path)), ID)
    assert [row["broker"] for row in found.rows] == ["eu-1", "eu-1b"]


def test_segments_that_the_pipeline_has_read_are_not_read_again(tmp_path: Path) -> None:
    file(tmp_path, [task()])
    entry = seal(tmp_path, [task(seq=11, sequence=119)])[0]
    place = Place(str(tmp_path))
    assert find(Gold(place), f"web-1.{NONCE}.119").is_from_segments
    catalogue.keep_position(place, "pipeline", catalogue.Consumer({"eu-1": entry.number}))
    with pytest.raises(UnknownTask):
        find(Gold(place), f"web-1.{NONCE}.119")


def test_a_segment_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    entries = seal(tmp_path, forwarded())
    (tmp_path / entries[1].path).unlink()
    assert [row["broker"] for row in find(Gold(str(tmp_path)), ID).rows] == ["eu-1"]


@pytest.mark.parametrize("cut", ["web-1.7f3a", "7f3a", "web-1", f"{NONCE}.11", ID[:-1]])
@pytest.mark.parametrize("is_filed", [True, False])
def test_the_beginning_of_an_id_is_enough_if_it_is_unique(tmp_path: Path, cut: str, is_filed: bool) -> None:
    rows = [task(), task(seq=11, client="batch", nonce="00ff000000000001", sequence=118)]
    (file if is_filed else seal)(tmp_path, rows)
    assert find(Gold(str(tmp_path)), cut).task_id == ID


def test_an_ambiguous_beginning_lists_the_newest_candidates(tmp_path: Path) -> None:
    seal(tmp_path, [task(seq=n, sequence=n, ts_us=AT_US + n * S) for n in range(1, 31)])
    with pytest.raises(AmbiguousTask) as caught:
        find(Gold(str(tmp_path)), "7f3a")
    assert len(caught.value.candidates) == 10
    assert f"web-1.{NONCE}.30  200 render  2026-03-02 14:00:30" in str(caught.value)


def test_a_whole_id_that_is_the_beginning_of_another_means_itself(tmp_path: Path) -> None:
    seal(tmp_path, [task(), task(seq=11, sequence=1180)])
    assert find(Gold(str(tmp_path)), ID).task_id == ID


def test_a_name_with_dots_and_markup_is_found(tmp_path: Path) -> None:
    seal(tmp_path, [task(client="a.b[red].c")])
    assert find(Gold(str(tmp_path)), f"a.b[red].c.{NONCE}.118").rows[0]["client"] == "a.b[red].c"


def test_notes_about_its_workers_and_brokers_come_with_it(tmp_path: Path) -> None:
    notes = [
        note("session", "w-12", "lost", 3.4, why="silent"),
        note("session", "w-99", "lost", 4.4),
        note("gauge", "", "", 5),
        note("dropped", "", "", 6, value=3),
    ]
    for number, store in enumerate((file, seal)):
        place = tmp_path / str(number)
        store(place, [lost_and_late(), *notes])
        assert [one["kind"] for one in find(Gold(str(place)), ID).notes] == ["session", "dropped"]


def test_explaining_takes_the_worst_completeness_of_its_brokers(tmp_path: Path) -> None:
    file(tmp_path, forwarded()[:1])
    hour = AT_US // 3_600_000_000 * 3_600_000_000
    shares = {"eu-1": 0.97, "us-1": 0.1}
    rows = [{"hour_us": hour, "broker": broker, "completeness": share} for broker, share in shares.items()]
    write_table(tmp_path, "gold/completeness_1h", rows)
    assert why.explain(str(tmp_path), ID).completeness == 0.97


def test_what_is_not_there_is_told_with_the_next_command(tmp_path: Path) -> None:
    with pytest.raises(NothingRecorded, match="scale0 broker --telemetry"):
        why.explain(str(tmp_path / "empty"), ID)
    seal(tmp_path, [task()])
    with pytest.raises(UnknownTask, match="scale0 pipeline collect"):
        why.explain(str(tmp_path), "nobody")
    with pytest.raises(PipelineError, match="no task is named"):
        why.explain(str(tmp_path), "  ")
