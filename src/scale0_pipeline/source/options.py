"""What `.option(…)` may say, read once and checked: Spark hands every option over as text, in any case.

An option that nobody knows is an error that names those that there are, for a misspelt one would be ignored in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final

from scale0_pipeline.errors import PipelineError

READING: Final = {
    "path": "the data place that holds recorded events: a directory or a URL",
    "since": "only events from this time on: 2026-03-01, 2026-03-01T12:00:00Z, or µs since 1970",
    "until": "only events before this time",
    "columns": "only these columns, parted by commas",
    "broker": "instead of path: a broker's address, for a live table",
    "table": "which live table: workers, services, brokers or clients",
    "timeout": "seconds that a broker has to answer",
}
STREAMING: Final = {
    **{name: READING[name] for name in ("path", "columns")},
    "startingoffsets": "earliest (as if not said) or latest",
    "maxsegmentspertrigger": "at most so many segments a micro-batch",
    "maxrowspertrigger": "about so many rows a micro-batch, in whole segments and at least one",
    "consumer": "a name under which the position is kept in the data place, so that retention waits for this stream",
    "failondataloss": "true (as if not said): a stream fails if segments that it had not read were deleted",
}
WRITING: Final = {
    "broker": "addresses of brokers, parted by commas",
    "service": "the service that each row is a task for",
    "in_flight": "tasks under way at once, for each partition",
    "timeout": "seconds that each task has",
    "encoding": "arguments (as if not said): the columns in their order; json: one JSON object, as bytes",
    "allow_repeats": "true: services that are not idempotent, too; a row may then be served more than once",
    "errors": "fail (as if not said): the first task that fails ends the job; ignore: it is counted",
}
SPARKS_OWN: Final = frozenset({"checkpointlocation", "path"})  # what Spark itself adds


def check(options: Mapping[str, str], known: Mapping[str, str]) -> None:
    """Every option is known, in whatever case it is written."""
    for name in options:
        if name.lower() not in known and name.lower() not in SPARKS_OWN:
            listed = "\n  ".join(f"{known_name}: {text}" for known_name, text in known.items())
            raise PipelineError(f'format("scale0") has no option {name!r} here', f"it has:\n  {listed}")


def need(options: Mapping[str, str], name: str, example: str) -> str:
    """An option that must be there."""
    told = options.get(name, "")
    if not told:
        raise PipelineError(f'format("scale0") needs the option {name!r}', f'say: .option("{name}", "{example}")')
    return told


def whole(options: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    """A whole number."""
    told = options.get(name, "")
    if not told:
        return default
    if not told.strip().isdecimal() or int(told) < least:
        raise PipelineError(f"the option {name!r} is {told!r}", f"give a whole number from {least} on")
    return int(told)


def seconds(options: Mapping[str, str], name: str, default: float) -> float:
    told = options.get(name, "")
    try:
        value = float(told) if told else default
    except ValueError:
        value = 0.0
    if not value > 0:
        raise PipelineError(f"the option {name!r} is {told!r}", "give a number of seconds above 0")
    return value


def choice(options: Mapping[str, str], name: str, *choices: str) -> str:
    """One of some words; the first one if nothing is said."""
    told = options.get(name, choices[0]).lower()
    if told not in choices:
        raise PipelineError(f"the option {name!r} is {told!r}", f"give {' or '.join(choices)}")
    return told


def time_us(options: Mapping[str, str], name: str) -> int | None:
    """A time in UTC as µs since 1970. A day means its first moment; a time without a zone is in UTC."""
    told = options.get(name, "").strip()
    if not told:
        return None
    if told.lstrip("-").isdecimal():
        return int(told)
    try:
        if len(told) == len("2026-03-01"):
            moment = datetime.combine(date.fromisoformat(told), datetime.min.time(), UTC)
        else:
            moment = datetime.fromisoformat(told)
    except ValueError:
        cure = "give a day (2026-03-01), a time (2026-03-01T12:00:00Z), or µs since 1970"
        raise PipelineError(f"the option {name!r} is {told!r}, which is no time", cure) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)
