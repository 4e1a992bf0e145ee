"""What top knows without a screen: how old answers are, which rows and columns are shown, what a key means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scale0.cli import top_state
from scale0.cli.top_state import Seen
from tests.cli import canned


def document(name: str, *rows: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(canned.listing(name, *rows))
    return made


@pytest.mark.parametrize(
    ("age_s", "condition"), [(None, "waiting"), (0.4, "live"), (3.0, "ageing"), (9.9, "ageing"), (10.0, "stale")]
)
def test_answers_age_as_on_the_page(age_s: float | None, condition: str) -> None:
    assert top_state.condition(age_s) == condition


def test_the_clock_tells_who_was_asked_and_how_old_the_answer_is() -> None:
    seen = Seen(broker={"network": "prod", "identity": "eu-1"}, heard_s=100.0)
    assert top_state.clock(seen, 100.4).plain == "prod · eu-1  ● live 0.4 s"
    assert top_state.clock(seen, 104.0).plain == "prod · eu-1  ! ageing 4.0 s"
    assert top_state.clock(Seen(), 1.0).plain == "! waiting"


def test_a_banner_says_since_when_nothing_is_heard_and_why() -> None:
    seen = Seen(heard_s=100.0, error="no broker at tcp://127.0.0.1:5555")
    assert top_state.banner(seen, 105.0) == ""
    assert top_state.banner(seen, 114.0) == (
        "nothing heard for 14 s: no broker at tcp://127.0.0.1:5555; what is shown is old, and actions are off"
    )
    assert top_state.banner(Seen(error="refused"), 1.0) == "no answer yet: refused"


def test_problems_come_first_and_are_counted() -> None:
    rows = document("workers", canned.worker("w-1"), canned.worker("w-2", stuck=1, lru=2))
    lines = top_state.lines_of("workers", rows, "", 120)
    assert [key for key, _cells in lines.rows] == ["w-2", "w-1"]
    assert lines.title.plain == "WORKERS 2  ! problems 1"


def test_a_filter_keeps_what_meets_it_and_one_that_cannot_be_read_is_told() -> None:
    rows = document("workers", canned.worker("w-1"), canned.worker("w-2", state="full"))
    assert top_state.lines_of("workers", rows, "state:full", 120).title.plain.startswith("WORKERS 1 of 2")
    assert "no column 'unicorn'" in top_state.lines_of("workers", rows, "unicorn:1", 120).empty
    assert top_state.lines_of("workers", rows, "state:gone", 120).empty == (
        "no worker matches state:gone; Esc shows all"
    )


def test_an_empty_table_names_the_next_command() -> None:
    assert "scale0 worker module:app" in top_state.lines_of("services", document("services"), "", 80).empty
    assert top_state.lines_of("services", None, "", 80).empty == "waiting for the broker"


def test_columns_go_in_their_order_and_long_cells_are_cut() -> None:
    rows = document("workers", canned.worker("w" * 200))
    lines = top_state.lines_of("workers", rows, "", 60)
    assert lines.columns[0].title == "WORKER"
    assert "CLOCK ms" not in [column.title for column in lines.columns]
    assert lines.rows[0][1][0].plain.endswith("…")


def test_hostile_names_stay_text() -> None:
    rows = document("workers", canned.worker("[red]\x1b[2J"))
    assert top_state.lines_of("workers", rows, "", 120).rows[0][1][0].plain == "[red]\\x1b[2J"


def test_problems_only_is_a_word_of_the_filter() -> None:
    assert top_state.toggle_problems("svc:render") == "svc:render is:problem"
    assert top_state.toggle_problems("svc:render is:problem") == "svc:render"


def test_the_command_line_that_shows_the_same_is_quoted() -> None:
    assert top_state.line_of("dead_letters") == "scale0 ctl dead-letters"
    assert top_state.line_of("workers", "hb>3s svc:x") == "scale0 ctl workers --filter 'hb>3s svc:x'"
