from __future__ import annotations

from typing import Any

import pytest

from scale0.protocol.document_reader import WHOLE_MAX, Reader
from scale0.protocol.network import BrokerEntry, Document, Part, ServiceEntry
from scale0.protocol.problems import Places


def read(raw: Any, kind: type[Any] = Document, *, is_text: bool = False) -> Any:
    reader = Reader(kind, Places(), is_text=is_text)
    value = reader.read(raw)
    assert not reader.problems, reader.problems
    return value


def mistakes(raw: Any, kind: type[Any] = Document, *, is_text: bool = False) -> list[str]:
    reader = Reader(kind, Places(), is_text=is_text)
    assert reader.read(raw) is None
    return [f"{one.key}: {one.text}" for one in reader.problems]


def test_whole_numbers_become_durations() -> None:
    grace_s = read({"grace": 7}).grace_s
    assert (grace_s, type(grace_s)) == (7.0, float)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [("liveness", "5", 5), ("liveness", "+5", 5), ("grace_s", "5", 5.0), ("grace_s", "1.5e-3", 0.0015)],
)
def test_numbers_are_made_of_text_where_there_is_nothing_else(key: str, text: str, value: float) -> None:
    assert getattr(read({key: text}, is_text=True), key) == value
    assert mistakes({key: text})


@pytest.mark.parametrize("text", ["", " 5", "5 ", "0x5", "1_000", "５", "nan", "inf", "1e999", "9" * 30, "--5"])
def test_text_that_is_nearly_a_number_is_refused(text: str) -> None:
    assert mistakes({"liveness": text}, is_text=True)
    assert mistakes({"grace": text}, is_text=True)


def test_flags_are_true_or_false() -> None:
    raw = {"name": "x", "idempotent": "true"}
    assert read(raw, ServiceEntry, is_text=True).idempotent is True
    assert mistakes({"name": "x", "idempotent": "yes"}, ServiceEntry, is_text=True)
    assert mistakes({"name": "x", "idempotent": 1}, ServiceEntry)


def test_null_leaves_out_what_may_be_left_out() -> None:
    assert read({"name": "x", "timeout": None}, ServiceEntry).timeout_s is None
    assert mistakes({"liveness": None}) == ["liveness: None is not a whole number"]


def test_whole_numbers_have_a_limit() -> None:
    assert read({"limits": {"sessions": WHOLE_MAX}}).limits.sessions == WHOLE_MAX
    assert mistakes({"limits": {"sessions": WHOLE_MAX + 1}}) == [
        f"limits.sessions: {WHOLE_MAX + 1} is over {WHOLE_MAX}"
    ]


def test_an_entry_in_a_map_keeps_the_name_that_it_gives_itself() -> None:
    assert read({"brokers": {"x": {"identity": "a"}}}).brokers == [BrokerEntry(identity="a")]


def test_what_is_no_entry_is_told_by_its_place() -> None:
    assert mistakes({"service": {"x": 3}}) == ["service.x: 3 is not a table of keys"]
    assert mistakes({"service": [{"timeout": 1}]}) == ["service[0]: name is missing"]
    assert mistakes({}, Part) == [": identity is missing"]


def test_all_mistakes_are_collected() -> None:
    found = mistakes({"liveness": "x", "zzz": 1, "brokers": [{"identity": 3, "stat": 1}]})
    assert [one.partition(":")[0] for one in found] == ["liveness", "zzz", "brokers[0].identity", "brokers[0].stat"]
