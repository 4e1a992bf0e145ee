"""The page: verdict, period, six figures, three findings, and the sections in their order, as one HTML file.

Whoever has half a minute reads the top of it; whoever has more scrolls. It needs nothing but itself: no font, no script
from elsewhere, no network, so it can be mailed, printed and opened in ten years.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scale0_pipeline import words
from scale0_pipeline.report import style
from scale0_pipeline.report.book import Book
from scale0_pipeline.report.charts.lines import sparkline
from scale0_pipeline.report.charts.marks import WHOLE, hatching
from scale0_pipeline.report.figures import Figure, six
from scale0_pipeline.report.finding import GLYPHS, Finding
from scale0_pipeline.report.findings import SHOWN_MAX, Verdict, find, judge
from scale0_pipeline.report.html import Html, details, el, join
from scale0_pipeline.report.section import Scene, Section, make_scene
from scale0_pipeline.report.sections import advice, latency, promises, record, tasks, usage, workers

BYTES_MAX: Final = 500_000
"""A report is no longer than this."""
FOUND_MAX: Final = 30
"""Findings beyond these are in the sections alone."""

ORDER: Final[tuple[Callable[[Scene], Section], ...]] = (
    tasks.throughput,
    tasks.errors,
    latency.latency,
    latency.heat_map,
    latency.where_time_goes,
    promises.burn,
    promises.failovers,
    workers.workers,
    advice.configs,
    advice.capacity,
    usage.usage,
    record.record,
)
"""Verdict first, then what was done, how fast, why, and last how it is known."""


def render(book: Book, made_us: int) -> str:
    """The whole page. `made_us` is when it was made. One that would be too long goes without the data of its charts."""
    page = _page(book, made_us, make_scene(book))
    return page if len(page.encode()) <= BYTES_MAX else _page(book, made_us, make_scene(book, is_lean=True))


def _page(book: Book, made_us: int, scene: Scene) -> str:
    found = find(book)
    verdict = judge(book, found)
    head = join(
        [
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=style.policy()),
            el("meta", name="viewport", content="width=device-width,initial-scale=1"),
            el("meta", name="referrer", content="no-referrer"),
            el("title", f"Scale0: {verdict.sentence}"),
            Html(f"<style>{style.css()}</style>"),
        ]
    )
    main = el(
        "main",
        _top(book, verdict),
        el("div", *(_card(figure) for figure in six(book)), class_="cards"),
        _findings(found),
        *(_section(book, make(scene)) for make in ORDER),
        _foot(book, made_us),
    )
    body = el("body", hatching(), main, Html(f"<script>{style.SCRIPT}</script>"))
    return f"<!doctype html>\n{el('html', el('head', head), body, lang='en')}\n"


def _top(book: Book, verdict: Verdict) -> Html:
    share = book.completeness.share
    record_ = "completeness not known" if share is None else f"{words.percent(share)} recorded"
    return el(
        "header",
        el("p", f"{book.period.text()} · {record_}", class_="kicker", data_testid="period"),
        el(
            "h1",
            el("span", verdict.glyph, class_=f"glyph g-{verdict.fill}"),
            f" {verdict.sentence}",
            data_testid="verdict",
        ),
    )


def _card(figure: Figure) -> Html:
    glyph = el("i", "! ", class_="glyph g-warn") if figure.is_worse else None
    return el(
        "div",
        el("span", figure.name),
        el("b", figure.value),
        el("span", glyph, figure.change),
        sparkline(figure.trend),
        class_="card",
    )


def _findings(found: list[Finding]) -> Html:
    if not found:
        return el("section", el("p", "Findings", class_="kicker"), el("p", "Nothing needs anybody."), id="findings")
    shown = el("ol", *(_finding(finding) for finding in found[:SHOWN_MAX]), class_="findings")
    rest = found[SHOWN_MAX:FOUND_MAX]
    more = details(
        words.plural(len(rest), "more finding"), el("ol", *(_finding(one) for one in rest), class_="findings")
    )
    return el("section", el("p", "Findings", class_="kicker"), shown, more if rest else None, id="findings")


def _finding(finding: Finding) -> Html:
    return el(
        "li",
        el("span", GLYPHS[finding.severity], class_=f"glyph g-{finding.severity}"),
        el("strong", finding.what),
        f" · {finding.since} · {finding.evidence} · ",
        el("code", finding.command),
        data_testid="finding",
    )


def _section(book: Book, section: Section) -> Html:
    share = book.completeness.share
    badge = (
        el("span", f"{words.percent(share)} recorded", class_="badge") if share is not None and share < WHOLE else None
    )
    return el(
        "section",
        el("p", section.kicker, badge, class_="kicker"),
        el("h2", section.title),
        section.body,
        id=section.key,
    )


def _foot(book: Book, made_us: int) -> Html:
    text = f"Made {words.date_and_time(made_us)} UTC by Scale0 from its own record. All times are UTC."
    return el("footer", text)
