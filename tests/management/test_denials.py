"""Denials are written one by one at first, and counted when there are many."""

from __future__ import annotations

from scale0.management.audit import Record
from scale0.management.denials import EACH_MAX, OTHERS, SOURCES_MAX, WINDOW_S, Denials


def denial(source: str = "10.0.0.7") -> Record:
    return Record(at="now", user="", role="", door="http", source=source, command="login", outcome="denied", code=401)


def test_the_first_of_a_source_have_records_of_their_own_and_the_rest_a_count() -> None:
    denials = Denials()
    written = [record for _ in range(50) for record in denials.add(denial(), 0.0)]
    assert len(written) == EACH_MAX
    assert denials.due(WINDOW_S - 1) == []
    (counted,) = denials.due(WINDOW_S)
    assert counted.count == 50 - EACH_MAX
    assert denials.add(denial(), WINDOW_S) != [], "a new minute"


def test_sources_without_end_become_one() -> None:
    denials = Denials()
    written = sum(len(denials.add(denial(f"10.0.{number}"), 0.0)) for number in range(SOURCES_MAX * 3))
    assert written == SOURCES_MAX + EACH_MAX
    assert OTHERS in denials._windows
    assert len(denials._windows) == SOURCES_MAX + 1


def test_what_was_counted_is_written_at_the_end() -> None:
    denials = Denials()
    for _ in range(EACH_MAX + 1):
        denials.add(denial(), 0.0)
    assert [record.count for record in denials.due(1.0, is_end=True)] == [1]
