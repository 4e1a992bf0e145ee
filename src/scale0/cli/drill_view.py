"""What a drill shows before and while it runs: the plan, then a line or a small screen of how it goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.text import Text

from scale0.cli import render
from scale0.cli.drill import Moment, Show, Terms
from scale0.cli.drill_plan import Plan
from scale0.cli.render import Page

PLAIN_EVERY_S: Final = 1.0


def draw_plan(plan: Plan, terms: Terms, how: str) -> list[Text]:
    """Who, why, with which load, and what ends it."""
    ask = terms.ask
    load = f"{ask.rate_per_s:g} tasks/s to {render.safe(ask.service)}, {ask.timeout_s:g} s each"
    if ask.has_echo:
        terms_of = "idempotent" if terms.is_idempotent else "not idempotent"
        load += f"; served by {terms.workers} workers of its own, {terms_of}, {terms.work_s * 1000:g} ms of work"
    rows = [
        ("what", f"{how}: {plan.what}"),
        ("why", plan.why),
        ("load", load),
        ("times", f"{terms.before_s:g} s before, at most {terms.limit_s:g} s to recover, {terms.after_s:g} s after"),
        ("aborts", ", ".join(condition.text for condition in terms.conditions) or "by Ctrl-C"),
        *(("note", note) for note in plan.notes),
    ]
    title = Text(f"drill {plan.kind} {render.safe(plan.victim)}".rstrip(), style="bold")
    return [title, *(Text.assemble((f"  {key:<7}", "dim"), render.safe(told)) for key, told in rows)]


@contextlib.contextmanager
def screen(page: Page, *, is_silent: bool = False) -> Iterator[Show]:
    """Something that shows moments: drawn in place in a terminal, else a line a second."""
    if is_silent:
        yield lambda moment: None
    elif not page.can_redraw:
        yield _each_second(page)
    else:
        with Live(console=page.console, auto_refresh=False, transient=True) as live:
            yield lambda moment: live.update(Group(*map(page.plain, draw_moment(moment))), refresh=True)


def _each_second(page: Page) -> Callable[[Moment], None]:
    next_s = 0.0

    def show(moment: Moment) -> None:
        nonlocal next_s
        if moment.elapsed_s >= next_s:
            next_s = moment.elapsed_s + PLAIN_EVERY_S
            page.line(Text(" · ").join(draw_moment(moment)))

    return show


def draw_moment(moment: Moment) -> list[Text]:
    """Where the drill stands, and how its tasks fare."""
    fill = {"before": "ok", "during": "bad", "after": "ok"}[moment.phase]
    since = "" if moment.since_fault_s is None else f", {moment.since_fault_s:.1f} s after the fault"
    head = render.verdict(fill, f"{moment.elapsed_s:5.1f} s  {moment.phase}{since}")
    kinds = moment.ledger.counts()
    lost, still_open = kinds.pop("lost", 0), moment.ledger.open
    told = [*(f"{number:,} {kind}" for kind, number in kinds.items()), f"{lost:,} lost", f"{still_open:,} open"]
    lines = [head, Text(", ".join(told))]
    if moment.noticed_s is not None:
        lines.append(Text(f"noticed after {moment.noticed_s - moment.ledger.struck_s:.1f} s", style="dim"))
    return lines
