"""Promises: error budgets that burned, and what each fail-over did to the tasks in flight."""

from __future__ import annotations

from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report.book import Row
from scale0_pipeline.report.charts.bars import Bar, bars
from scale0_pipeline.report.charts.marks import legend
from scale0_pipeline.report.charts.strips import Piece, Strip, strips
from scale0_pipeline.report.html import Child, join
from scale0_pipeline.report.section import Scene, Section, data_table, empty, figure, name, short_table

BURNS_MAX: Final = 10
LEDGERS_MAX: Final = 20

LEDGER: Final = (
    ("replied", "fill-ok"),
    ("rerouted", "fill-ok soft"),
    ("retried", "fill-refused"),
    ("errored", "fill-warn"),
    ("lost", "fill-bad"),
)
"""What became of a task in flight, and its colour; they add up to all of them."""


def burn(scene: Scene) -> Section:
    """When each service burned its error budget, and how fast."""
    rows = scene.book.rows("gold/slo_burn")
    kicker = "Error budget"
    if not rows:
        sentence = "No service burned its error budget fast enough for an alert."
        return Section("burn", kicker, "No alert was raised", empty(sentence))
    by_service: dict[str, list[Row]] = {}
    for row in rows:
        by_service.setdefault(row["service"], []).append(row)
    order = sorted(by_service, key=lambda service: -max(row["burn"] for row in by_service[service]))
    worst = max(by_service[order[0]], key=lambda row: (row["threshold"], row["burn"]))
    title = (
        f"{words.name(order[0])} burned its error budget {words.figure(worst['burn'])} times too fast "
        f"{scene.period.between(worst['since_us'], worst['until_us'])}"
    )
    chart = strips(
        scene.period,
        [Strip(service, [_burning(scene, row) for row in by_service[service][::-1]]) for service in order[:BURNS_MAX]],
        "When services burned their error budgets",
        testid="chart-burn",
    )
    cells: list[list[Child]] = [
        [
            name(row["service"]),
            words.percent(row["objective"]),
            row["window"],
            words.figure(row["threshold"]),
            words.figure(row["burn"]),
            scene.period.between(row["since_us"], row["until_us"]),
        ]
        for row in rows
    ]
    heads = ["service", "objective", "windows", "alerts at", "highest burn", "when"]
    keys = legend(
        [("b-bad", "14.4× (5 min and 1 h)"), ("b-warn", "6× (30 min and 6 h)"), ("b-off", "1× (6 h and 3 d)")]
    )
    body = figure(chart, legend=keys, data=data_table(heads, cells, numbers={1, 3, 4}))
    return Section("burn", kicker, title, body)


def _burning(scene: Scene, row: Row) -> Piece:
    colour = "s-bad" if row["threshold"] > 10 else "s-warn" if row["threshold"] > 1 else "s-off"
    text = f"{words.figure(row['burn'])}× in {row['window']}, {scene.period.between(row['since_us'], row['until_us'])}"
    return Piece(row["since_us"], row["until_us"], colour, text)


def failovers(scene: Scene) -> Section:
    """A ledger a fail-over: every task that was in flight, and what became of it."""
    rows = scene.book.rows("gold/failovers")
    kicker = "Fail-overs"
    if not rows:
        body = empty("No fail-over was recorded. Try one on a network of its own:", "scale0 drill")
        return Section("failovers", kicker, "No broker took over from another", body)
    lost, flying = sum(row["lost"] or 0 for row in rows), sum(row["in_flight"] or 0 for row in rows)
    longest = max((row["outage_us"] or 0 for row in rows), default=0)
    cost = (
        f"{words.count(lost)} of {words.plural(flying, 'task')} in flight lost" if flying else "no task was in flight"
    )
    changes = words.plural(len(rows), "change")
    title = f"{changes} of who serves: {cost}, at most {words.duration(longest)} without an outcome"
    ledger = [
        Bar(
            f"{scene.period.show(row['ts_us'])} {row['broker']}",
            [(float(row[key] or 0), fill) for key, fill in LEDGER],
            f"{words.plural(row['in_flight'] or 0, 'task')}, {words.duration(row['outage_us'])}",
        )
        for row in rows[:LEDGERS_MAX]
        if row["in_flight"]
    ]
    keys = legend([(fill.replace("fill-", "b-"), key) for key, fill in LEDGER])
    heads = ["when", "broker", "what", "partner", "epoch", "in flight", *(key for key, _ in LEDGER), "twice", "outage"]
    cells: list[list[Child]] = [
        [
            words.date_and_time(row["ts_us"]),
            name(row["broker"]),
            (row["what"] or "").replace("_", " "),
            name(row["partner"]),
            str(row["epoch"]),
            words.count(row["in_flight"] or 0),
            *(words.count(row[key] or 0) for key, _ in LEDGER),
            words.count(row["doubled"] or 0),
            words.duration(row["outage_us"]),
        ]
        for row in rows
    ]
    numbers = set(range(4, len(heads)))
    if not ledger:
        return Section("failovers", kicker, title, join(short_table(heads, cells, numbers=numbers)))
    chart = bars(ledger, "What became of the tasks in flight at each fail-over", is_whole=True)
    return Section(
        "failovers", kicker, title, figure(chart, legend=keys, data=data_table(heads, cells, numbers=numbers))
    )
