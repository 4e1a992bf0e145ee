"""The record itself: how complete it is, which rules of it are broken, and how every figure was made."""

from __future__ import annotations

from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report.book import ROWS_MAX, Row
from scale0_pipeline.report.charts.marks import WHOLE, legend
from scale0_pipeline.report.charts.strips import Piece, Strip, strips
from scale0_pipeline.report.html import Child, Html, el, join
from scale0_pipeline.report.section import Scene, Section, data_table, empty, figure, name, state
from scale0_pipeline.units import HOUR_US

BROKERS_MAX: Final = 24

METHODS: Final = (
    "Completeness is rows recorded ÷ rows that brokers counted, by their own gauges and by what their peers heard "
    "of them; it is never guessed from gaps alone. Where it is under 99.9 % the charts are hatched and the "
    "figures say so.",
    "Percentiles come from histograms with 32 buckets an octave, which add up over minutes, services and brokers: "
    "they are at most 1.1 % off after any roll-up. Refused tasks took no time and are in none of them.",
    "Queue is the time without a worker, worker the time that the worker told of itself, network what remains "
    "between dispatch and outcome. They need no common clock. Where a worker told nothing, its task is in neither "
    "of the two.",
    "Tasks are counted where they were settled for their client; a broker that only ran one for another does not "
    "count it again, and a task that was settled twice around a fail-over counts once.",
    "Late events are added to their own day, and the day is made anew: a later report of the same period may say more.",
)


def record(scene: Scene) -> Section:
    """Completeness by broker and hour, gaps, broken rules, methods."""
    share = scene.book.completeness.share
    rows = scene.book.rows("gold/completeness_1h")
    if share is None:
        title = "How complete the record is, is not known: no gauge was heard"
    elif share >= WHOLE:
        title = f"The record is complete: {words.percent(share)} of {words.count(scene.book.completeness.counted)} rows"
    else:
        lost = words.plural(scene.book.completeness.lost, "row")
        title = f"The record lacks {lost}: it holds {words.percent(share)} of what was counted"
    body = join(
        [
            _strips(scene, rows) if rows else empty("No counters were recorded.", "scale0 pipeline doctor"),
            _gaps(scene),
            _rules(scene),
            Html("<h3>Methods</h3>"),
            el("ul", *(el("li", sentence) for sentence in METHODS), class_="methods"),
            _cut(scene),
        ]
    )
    return Section("record", "Completeness and methods", title, body)


def _strips(scene: Scene, rows: list[Row]) -> Html:
    by_broker: dict[str, list[Row]] = {}
    for row in rows:
        by_broker.setdefault(row["broker"], []).append(row)
    lines = [
        Strip(broker, [_piece(row) for row in sorted(by_broker[broker], key=lambda row: row["hour_us"])])
        for broker in sorted(by_broker)[:BROKERS_MAX]
    ]
    cells: list[list[Child]] = []
    for broker in sorted(by_broker):
        recorded, counted, unknown = (
            sum(row[key] or 0 for row in by_broker[broker]) for key in ("recorded", "counted", "unknown")
        )
        share = min(1.0, recorded / counted) if counted else None
        cells.append(
            [name(broker), words.count(recorded), words.count(counted), words.percent(share), words.count(unknown)]
        )
    heads = ["broker", "recorded", "counted", "complete", "known by peers only"]
    chart = strips(scene.period, lines, "How complete the record of each broker is", testid="chart-record")
    keys = legend(
        [("b-ok soft", "99.9 % and more"), ("b-warn", "less"), ("b-bad", "under 90 %"), ("b-off", "not known")]
    )
    return figure(chart, legend=keys, data=data_table(heads, cells))


def _piece(row: Row) -> Piece:
    share = row["completeness"]
    colour = "s-off" if share is None else "s-ok soft" if share >= WHOLE else "s-warn" if share >= 0.9 else "s-bad"
    text = f"{words.percent(share)} of {words.count(row['counted'])} rows"
    return Piece(row["hour_us"], row["hour_us"] + HOUR_US, colour, text)


def _gaps(scene: Scene) -> Html | None:
    rows = scene.book.rows("silver/gaps")
    if not rows:
        return None
    cells: list[list[Child]] = [
        [
            name(row["broker"]),
            f"{row['seq_lo']:,}–{row['seq_hi']:,}",
            words.count(row["rows"]),
            row["why"] or words.UNKNOWN,
        ]
        for row in sorted(rows, key=lambda row: -(row["rows"] or 0))
    ]
    lost = words.plural(sum(row["rows"] or 0 for row in rows), "row")
    return data_table(["broker", "numbers", "rows", "why"], cells, summary=f"Gaps: {lost} lost", numbers={1, 2})


def _rules(scene: Scene) -> Html | None:
    """Rules of the data that did not hold; those that held are a number."""
    rows = scene.book.rows("quality/results")
    if not rows:
        return None
    broken = [row for row in rows if row["is_broken"]]
    rules = len({(row["table"], row["rule"]) for row in rows})
    if not broken:
        return el("p", state("ok", "●", f"{words.plural(rules, 'rule')} of data quality held in every batch."))
    cells: list[list[Child]] = [
        [row["table"], row["rule"], words.count(row["failed"]), words.count(row["rows"]), words.name(row["sample"])]
        for row in broken
    ]
    text = (
        f"{words.plural(len({(row['table'], row['rule']) for row in broken}), 'rule')} of {rules} did not always hold."
    )
    heads = ["table", "rule", "broken by", "of rows", "sample"]
    return join([el("p", state("warn", "!", text)), data_table(heads, cells, summary="Broken rules", numbers={2, 3})])


def _cut(scene: Scene) -> Html | None:
    if not scene.book.cut:
        return None
    names = words.listed(sorted(scene.book.cut), most=6)
    return el("p", f"Of {names} only the newest {ROWS_MAX:,} rows were read.", class_="muted")
