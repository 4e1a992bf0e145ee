"""An archive of Spark's loaded classes, so that a session starts in half the time.

A JVM that starts Spark reads some 15,000 classes from a few hundred jars and checks each of them. Java can keep them in
a file, in the form that it has in memory, and map that file the next time (class data sharing). The archive is made
once, by a session that makes every table of a small day, and is kept in the user's cache; `make setup` does that. It
fits one Java and one set of jars, so both are in its name; Java looks again itself, and goes on without an archive that
does not fit. So does everything here: an archive that cannot be made is no error.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from scale0_pipeline.java import Java, cache_dir, find_java

BUILD_S: Final = 300.0  # the longest that the making of an archive may take
ARCHIVES_MAX: Final = 3  # kept in the cache, each of some 150 MB: those of former versions go

_WARM_UP: Final = """
import sys
from scale0_pipeline.generate import generate
from scale0_pipeline.jobs import run
from scale0_pipeline.session import spark_session
spark = spark_session("local[2]", app="scale0-faststart", settings={
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit=" + sys.argv[1]})
place = sys.argv[2] + "/data"
generate(place, 2_000, 1, 1)
run.once(place)
gateway = spark.sparkContext._gateway
spark.stop()
gateway.proc.stdin.close()
sys.exit(gateway.proc.wait())
"""


def java_options(java: Java) -> list[str]:
    """What to tell Java so that it uses the archive; nothing, if there is none."""
    path = archive_of(java)
    return [f"-XX:SharedArchiveFile={path}", "-Xlog:cds*=off"] if path.exists() else []


def archive_of(java: Java) -> Path:
    """Where the archive for this Java and these jars is, or would be."""
    return cache_dir() / "spark" / f"classes-{java.major}-{_digest(java, jars())}.jsa"


def build(java: Java) -> Path | None:
    """Make the archive, unless it is there. None if this Java cannot: then sessions start as they did."""
    path = archive_of(java)
    if path.exists():
        return path
    if java.is_wrapped:
        return None  # a runtime that was made small has no archive of its own classes to build upon
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".faststart-", dir=path.parent) as folder:
        made = Path(folder) / path.name
        try:
            subprocess.run(
                [sys.executable, "-c", _WARM_UP, made, folder],
                timeout=BUILD_S,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            os.replace(made, path)
        except (OSError, subprocess.SubprocessError):
            return None
    _forget_old(path)
    return path


def _forget_old(newest: Path) -> None:
    others = sorted(newest.parent.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others[ARCHIVES_MAX:]:
        path.unlink(missing_ok=True)


def jars() -> list[Path]:
    """The jars of the installed wheel, or of `SPARK_HOME`. Spark is looked at, not imported."""
    found = importlib.util.find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (os.path.dirname(found.origin) if found and found.origin else "")
    return sorted(Path(home, "jars").glob("*.jar")) if home else []


def _digest(java: Java, jars: Iterable[Path]) -> str:
    """Changes with the Java and with any jar: their names, sizes and times."""
    parts = [str(java.home), java.version]
    for jar in jars:
        stat = jar.stat()
        parts.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


if __name__ == "__main__":
    made = build(find_java())
    sys.exit(0 if made else "this Java cannot keep Spark's classes; sessions start as they did")
