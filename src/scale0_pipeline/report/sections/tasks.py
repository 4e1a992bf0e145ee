"""How much was done, and what ended badly."""

from __future__ import annotations

from typing import Final

import numpy as np

from scale0_pipeline import words
from scale0_pipeline.report.charts.lines import errors as errors_chart
from scale0_pipeline.report.charts.lines import rate_unit
from scale0_pipeline.report.charts.lines import throughput as throughput_chart
from scale0_pipeline.report.charts.marks import legend
from scale0_pipeline.report.flow import CALLER, FAILED, FAMILIES, LATE, LOST, OVER_LIMIT
from scale0_pipeline.report.html import Child
from scale0_pipeline.report.section import Scene, Section, data_table, empty, figure, name, time_table
from scale0_pipeline.units import SECOND_US

MEANING: Final = {
    LATE: "late (408, 504)",
    LOST: "lost with a worker (502)",
    OVER_LIMIT: "over a limit (429, 503)",
    CALLER: "the caller's doing (other 4xx)",
    FAILED: "the handler raised (500)",
}
SHORT: Final = {
    LATE: "were too late",
    LOST: "were lost with their workers",
    OVER_LIMIT: "were over a limit",
    CALLER: "were their caller's doing",
    FAILED: "raised in their handlers",
}


def throughput(scene: Scene) -> Section:
    """Accepted and replied over time."""
    flow, period = scene.book.flow, scene.period
    kicker = "Throughput"
    if not flow.tasks:
        body = empty("No task was recorded in this period.", "scale0 call SERVICE BODY")
        return Section("throughput", kicker, "Nothing was asked for", body)
    accepted, failed = flow.accepted.sum(axis=0), flow.failed.sum(axis=0)
    refused = flow.count.sum(axis=0) - accepted
    replied = accepted - (failed - refused)
    seconds = period.bin_us / SECOND_US
    peak = int(np.argmax(accepted))
    mean = flow.tasks / (period.length_us / SECOND_US)
    title = (
        f"{words.figure(mean)} tasks a second on average, {words.figure(accepted[peak] / seconds)} at the peak, "
        f"at {period.show(int(period.starts_us()[peak]))}"
    )
    columns = {
        label: [words.figure(value / seconds) for value in numbers]
        for label, numbers in (("accepted /s", accepted), ("replied /s", replied), ("refused /s", refused))
    }
    body = figure(
        throughput_chart(period, accepted, replied, scene.gaps, scene.marks),
        legend=legend([("l-text", "accepted"), ("l-ok", "replied"), ("b-warn soft", "the gap between them")]),
        data=time_table(scene, columns),
        is_live=True,
    )
    return Section("throughput", kicker, title, body)


def errors(scene: Scene) -> Section:
    """Bad ends by family over time, and by service and code."""
    flow, period = scene.book.flow, scene.period
    failed = int(flow.failed.sum())
    if not failed:
        title = "Every task was replied to" if flow.tasks else "No task, no error"
        return Section("errors", "Errors by family", title, empty("No task ended badly in this period."))
    by_family = {family: int(flow.families[family].sum()) for family in FAMILIES}
    worst = max(FAMILIES, key=lambda family: by_family[family])
    share = words.percent(failed / flow.tasks)
    title = f"{share} of the tasks ended badly; {words.percent(by_family[worst] / failed)} of those {SHORT[worst]}"
    families = {family: flow.families[family].sum(axis=0) for family in FAMILIES}
    shown = [family for family in FAMILIES if by_family[family]]
    columns = {f"{family} tasks": [words.count(int(value)) for value in families[family]] for family in shown}
    rows: list[list[Child]] = [
        [name(service), str(code), outcome, words.count(number), words.percent(number / flow.tasks)]
        for (service, code, outcome), number in sorted(flow.codes.items(), key=lambda item: (-item[1], item[0]))
    ]
    body = figure(
        errors_chart(period, families, scene.gaps, scene.marks),
        legend=legend([(f"b-{family}", f"{MEANING[family]}: {words.count(by_family[family])}") for family in shown]),
        data=time_table(scene, columns),
        is_live=True,
    )
    heads = ["service", "code", "outcome", "tasks", "of all tasks"]
    return Section(
        "errors",
        f"Errors by family, tasks a {rate_unit(period)[1]}",
        title,
        type(body)(body + data_table(heads, rows, summary="By service and code", numbers={1, 3, 4})),
    )
