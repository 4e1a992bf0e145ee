"""How long tasks took: bands, a heat map, and each of the busiest services; then where that time went."""

from __future__ import annotations

from typing import Final

import numpy as np

from scale0_pipeline import words
from scale0_pipeline.buckets import PER_OCTAVE
from scale0_pipeline.report import histogram
from scale0_pipeline.report.charts import heat, lines, parts
from scale0_pipeline.report.charts.marks import legend
from scale0_pipeline.report.findings import find
from scale0_pipeline.report.findings_tasks import waiting
from scale0_pipeline.report.html import Child, Html, el, join
from scale0_pipeline.report.section import Scene, Section, data_table, empty, figure, name, time_table

STAMP_BINS_MAX: Final = 100
"""A small chart has fewer bins: more would be finer than its pixels."""


def latency(scene: Scene) -> Section:
    """Percentiles over time, of all tasks and of the busiest services."""
    flow, period = scene.book.flow, scene.period
    whole = flow.latency.sum(axis=0)
    if not whole.sum():
        return Section("latency", "Latency", "Nothing was measured", empty("No accepted task was recorded."))
    bands = lines.Bands(flow.latency)
    p50, p99 = (words.duration(histogram.percentile_us(whole, share)) for share in (0.5, 0.99))
    worst = max(range(period.bins), key=lambda index: bands.p99[index] or 0)
    title = (
        f"Half of the tasks took under {p50}, 99 of 100 under {p99}; "
        f"p99 was highest at {period.show(int(period.starts_us()[worst]))}, {words.duration(bands.p99[worst])}"
    )
    columns = {
        label: [words.duration(value) for value in values]
        for label, values in (("p50", bands.p50), ("p90", bands.p90), ("p99", bands.p99))
    }
    keys = legend([("l-ok", "p50"), ("b-ok soft", "p50–p90"), ("b-ok faint", "p90–p99")])
    chart = lines.latency(period, bands, scene.gaps, scene.marks)
    first = figure(chart, legend=keys, data=time_table(scene, columns), is_live=True)
    return Section("latency", "Latency, logarithmic", title, join([first, _services(scene)]))


def _services(scene: Scene) -> Html:
    """Stamps of the busiest services on one axis, and a table of all."""
    flow = scene.book.flow
    times = -(-scene.period.bins // STAMP_BINS_MAX)
    period = scene.period.wider(times)
    shown = [lines.Bands(histogram.wider(counts, times)) for counts in flow.shown]
    known = [value for bands in shown for value in bands.p50 + bands.p99 if value is not None]
    ends = lines.decade_ends(known)
    stamps = [
        el("figure", el("figcaption", name(service)), lines.small_bands(period, bands, ends, service))
        for service, bands in zip(flow.services, shown, strict=False)
        if any(value is not None for value in bands.p50)
    ]
    rows: list[list[Child]] = []
    for index, service in enumerate(flow.services):
        counts, tasks = flow.by_service[index], int(flow.count[index].sum())
        if not tasks:
            continue
        percentiles = [words.duration(histogram.percentile_us(counts, share)) for share in (0.5, 0.9, 0.99, 0.999)]
        bad = words.percent(int(flow.bad[index].sum()) / tasks)
        rows.append([name(service), words.count(tasks), *percentiles, bad])
    heads = ["service", "tasks", "p50", "p90", "p99", "p99.9", "ended badly"]
    return join([el("div", *stamps, class_="stamps"), data_table(heads, rows, summary="Each service")])


def heat_map(scene: Scene) -> Section:
    """Every task in one picture."""
    flow, period = scene.book.flow, scene.period
    whole = flow.latency.sum(axis=0)
    if not whole.sum():
        return Section("heat", "Latency heat map", "Nothing was measured", empty("No accepted task was recorded."))
    octaves = whole[: histogram.SIZE].reshape(histogram.OCTAVES, PER_OCTAVE).sum(axis=1)
    octaves[0] += whole[histogram.SIZE]
    most = int(np.argmax(octaves))
    share = words.percent(octaves[most] / whole.sum())
    title = f"{share} of the tasks took {_octave(most)}"
    rows: list[list[Child]] = [
        [_octave(index), words.count(int(number)), words.percent(number / whole.sum())]
        for index, number in enumerate(octaves)
        if number
    ]
    body = figure(
        heat.heat_map(period, flow.latency, scene.gaps, scene.marks),
        legend=heat.heat_legend(flow.latency),
        data=data_table(["latency", "tasks", "share"], rows, summary="Data, an octave a row"),
    )
    return Section("heat", "Latency heat map", title, body)


def _octave(index: int) -> str:
    return f"{words.duration(2**index)} to {words.duration(2 ** (index + 1))}"


def where_time_goes(scene: Scene) -> Section:
    """Queue, worker, network: means stacked, percentiles apart."""
    flow = scene.book.flow
    kicker = "Where time goes"
    if not flow.accepted.sum():
        return Section("parts", kicker, "Nothing was measured", empty("No accepted task was recorded."))
    means = parts.means_us(flow)
    columns = {f"mean {part}": [words.duration(float(value)) for value in means[part]] for part in parts.PART_NAMES}
    chart = figure(
        parts.stacked(flow, scene.gaps, scene.marks),
        legend=legend([(f"b-{part}", part) for part in parts.PART_NAMES]),
        data=time_table(scene, columns),
        is_live=True,
    )
    counts = scene.book.parts.counts
    ends = parts.shared_ends(counts)
    stamps = [
        el(
            "figure",
            el("figcaption", f"{part}: p50 {_whole(counts[part], 0.5)}, p99 {_whole(counts[part], 0.99)}"),
            parts.percentile_chart(scene.book.parts.period, counts[part], ends, part),
        )
        for part in parts.PART_NAMES
        if counts[part].sum() > 0
    ]
    note = el("p", "Means add up and are stacked; percentiles do not, so each part has its own chart.", class_="muted")
    return Section("parts", kicker, _where(scene), join([chart, el("div", *stamps, class_="stamps"), note]))


def _whole(counts: histogram.Counts, share: float) -> str:
    return words.duration(histogram.percentile_us(counts.sum(axis=0), share))


def _where(scene: Scene) -> str:
    """The conclusion: who waits, if anybody does; else where most of the time is spent."""
    told = [finding for finding in find(scene.book) if finding.what.endswith("waits for workers")]
    waits = told or sorted(waiting(scene.book), key=lambda finding: -finding.weight)
    if waits:
        return f"{waits[0].what} {waits[0].since}"
    sums = {part: float(scene.book.flow.sums[f"{part}_us"].sum()) for part in parts.PART_NAMES}
    most = max(sums, key=lambda part: sums[part])
    whole = sum(sums.values())
    places = {"queue": "waiting for a worker", "worker": "in workers", "network": "between machines"}
    return (
        f"{words.percent(sums[most] / whole)} of the time is spent {places[most]}"
        if whole
        else "No worker told its time"
    )
