"""`scale0 pipeline doctor`: what the pipeline needs, looked at one by one, and how to mend what is missing.

Each check is a function that returns a `Check`, and none of them stops the others: whoever installs something wants to
know at once all that is wrong. They go from what everything needs to what only some do, and the last one starts Spark
and has it run a little Python on an executor, for that is what all the others are for. This module works where the
pipeline is not installed: nothing of it is imported before it is looked for.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from scale0.errors import Scale0Error
from scale0_pipeline import faststart
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.java import Java, find_java

State = Literal["ok", "warn", "bad"]
MARKS: Final = {"ok": "●", "warn": "!", "bad": "✗"}

INSTALL: Final = 'run: pip install "scale0[pipeline]"'
NEEDED: Final = {  # the lowest version that works, and the first that does not
    "pyspark": ((4, 2), None),
    "pyarrow": ((22,), None),
    "deltalake": ((1, 5), None),
    "pandas": ((2, 2), (3,)),
    "numpy": ((2,), None),
}
JARS: Final = {  # what Spark needs to reach a store; none of them is in the wheel, and none of these was tried
    "s3": "hadoop-aws",
    "s3a": "hadoop-aws",
    "gs": "gcs-connector",
    "gcs": "gcs-connector",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
}
FREE_LOW_BYTES: Final = 10 * 1024**3
FREE_LEAST_BYTES: Final = 1024**3


class Check(msgspec.Struct, frozen=True):
    """What was looked at, how it is, and what to do if it is not well."""

    name: str
    state: State
    text: str
    cure: str = ""


def check(place_url: str, *, master: str = "local[*]", is_starting: bool = True) -> list[Check]:
    """Every check, in order. `is_starting`: start Spark, too, which takes some seconds."""
    checks = list(_checks(place_url, master))
    if is_starting and not any(one.state == "bad" for one in checks):
        checks.append(_spark(master))
    return checks


def render(checks: list[Check]) -> str:
    """A line each, below it how to mend it, and a verdict at the end."""
    width = max(len(one.name) for one in checks)
    lines = []
    for one in checks:
        lines.append(f"{MARKS[one.state]} {one.name:<{width}}  {one.text}")
        lines += [f"{'':{width + 4}}{line}" for line in one.cure.splitlines()]
    bad = sum(one.state == "bad" for one in checks)
    warned = sum(one.state == "warn" for one in checks)
    verdict = f"{bad} to mend before the pipeline can run" if bad else "the pipeline can run"
    return "\n".join([*lines, "", verdict + (f"; {warned} to look at" if warned else "")])


def _checks(place_url: str, master: str) -> Iterator[Check]:
    yield _python()
    for package, (lowest, limit) in NEEDED.items():
        yield package_check(package, _version_of(package), lowest, limit)
    java, java_check = _java()
    yield java_check
    if java is not None and importlib.util.find_spec("pyspark"):
        yield _archive(java)
    yield _interpreter()
    yield from _jars(place_url, master)
    if importlib.util.find_spec("pyarrow"):
        yield from _place(place_url)


def _python() -> Check:
    return Check("Python", "ok", f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}")


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def package_check(package: str, version: str | None, lowest: tuple[int, ...], limit: tuple[int, ...] | None) -> Check:
    """Whether a package is there, and of a version that works."""
    wanted = f"{_dotted(lowest)} or newer" + (f", before {_dotted(limit)}" if limit else "")
    if version is None:
        return Check(package, "bad", f"is not installed; {wanted} is needed", INSTALL)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if numbers < lowest or (limit and numbers >= limit):
        bound = f">={_dotted(lowest)}" + (f",<{_dotted(limit)}" if limit else "")
        return Check(package, "bad", f"{version}; {wanted} is needed", f'run: pip install "{package}{bound}"')
    return Check(package, "ok", version)


def _java() -> tuple[Java | None, Check]:
    try:
        java = find_java()
    except PipelineError as error:
        return None, Check("Java", "bad", error.text, error.cure)
    return java, Check("Java", "ok", f"{java.version}, from {java.origin}")


def _archive(java: Java) -> Check:
    """An archive that is missing costs seconds, and nothing else."""
    if faststart.archive_of(java).exists():
        return Check("fast start", "ok", "Spark's classes are kept, so it starts in half the time")
    if java.is_wrapped:
        return Check("fast start", "ok", "not with this Java; Spark takes some seconds more to start")
    text = "Spark's classes are not kept: it takes some seconds more to start"
    return Check("fast start", "ok", text, "if that matters, run: python -m scale0_pipeline.faststart")


def _interpreter() -> Check:
    """What executors run. On a cluster the path must mean a Python with our dependencies on every machine."""
    told = os.environ.get("PYSPARK_PYTHON")
    if not told:
        return Check("PYSPARK_PYTHON", "ok", f"is not set: {sys.executable} is used, on executors too")
    if shutil.which(told) is None:
        return Check("PYSPARK_PYTHON", "bad", f"{told} cannot be run", "unset it, or name a Python 3.11 or newer")
    return Check("PYSPARK_PYTHON", "ok", told)


def _jars(place_url: str, master: str) -> Iterator[Check]:
    scheme = place_url.partition("://")[0].lower() if "://" in place_url else ""
    if scheme in JARS:
        name = JARS[scheme]
        found = [jar.name for jar in faststart.jars() if jar.name.startswith(name)]
        if found:
            yield Check("jars", "warn", f"{found[0]} is there; {scheme} was never tried with this pipeline")
        else:
            cure = "add it and what it needs to Spark's jars, or use storage that all machines have mounted"
            yield Check("jars", "bad", f"Spark needs {name} for {scheme}, which its wheel does not bring", cure)
    if master.startswith(("yarn", "k8s", "mesos")):
        yield Check("master", "warn", f"{master} was never tried with this pipeline; local and spark:// were")


def _place(place_url: str) -> Iterator[Check]:
    """The data place: it can be read and written, has room, has segments; and who writes its tables."""
    from scale0.telemetry import catalogue
    from scale0.telemetry.place import Place

    try:
        place = Place(place_url)
        yield _writable(place)
        brokers = catalogue.brokers(place)
    except (OSError, Scale0Error) as error:
        yield Check("data", "bad", f"{place_url}: {_first_line(error)}", "name another place: --data URL")
        return
    if place.local_path is not None:
        yield space_check(shutil.disk_usage(_existing(place.local_path)).free)
    if brokers:
        segments = sum(catalogue.last_number(place, broker) for broker in brokers)
        yield Check("events", "ok", f"{segments:,} segments of {len(brokers)} brokers")
    else:
        yield Check("events", "warn", "none yet", "start a broker with --telemetry, or run: scale0 pipeline generate")
    yield _lease(place)


def _writable(place: Any) -> Check:
    """Write a small file, if the place is there, and take it away again."""
    path = place.local_path
    if path is not None and not path.exists():
        folder = _existing(path)
        if os.access(folder, os.W_OK):
            return Check("data", "ok", f"{place.url} is not there yet, and can be made")
        return Check("data", "bad", f"{folder} cannot be written to", "name another place: --data URL")
    name = f"doctor-{os.getpid()}-{time.monotonic_ns()}"
    place.write_atomic(("pipeline", name), b"")
    place.delete("pipeline", name)
    return Check("data", "ok", f"{place.url} can be read and written")


def _existing(path: Path) -> Path:
    """The nearest directory above that is there."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


def space_check(free_bytes: int) -> Check:
    text = f"{free_bytes / 1024**3:,.1f} GiB free"
    if free_bytes < FREE_LEAST_BYTES:
        return Check("disk", "bad", text, "make room: the tables take about as much as the segments, twice for a while")
    if free_bytes < FREE_LOW_BYTES:
        return Check("disk", "warn", text, "make room soon: 50 million events and their tables take some 10 GiB")
    return Check("disk", "ok", text)


def _lease(place: Any) -> Check:
    from scale0_pipeline.tables.lease import Lease

    holder = Lease(place).holder()
    if holder is None or holder.is_released:
        return Check("lease", "ok", "nobody writes the tables now")
    who = f"process {holder.pid} on {holder.host}"
    if holder.is_gone(time.time_ns() // 1_000):
        return Check("lease", "ok", f"{who} wrote the tables and is gone: the next run takes over")
    return Check("lease", "ok", f"{who} writes the tables now; a second run would be refused")


def _spark(master: str) -> Check:
    """Start it, and run Python on an executor."""
    from scale0_pipeline.session import running_session

    began_s = time.monotonic()
    try:
        with running_session(master, app="scale0-doctor") as spark:
            probe: Callable[[Any], Any] = _probe
            version = spark.version
            (row,) = spark.range(1).mapInArrow(probe, "python string, pyarrow string").collect()
    except Exception as error:  # whatever Spark, its JVM or its Python workers raise is the finding
        cure = "on a cluster PYSPARK_PYTHON must name a Python with scale0[pipeline] on every machine"
        return Check("Spark", "bad", f"does not run at {master}: {_first_line(error)}", cure)
    took = f"{time.monotonic() - began_s:.1f} s"
    executors = f"executors run Python {row['python']} with pyarrow {row['pyarrow']}"
    return Check("Spark", "ok", f"{version} runs at {master}, started in {took}; {executors}")


def _probe(batches: Any) -> Iterator[Any]:
    """What an executor's Python is."""
    import pyarrow as pa

    for _ in batches:
        version = ".".join(map(str, sys.version_info[:3]))
        yield pa.RecordBatch.from_pylist([{"python": version, "pyarrow": pa.__version__}])


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
