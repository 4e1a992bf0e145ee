"""A life on the terminal, and for machines."""

from __future__ import annotations

import json

from scale0_pipeline.why.find import Found, Row
from scale0_pipeline.why.life import Life, tell
from scale0_pipeline.why.render import render, to_dict
from tests.pipeline.why.lives import failed_over, forwarded, lost_and_late, note, refused, task


def life(*rows: Row, notes: list[Row] | None = None) -> Life:
    return tell(Found("web-1.7f3a000000000001.118", list(rows), notes or [], is_from_segments=False), 1.0)


def test_a_late_task_reads_as_a_story() -> None:
    noted = [note("session", "w-12", "lost", 3.4, why="silent 3×1 s")]
    assert render(life(lost_and_late(), notes=noted)).splitlines() == [
        "✗ 504 render 10.000 s, record complete",
        "Cause: w-12 lost; attempt 2 was at w-15 for 3.47 s and had no answer",
        "Task web-1.7f3a000000000001.118, settled 2026-03-02 14:00:10 UTC",
        " −0.002 ±0.001  sent by web-1",
        " +0.000         received by eu-1",
        " +0.003         attempt 1 → w-12",
        " +3.412         w-12 lost: silent 3×1 s",
        " +6.532         attempt 2 → w-15 (1 of 4 had room, 3 tasks waiting)",
        "+10.000         deadline, in flight",
        "queue ███████ 3.123 s 31%  worker █████████████████ 6.877 s 69%",
    ]


def test_a_fast_task_is_told_in_milliseconds() -> None:
    lines = render(life(task())).splitlines()
    assert lines[0] == "● 200 render 40.000 ms, record complete"
    assert lines[1] == "Spent: 77.5 % of the time went to the worker"
    assert " −2.000 ±0.512  sent by web-1" in lines
    assert "times in ms since eu-1 received it" in lines


def test_unknown_times_and_errors_are_dashes() -> None:
    text = render(life(task(client_offset_us=None, worker_error_us=None)))
    assert "–         sent by web-1, whose clock was not measured" in text
    assert "+38.000 ±–  w-15 replied" in text


def test_refusals_and_double_settlements_have_their_lines() -> None:
    assert render(life(refused())).startswith("! 429 render refused, record complete\nCause: a limit was reached")
    assert "Settled 2 times, around a fail-over; it counts once" in render(life(*failed_over()))


def test_a_narrow_terminal_cuts_lines_and_stacks_bars() -> None:
    text = render(life(*forwarded()), width=40)
    assert max(len(line) for line in text.splitlines()) <= 40
    assert text.count("\n") > render(life(*forwarded())).count("\n")


def test_names_cannot_reach_the_terminal() -> None:
    text = render(life(task(worker="w\x1b[2J", service="x\u202ey", client="c\nd")))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "w\\x1b[2J" in text


def test_colour_is_for_glyphs_and_bars_alone() -> None:
    plain, coloured = render(life(task())), render(life(task()), colour=True)
    assert "\x1b" not in plain
    assert coloured.startswith("\x1b[94m●\x1b[0m ")
    for code in ("\x1b[94m", "\x1b[33m", "\x1b[90m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_machines_get_raw_units_and_every_row() -> None:
    told = to_dict(life(*forwarded()))
    assert json.loads(json.dumps(told)) == told
    assert (told["schema"], told["complete"], told["latency_us"]) == ("scale0.why/1", True, 35_000)
    assert len(told["rows"]) == 2
    assert {"at_us": 10_000, "error_us": 5_000, "broker": "us-1", "text": "received by us-1"} in told["steps"]
