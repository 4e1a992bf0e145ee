"""One way to get a Spark session, on this machine, on a cluster, or one that a program has already.

`spark_session()` finds Java, sets the interpreter for Spark's Python processes, and starts Spark with the few settings
that the pipeline relies on: time is UTC, and only errors are logged. A session that is there already, as in a notebook
or under `spark-submit`, is used as it is; only if it counts time in another zone it gets a sibling that counts in UTC,
for it may be somebody's own.

On a cluster (`spark://host:7077`) the executors need our code too. It is sent with the job as a zip file, made of the
packages that this process runs itself, so both are of one version. What they import in turn (msgspec, pyarrow, and
pyzmq for calls) must be installed for the interpreter that `PYSPARK_PYTHON` names there; by default that is the path of
this process's own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scale0_pipeline import connect, faststart
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.java import Java, keep_text, use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("scale0", "scale0_pipeline", "pyspark_scale0")
"""What executors need of ours."""

CURE: Final = "scale0 pipeline doctor tells what is missing"

ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
"""Sums are made in one map: a small one before it, as Spark has it, is full at once when minutes and latencies are
keys, and is code to be made for each query."""
DRIVER_MEMORY: Final = "2g"
ON_ONE_MACHINE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "2000",
    "spark.ui.enabled": "false",
}
"""A disk tells of a batch's files at once: beyond 32 of them Spark would start a job with a task for each of them."""
IN_TESTS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
}
"""A test's frames are small: one partition, no second thoughts, and a compiler that does not try hard."""

CODE_OPTION: Final = "-XX:ReservedCodeCacheSize=512m -Xss4m"
"""Spark makes code for every query, and a long stream makes many: a JVM without room for it fails. Queries of many
columns are deep: so are the stacks of those who plan them."""
COLLECTOR_OPTION: Final = "-XX:+UseParallelGC"
"""Nobody waits for an answer within milliseconds here: the collector that costs the least, by a sixth of all."""
ROOM_OPTION: Final = f"-Xms{DRIVER_MEMORY} -XX:MetaspaceSize=256m"
"""On one machine the driver does all the work. It gets its memory at once: to grow, a JVM stops and collects all."""
TEST_JAVA_OPTIONS: Final = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {CODE_OPTION}"

_LOGGING: Final = """# Spark's log as the pipeline wants it: errors, on stderr.
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %d{HH:mm:ss} %p %c{1}: %m%n%ex{4}
# The gateway takes its own level for everybody's, unless it is the same.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


def spark_session(
    master: str = "local[*]",
    *,
    app: str = "scale0",
    settings: Mapping[str, str] | None = None,
    is_test: bool = False,
) -> SparkSession:
    """A session at `master`: `local[N]`, `spark://…` or any other, or `sc://…` for Spark Connect.

    Where this process has a session already, that one, whatever `master` says. `settings` go before our own. Raises
    `PipelineError` if Spark is not installed or does not start.
    """
    existing = current_session()
    if existing is not None:
        return _in_utc(existing)
    if master.startswith(connect.SCHEME):
        return connect.connect(master, app)
    java = use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return _start(master, app, _settings(master, java, settings or {}, is_test=is_test))


@contextlib.contextmanager
def running_session(
    master: str = "local[*]", *, app: str = "scale0", settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session for the time of a `with` block. It ends with it, unless it was there before."""
    is_ours = current_session() is None
    spark = spark_session(master, app=app, settings=settings)
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


def current_session() -> SparkSession | None:
    """The session that this process has already, if any."""
    session_class = _session_class()
    try:
        return session_class.active()
    except Exception:  # pyspark has several ways to say that there is none, and a JVM that is gone has more
        return None


def ship_code(spark: SparkSession, directory: Path | None = None) -> Path:
    """Send our packages to the executors, as they are here. The zip file stays until this process ends."""
    folder = directory if directory is not None else Path(tempfile.mkdtemp(prefix="scale0-code-"))
    path = folder / "scale0-code.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(_sources()):
            archive.write(file, name)
    if connect.is_remote(spark):
        spark.addArtifacts(str(path), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(path))
    return path


def _sources() -> Iterator[tuple[str, Path]]:
    """Every Python file of our packages, with its name in the zip file."""
    root = Path(__file__).resolve().parent.parent
    for package in PACKAGES:
        if (root / f"{package}.py").exists():
            yield f"{package}.py", root / f"{package}.py"
        for file in (root / package).rglob("*.py"):
            yield str(file.relative_to(root)), file


def _session_class() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PipelineError(f"Spark is not installed here: {error}", 'run: pip install "scale0[pipeline]"') from error
    return SparkSession


def _in_utc(spark: SparkSession) -> SparkSession:
    """Days and minutes are cut in UTC. Whoever counts otherwise keeps doing so in their own session."""
    zone = "spark.sql.session.timeZone"
    if spark.conf.get(zone) == "UTC":
        return spark
    sibling = spark.newSession()
    sibling.conf.set(zone, "UTC")
    return sibling


def _settings(master: str, java: Java, given: Mapping[str, str], *, is_test: bool) -> dict[str, str]:
    """All settings of a new session; what the caller says counts most."""
    is_here = is_on_this_machine(master)
    made = {**ALWAYS, **(ON_ONE_MACHINE if is_here else {}), **(IN_TESTS if is_test else {}), **given}
    if master.startswith("local") and "spark.sql.shuffle.partitions" not in made:
        made["spark.sql.shuffle.partitions"] = str(2 * (os.cpu_count() or 1))
    options = [f"-Dlog4j2.configurationFile={keep_text('spark/log4j2.properties', _LOGGING).as_uri()}"]
    asked = made.get("spark.driver.extraJavaOptions", "")
    collector = [] if "GC" in asked else [COLLECTOR_OPTION]  # there can be only one
    is_ours = master.startswith("local") and made["spark.driver.memory"] == DRIVER_MEMORY and "-Xms" not in asked
    options += [TEST_JAVA_OPTIONS] if is_test else [CODE_OPTION, *collector, *([ROOM_OPTION] if is_ours else [])]
    options += faststart.java_options(java)
    options += [asked] if asked else []
    made["spark.driver.extraJavaOptions"] = " ".join(options)
    return made


def is_on_this_machine(master: str) -> bool:
    """Whether all of it stays on loopback: no other machine will ever call the driver."""
    return master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))


def _start(master: str, app: str, settings: Mapping[str, str]) -> SparkSession:
    builder = _session_class().builder.master(master).appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:  # of py4j, of the JVM, or of the network: all mean that there is no session
        raise PipelineError(f"Spark did not start at {master}: {_first_line(error)}", CURE) from error
    if not master.startswith("local"):
        ship_code(spark)
    return spark


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
