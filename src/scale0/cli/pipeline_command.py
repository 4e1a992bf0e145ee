"""What `scale0 pipeline …` does: it calls the pipeline, shows how far that is, and says in a line what came of it."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from scale0.cli import periods, render, state_dirs
from scale0.cli.call_command import write_json
from scale0.cli.failures import Exit
from scale0.cli.options import addresses
from scale0.cli.render import Page
from scale0.cli.sim_progress import Progress
from scale0.cli.views import count
from scale0.errors import Scale0Error, UsageError

NEEDED = ("pyspark", "deltalake", "pyarrow", "pandas")


def place_of(data: str | None) -> str:
    """The data place that was named, or this user's."""
    return data or str(state_dirs.data_place())


def need_pipeline() -> None:
    """The pipeline is an extra: without it nothing else is missing, and this says how to add it."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"the pipeline is not installed: {', '.join(missing)} missing\nadd it: pip install 'scale0[pipeline]'"
        )


class Telling:
    """Progress of the pipeline as one line: what, how much of how much, and for how long."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._began_s = time.monotonic()

    def __call__(self, what: str, done: int, of: int) -> None:
        share = f"  {done:,} of {of:,}" if of else (f"  {done:,}" if done else "")
        self._progress.say(f"{what}{share}  ({time.monotonic() - self._began_s:.0f} s)")


@contextlib.contextmanager
def telling(is_json: bool) -> Iterator[tuple[Page, Telling]]:
    """A page, and progress on it while the block runs; with JSON nothing is said but the answer."""
    need_pipeline()
    page = Page()
    with Progress(page, is_quiet=is_json) as progress:
        yield page, Telling(progress)


# --- tables -------------------------------------------------------------------------------------------------------


def run(data: str | None, master: str, interval_s: float | None, is_json: bool) -> Exit:
    """Catch up, or follow until somebody says stop."""
    with telling(is_json) as (page, tell):
        from scale0_pipeline.jobs import run as jobs

        if interval_s is None:
            summary = jobs.once(place_of(data), master=master, progress=tell)
        else:
            stop = threading.Event()
            if not is_json:
                page.line(f"following {place_of(data)}; Ctrl-C ends it")
            with _stopping(stop):
                summary = jobs.follow(place_of(data), stop=stop, master=master, interval_s=interval_s, progress=tell)
    return _show(summary, "scale0.pipeline_run/1", run_words(summary), is_json, "Next: scale0 pipeline report")


def run_words(summary: Any) -> str:
    """`77,245 rows in 1 batch, 32.5 s`."""
    in_batches = count(summary.batches, "batch", "batches")
    return f"{count(summary.rows, 'row')} in {in_batches}, {summary.seconds:.1f} s"


@contextlib.contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM end a pipeline between two batches, with everything committed."""
    former = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def backfill(data: str | None, master: str, day: str, is_json: bool) -> Exit:
    wanted = periods.day(day)
    with telling(is_json) as (_page, tell):
        from scale0_pipeline.jobs import run as jobs

        summary = jobs.backfill(place_of(data), wanted, master=master, progress=tell)
    return _show(summary, "scale0.pipeline_backfill/1", f"{day} made anew from {summary.rows:,} rows", is_json)


def compact(data: str | None, master: str, is_json: bool) -> Exit:
    with telling(is_json) as (_page, tell):
        from scale0_pipeline.jobs import run as jobs

        summary = jobs.compact(place_of(data), master=master, progress=tell)
    text = f"{summary.merged:,} merges, {summary.deleted:,} files deleted"
    return _show(summary, "scale0.pipeline_compact/1", text, is_json)


# --- looking ------------------------------------------------------------------------------------------------------


def report(data: str | None, since: str | None, until: str | None, out: Path, is_json: bool) -> Exit:
    since_us, until_us = _window(since, until)
    with telling(is_json) as (_page, tell):
        from scale0_pipeline import report as reports

        summary = reports.write(place_of(data), out, since_us, until_us, tell)
    text = f"{summary.tasks:,} tasks, {summary.findings} findings, {summary.bytes / 1000:.0f} kB"
    return _show(summary, "scale0.pipeline_report/1", text, is_json, summary.verdict, f"Written: {out}")


def whatif(
    data: str | None,
    service: str,
    workers: str,
    policy: str,
    slots: int | None,
    window: tuple[str | None, str | None],
    master: str,
    is_json: bool,
) -> Exit:
    counts = periods.counts(workers)
    since_us, until_us = _window(*window)
    with telling(is_json) as (page, tell):
        from scale0_pipeline import whatif as engine

        curve = engine.run(
            place_of(data),
            service,
            counts,
            policy=policy,
            slots=slots,
            since_us=since_us,
            until_us=until_us,
            master=master,
            progress=tell,
        )
    if is_json:
        write_json(_document("scale0.whatif/1", msgspec.to_builtins(curve)), sys.stdout)
        return Exit.GOOD
    page.lines(engine.render(curve).splitlines())
    return Exit.GOOD


def doctor(data: str | None, master: str, is_json: bool) -> Exit:
    """Every check; a bad one makes the command fail."""
    page = Page()
    from scale0_pipeline import doctor as surgery

    checks = surgery.check(place_of(data), master=master)
    is_bad = any(check.state == "bad" for check in checks)
    if is_json:
        write_json(_document("scale0.pipeline_doctor/1", msgspec.to_builtins(checks)), sys.stdout)
    else:
        page.lines(surgery.render(checks).splitlines())
    return Exit.BAD_ANSWER if is_bad else Exit.GOOD


def why(data: str | None, task: str, is_json: bool) -> Exit:
    """The life of one task."""
    need_pipeline()
    from scale0_pipeline import why as stories

    page = Page()
    life = stories.explain(place_of(data), task)
    if is_json:
        write_json(_document("scale0.why/1", stories.to_dict(life)), sys.stdout)
    else:
        page.lines(stories.render(life, page.width).splitlines())
    return Exit.GOOD


# --- bringing in --------------------------------------------------------------------------------------------------


def collect(data: str | None, broker: str, auth_file: Path | None, timeout_s: float, is_json: bool) -> Exit:
    """Fetch what brokers recorded; who could not be asked is named."""
    from scale0.cli import collecting, manage_command

    manage = manage_command.manager(auth_file)
    with telling(is_json) as (page, tell):
        summary = collecting.collect(addresses(broker), place_of(data), manage, timeout_s=timeout_s, progress=tell)
    text = f"{summary.segments:,} segments with {summary.rows:,} rows from {len(summary.brokers):,} brokers"
    if not summary.failed:
        return _show(summary, "scale0.pipeline_collect/1", text, is_json, "Next: scale0 pipeline run --once")
    if is_json:
        write_json(_document("scale0.pipeline_collect/1", msgspec.to_builtins(summary)), sys.stdout)
    else:
        page.line(render.verdict("warn" if summary.brokers else "bad", text))
        page.lines(render.safe(f"{name}: {why}") for name, why in summary.failed.items())
    return Exit.PARTIAL if summary.brokers else Exit.UNREACHABLE


def import_lines(data: str | None, master: str, file: Path, is_json: bool) -> Exit:
    with telling(is_json) as (_page, tell):
        from scale0_pipeline.jobs import run as jobs

        summary = jobs.import_lines(place_of(data), file, master=master, progress=tell)
    text = f"{summary.rows:,} events brought in, {summary.quarantined:,} lines in quarantine"
    code = _show(summary, "scale0.pipeline_import/1", text, is_json, "Next: scale0 pipeline run --once")
    return Exit.PARTIAL if summary.quarantined else code


def generate(data: str | None, events: str, days: int, seed: int, with_faults: bool, is_json: bool) -> Exit:
    wanted = periods.amount(events)
    with telling(is_json) as (_page, tell):
        from scale0_pipeline import generate as maker

        summary = maker.generate(place_of(data), wanted, days, seed, tell, with_faults=with_faults)
    text = f"{summary.tasks:,} tasks, {summary.rows:,} rows in {summary.segments:,} segments"
    return _show(summary, "scale0.pipeline_generate/1", text, is_json, "Next: scale0 pipeline run --once")


# --- advice -------------------------------------------------------------------------------------------------------


def hints(
    data: str | None,
    broker: str,
    mode: str,
    is_sending: bool,
    auth_file: Path | None,
    timeout_s: float,
    is_json: bool,
) -> Exit:
    """Show the advice that holds now, and give it to brokers if that is wanted."""
    need_pipeline()
    from scale0_pipeline.hints import document as advice

    now_us = time.time_ns() // 1_000
    told = advice.current(place_of(data), now_us=now_us, mode=mode)
    answers = _send(told, broker, auth_file, timeout_s) if is_sending else {}
    failed = {endpoint: answer for endpoint, answer in answers.items() if isinstance(answer, Scale0Error)}
    if is_json:
        said = {endpoint: str(answer) if endpoint in failed else answer for endpoint, answer in answers.items()}
        write_json(_document("scale0.hints/1", {"document": told, "answers": said}), sys.stdout)
    else:
        page = Page()
        page.lines(advice.render(told, advice.verdicts(place_of(data), now_us=now_us)).splitlines())
        for endpoint, answer in answers.items():
            word = f"refused: {answer}" if endpoint in failed else "heard"
            page.line(render.safe(f"{endpoint}: {word}"))
        if not is_sending:
            page.line("Nobody was told. To tell a broker: scale0 pipeline hints --send")
    if not failed:
        return Exit.GOOD
    return Exit.PARTIAL if len(failed) < len(answers) else Exit.REFUSED


def _send(document: dict[str, Any], broker: str, auth_file: Path | None, timeout_s: float) -> dict[str, Any]:
    from scale0.cli import hints_command, manage_command

    credentials = manage_command.read_credentials(auth_file)
    return hints_command.send(document, addresses(broker), credentials, timeout_s)


# --- how it is shown ----------------------------------------------------------------------------------------------


def _window(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    now_us = time.time_ns() // 1_000
    since_us = periods.instant_us(since, now_us) if since else None
    until_us = periods.instant_us(until, now_us) if until else None
    if since_us is not None and since_us >= (until_us if until_us is not None else now_us):
        raise UsageError("the window ends before it begins\n--since must be before --until, and before now")
    return since_us, until_us


def _document(schema: str, content: Any) -> dict[str, Any]:
    return {"schema": schema, "at": time.time_ns() // 1_000, "result": content}


def _show(summary: msgspec.Struct, schema: str, text: str, is_json: bool, *more: str) -> Exit:
    """The sum of what was done."""
    if is_json:
        write_json(_document(schema, msgspec.to_builtins(summary)), sys.stdout)
        return Exit.GOOD
    page = Page()
    page.line(render.verdict("ok", text))
    for line in more:
        page.line(render.safe(line))
    return Exit.GOOD
