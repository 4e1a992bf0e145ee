from __future__ import annotations

from scale0.protocol.problems import Lines, Place, Places, Problem, hint, problem, refusal, shown


def test_a_place_has_a_key_with_names_and_a_path_with_numbers() -> None:
    place = Place().field("brokers").item(1, "eu-2").field("peers").item(0, "eu-1").field("table")
    assert place.key == "broker.eu-2.peer.eu-1.table"
    assert place.path == ("brokers", 1, "peers", 0, "table")
    assert Place().field("brokers").item(1).key == "brokers[1]"


def test_the_line_of_what_is_unknown_is_that_of_what_is_around_it() -> None:
    places = Places(lambda: {("brokers",): 3, ("brokers", 1): 7})
    assert places.line(("brokers", 1, "group")) == 7
    assert places.line(("brokers", 0, "group")) == 3
    assert places.line(("network",)) == 0


def test_what_was_renamed_is_found_under_the_name_that_the_text_has() -> None:
    places = Places(lambda: {("service", "render", "timeout_s"): 4})
    places.renamed[("service", 0)] = "render"
    places.renamed[("service", 0, "timeout")] = "timeout_s"
    assert places.line(("service", 0, "timeout")) == 4


def test_lines_are_searched_only_when_they_are_asked_for() -> None:
    asked = []
    places = Places(lambda: asked.append(1) or {})  # type: ignore[func-returns-value]
    assert not asked
    places.line(("x",))
    places.line(("y",))
    assert asked == [1]


def test_a_refusal_tells_all_problems_a_line_each() -> None:
    places = Places(lambda: {("liveness",): 2})
    found = [problem(Place().field("liveness"), "must be above 0"), problem(Place(), "no")]
    assert str(refusal(found, "a.toml", places)) == "a.toml, line 2: liveness: must be above 0\na.toml: no"


def test_problems_are_told_in_the_order_of_the_text() -> None:
    lines: Lines = {("a",): 9, ("b",): 2, ("c",): 2}
    found = [Problem(key, "wrong", (key,)) for key in ("x", "a", "b", "c")]
    told = str(refusal(found, "net.toml", Places(lambda: lines))).splitlines()
    assert told == [
        "net.toml, line 2: b: wrong",
        "net.toml, line 2: c: wrong",
        "net.toml, line 9: a: wrong",
        "net.toml: x: wrong",
    ]


def test_hints_name_what_is_near_or_all_that_is_allowed() -> None:
    assert hint("livenes", ["liveness", "grace"]) == "did you mean liveness?"
    assert hint("zzz", ["a", "b"]) == "allowed: a, b"


def test_values_in_messages_are_short() -> None:
    assert shown("x\n") == "'x\\n'"
    assert len(shown("x" * 10_000)) == 40
