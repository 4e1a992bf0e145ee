"""What a drill ends with: the verdict, the timeline, and the ledger by class and phase.

It is made of plain figures, so that what is shown and what `--json` prints are the same. Times of the timeline count
from the fault; what did not happen, or was not seen, is null.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from rich.text import Text

from scale0.cli import render
from scale0.cli.drill_ledger import PHASES, Ledger
from scale0.cli.failures import Exit
from scale0.cli.render import Column
from scale0.cli.views import count

GOOD_KINDS: Final = ("replied", "rerouted", "retried")
MEANINGS: Final = {
    "error 404": "nobody serves it",
    "error 408": "deadline passed in the queue",
    "error 429": "a limit was reached",
    "error 500": "the handler raised",
    "error 502": "worker lost, or outcome unknown: it may have run",
    "error 503": "no broker took it",
    "error 504": "no reply by the deadline",
    "lost": "no broker said a word of it",
    "wrong": "the reply answers something else",
}


class Timeline(msgspec.Struct, frozen=True):
    """Seconds after the fault."""

    first_error_s: float | None = None
    noticed_s: float | None = None
    first_success_s: float | None = None
    mended_s: float | None = None
    recovered_s: float | None = None


class Latency(msgspec.Struct, frozen=True):
    p50_ms: float | None
    p99_ms: float | None


class Report(msgspec.Struct, frozen=True):
    """How the drill went."""

    drill: str
    victim: str
    timeline: Timeline
    tasks: dict[str, dict[str, int]]  # phase → class → how many
    latency: dict[str, Latency]
    noticed_by: str = ""
    aborted_by: str = ""  # the condition that was met, or how else it was ended early
    was_struck: bool = True
    schema: str = "scale0.drill/1"

    @property
    def lost(self) -> int:
        return sum(kinds.get("lost", 0) for kinds in self.tasks.values())

    @property
    def wrong(self) -> int:
        return sum(kinds.get("wrong", 0) for kinds in self.tasks.values())

    def exit_code(self) -> Exit:
        """Good only if nothing was lost and all is well again."""
        if self.aborted_by:
            return Exit.ABORTED
        is_well = not self.lost and not self.wrong and self.timeline.recovered_s is not None
        return Exit.GOOD if is_well else Exit.BAD_ANSWER

    def document(self) -> dict[str, Any]:
        verdict = {"exit_code": int(self.exit_code()), "lost": self.lost, "wrong": self.wrong}
        return {**msgspec.to_builtins(self), **verdict}


def make(
    ledger: Ledger,
    *,
    drill: str,
    victim: str,
    noticed_s: float | None,
    noticed_by: str,
    mended_s: float | None,
    aborted_by: str,
    was_struck: bool = True,
) -> Report:
    """The report of a run that is over; its times are of the monotonic clock."""
    struck_s = ledger.struck_s

    def since(moment_s: float | None) -> float | None:
        return round(moment_s - struck_s, 3) if moment_s is not None and was_struck else None

    timeline = Timeline(
        first_error_s=since(ledger.first(is_good=False)),
        noticed_s=since(noticed_s),
        first_success_s=since(ledger.first(is_good=True)),
        mended_s=since(mended_s),
        recovered_s=since(ledger.recovered_s),
    )
    latency = {phase: Latency(_ms(p50_s), _ms(p99_s)) for phase, (p50_s, p99_s) in ledger.latencies().items()}
    return Report(
        drill,
        victim,
        timeline,
        ledger.table(),
        latency,
        noticed_by=noticed_by,
        aborted_by=aborted_by,
        was_struck=was_struck,
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


# --- drawing ------------------------------------------------------------------------------------------------------


def draw(report: Report, width: int | None = None) -> list[Text]:
    """The closing lines: verdict, timeline, ledger."""
    lines = [_verdict(report), Text("")]
    if report.was_struck:
        lines += [*_timeline(report), Text("")]
    lines += _table(report, width)
    seen = {kind for kinds in report.tasks.values() for kind in kinds}
    lines += [Text(f"{kind}: {MEANINGS[kind]}", style="dim") for kind in _kinds(report) if kind in seen & set(MEANINGS)]
    return lines


def _verdict(report: Report) -> Text:
    timeline, in_flight = report.timeline, report.tasks["in flight"]
    held = sum(in_flight.values())
    if not report.was_struck:
        return render.verdict("warn", f"{report.drill} {report.victim}: nothing was struck: {report.aborted_by}")
    found = [f"{report.drill} {render.safe(report.victim)}"]
    found.append(f"{count(held, 'task')} in flight, {report.lost:,} lost" if held or report.lost else "none in flight")
    if report.wrong:
        found.append(f"{report.wrong:,} answered wrongly")
    recovered_s = timeline.recovered_s
    found.append("not recovered" if recovered_s is None else f"recovered after {recovered_s:.1f} s")
    if report.aborted_by:
        found.append(f"aborted: {report.aborted_by}")
    fill = {Exit.GOOD: "ok", Exit.ABORTED: "warn"}.get(report.exit_code(), "bad")
    return render.verdict(fill, "; ".join(found))


def _timeline(report: Report) -> list[Text]:
    told = report.timeline
    by = f" by {render.safe(report.noticed_by)}" if report.noticed_by else ""
    events = [
        (0.0, "the fault struck"),
        (told.first_error_s, "first error"),
        (told.noticed_s, f"noticed{by}"),
        (told.first_success_s, "first reply to a task sent after it"),
        (told.mended_s, "mended"),
        (told.recovered_s, "recovered: all replied to, at full pace, from here on"),
    ]
    happened = sorted((when_s, what) for when_s, what in events if when_s is not None)
    lines = [Text.assemble((f"{when_s:8.3f} s  ", "dim"), what) for when_s, what in happened]
    if told.noticed_s is None:
        lines.append(Text.assemble((f"{render.UNKNOWN:>8} s  ", "dim"), f"not noticed{by} while it was looked at"))
    return lines


def _kinds(report: Report) -> list[str]:
    """All classes, the good ones and lost even if there are none."""
    seen = {kind for kinds in report.tasks.values() for kind in kinds}
    bad = sorted(seen.difference(GOOD_KINDS, ("lost",)))
    return [*GOOD_KINDS, *bad, "lost"]


def _table(report: Report, width: int | None) -> list[Text]:
    columns = (Column("TASKS"), *(Column(phase.upper(), is_number=True) for phase in PHASES))
    rows = [(kind, *(f"{report.tasks[phase].get(kind, 0):,}" for phase in PHASES)) for kind in _kinds(report)]
    rows.append(("sum", *(f"{sum(report.tasks[phase].values()):,}" for phase in PHASES)))
    rows.append(("p50 ms", *(render.figure(report.latency[phase].p50_ms) for phase in PHASES)))
    rows.append(("p99 ms", *(render.figure(report.latency[phase].p99_ms) for phase in PHASES)))
    return render.table(columns, rows, width=width)
