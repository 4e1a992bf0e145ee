"""Who uses the network: hot services, noisy clients, and what each of them costs in worker time."""

from __future__ import annotations

from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report.book import Row
from scale0_pipeline.report.charts.bars import Bar, bars
from scale0_pipeline.report.html import Child, Html, join
from scale0_pipeline.report.section import Scene, Section, data_table, empty, figure, name

RANKED_MAX: Final = 10
NUMBERS: Final = ("count", "work_us", "request_bytes", "reply_bytes")


def usage(scene: Scene) -> Section:
    """Cost by service and by client, and the busiest edges between them."""
    rows = scene.book.rows("gold/cost_1d")
    kicker = "Hot services, clients, cost"
    if not rows:
        body = empty("No cost is known yet: workers tell their time with each reply.", "scale0 pipeline run --once")
        return Section("usage", kicker, "No cost is known yet", body)
    by_service, by_client = grouped(rows, "service"), grouped(rows, "client")
    before = grouped(scene.book.rows("cost before"), "service")
    whole = sum(one["work_us"] for one in by_service.values()) or 1
    hottest, noisiest = next(iter(by_service)), next(iter(by_client))
    title = (
        f"{words.name(hottest)} takes {words.percent(by_service[hottest]['work_us'] / whole)} of the worker time, "
        f"client {words.name(noisiest)} {words.percent(by_client[noisiest]['work_us'] / whole)}"
    )
    body = join(
        [
            Html("<h3>Worker time by service</h3>"),
            _ranked(by_service, whole, "service", before),
            Html("<h3>Worker time by client</h3>"),
            _ranked(by_client, whole, "client", grouped(scene.book.rows("cost before"), "client")),
            _edges(scene),
            Html('<p class="muted">Cost is kept by the day: it covers the whole days that the period touches.</p>'),
        ]
    )
    return Section("usage", kicker, title, body)


def grouped(rows: list[Row], key: str) -> dict[str, Row]:
    """Sums by one of the names, the dearest first."""
    sums: dict[str, Row] = {}
    for row in rows:
        one = sums.setdefault(row[key] or "", dict.fromkeys(NUMBERS, 0))
        for column in NUMBERS:
            one[column] += row[column] or 0
    return dict(sorted(sums.items(), key=lambda item: (-item[1]["work_us"], -item[1]["count"], item[0])))


def _ranked(sums: dict[str, Row], whole: int, head: str, before: dict[str, Row]) -> Html:
    shown = [
        Bar(
            key,
            [(float(one["work_us"]), "fill-ok")],
            f"{words.duration(one['work_us'])}, {words.percent(one['work_us'] / whole)}",
        )
        for key, one in list(sums.items())[:RANKED_MAX]
    ]
    cells: list[list[Child]] = [
        [
            name(key),
            words.count(one["count"]),
            words.duration(one["work_us"]),
            words.percent(one["work_us"] / whole),
            _growth(one, before.get(key)),
            words.size(one["request_bytes"]),
            words.size(one["reply_bytes"]),
        ]
        for key, one in sums.items()
    ]
    heads = [head, "tasks", "worker time", "share", "growth", "asked", "answered"]
    return figure(bars(shown, f"Worker time by {head}"), data=data_table(heads, cells))


def _growth(now: Row, before: Row | None) -> str:
    if before is None or not before["work_us"]:
        return words.UNKNOWN
    share = now["work_us"] / before["work_us"] - 1
    return words.signed(words.percent(share), share)


def _edges(scene: Scene) -> Html:
    cells: list[list[Child]] = [
        [
            name(row["client"]),
            name(row["service"]),
            name(row["worker"]),
            words.count(row["count"]),
            words.percent((row["errors"] or 0) / row["count"] if row["count"] else None),
            words.duration(row["latency_us"] / row["count"] if row["count"] else None),
            words.duration(row["work_us"]),
        ]
        for row in scene.book.rows("gold/edges_1h")
    ]
    heads = ["client", "service", "worker", "tasks", "ended badly", "mean latency", "worker time"]
    return data_table(heads, cells, summary="Who asked whom", numbers={3, 4, 5, 6})
