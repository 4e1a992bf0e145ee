"""What a drill shows before and while it runs."""

from __future__ import annotations

import io

from scale0.cli import drill_view
from scale0.cli.drill import Moment, Terms
from scale0.cli.drill_ledger import Ledger, Outcome
from scale0.cli.drill_load import Ask
from scale0.cli.drill_plan import Plan, Watch
from scale0.cli.drill_words import condition
from scale0.cli.render import Page

PLAN = Plan("kill-broker", "eu-2", "broker eu-2", "quiet", [], Watch([], "network", bool, "eu-1"), notes=["beware"])


def text_of(plan: Plan, terms: Terms) -> str:
    return "\n".join(line.plain for line in drill_view.draw_plan(plan, terms, "SIGKILL"))


def moment(phase: str, elapsed_s: float, ledger: Ledger, noticed_s: float | None = None) -> Moment:
    since_s = None if phase == "before" else elapsed_s
    return Moment(phase, elapsed_s, since_s, ledger, noticed_s)


def test_plan_says_who_why_and_with_which_load() -> None:
    shown = text_of(PLAN, Terms(Ask(), conditions=[condition("lost>0")], is_idempotent=False))
    for told in ("SIGKILL: broker eu-2", "quiet", "200 tasks/s", "2 workers of its own", "not idempotent", "lost>0"):
        assert told in shown
    assert "beware" in shown


def test_operators_own_service_has_no_workers_of_the_drill() -> None:
    shown = text_of(PLAN, Terms(Ask(service="greet")))
    assert "to greet" in shown
    assert "of its own" not in shown


def test_names_from_the_network_are_shown_harmlessly() -> None:
    plan = Plan("kill-worker", "\x1b[2J", "worker \x1b[2J", "why", [], PLAN.watch)
    assert "\x1b" not in text_of(plan, Terms(Ask()))


def test_moment_tells_how_tasks_fare_and_what_is_open() -> None:
    ledger = Ledger(10.0)
    ledger.send(1, 1.0, "a", 5.0)
    ledger.settle(1, 1.1, Outcome(via="a"))
    ledger.send(2, 1.0, "a", 5.0)
    assert [line.plain for line in drill_view.draw_moment(moment("before", 2.0, ledger))][
        1
    ] == "1 replied, 0 lost, 1 open"
    ledger.strike(2.0)
    ledger.settle(2, 3.0, Outcome(502, via="a"))
    lines = [line.plain for line in drill_view.draw_moment(moment("during", 3.5, ledger, 2.5))]
    assert "3.5 s after the fault" in lines[0]
    assert lines[1:] == ["1 error 502, 0 lost, 0 open", "noticed after 0.5 s"]


def test_without_a_terminal_there_is_a_line_a_second() -> None:
    out = io.StringIO()
    with drill_view.screen(Page(out)) as show:
        for step in range(25):
            show(moment("before", step / 10, Ledger(10.0)))
    assert len(out.getvalue().splitlines()) == 3


def test_with_json_nothing_is_shown() -> None:
    out = io.StringIO()
    with drill_view.screen(Page(out), is_silent=True) as show:
        show(moment("before", 1.0, Ledger(10.0)))
    assert not out.getvalue()
