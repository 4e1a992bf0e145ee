"""A real standalone cluster on loopback: one master and some workers, each a JVM of its own, all on free ports."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyspark

from scale0_pipeline.java import find_java
from scale0_pipeline.session import TEST_JAVA_OPTIONS

LIMIT_S = 180
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Daemon:
    """A JVM of the cluster, or another of Spark's own. Its log is read to its end, and what was waited for is told."""

    def __init__(self, name: str, *arguments: str, log: Path, awaits: str, memory: str = "256m") -> None:
        self._awaits = re.compile(awaits)
        self._is_ready = threading.Event()
        self._log = log
        self.found = ""
        environ = {**os.environ, "JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environ |= {"SPARK_DAEMON_JAVA_OPTS": TEST_JAVA_OPTIONS, "SPARK_DAEMON_MEMORY": memory}
        environ |= {"PYSPARK_PYTHON": sys.executable}
        self.process = subprocess.Popen(
            [SPARK_CLASS, f"org.apache.spark.deploy.{name}", *arguments],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self._log.open("w") as log:
            for line in self.process.stdout:
                log.write(line)
                if not self._is_ready.is_set() and (found := self._awaits.search(line)):
                    self.found = found[0]
                    self._is_ready.set()
        self._is_ready.set()

    def wait(self) -> str:
        """What its log said when it was ready."""
        assert self._is_ready.wait(LIMIT_S), f"it is not ready after {LIMIT_S} s: {self._log.read_text()}"
        assert self.found, f"it ended: {self._log.read_text()}"
        return self.found

    def end(self) -> None:
        """A worker that is told to end ends its executors, too."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LIMIT_S)
        self.process.kill()
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)


@contextlib.contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The master's address. Every JVM ends with the block."""
    with contextlib.ExitStack() as ends:
        here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = Daemon("master.Master", *here, log=folder / "master.log", awaits=r"spark://127[\d.:]+")
        ends.callback(master.end)
        address = master.wait()
        started = []
        for number in range(workers):
            work = folder / f"worker-{number}"
            options = [*here, "--cores", "1", "--memory", "1g", "--work-dir", str(work), address]
            log = folder / f"worker-{number}.log"
            worker = Daemon("worker.Worker", *options, log=log, awaits="Successfully registered with master")
            ends.callback(worker.end)
            started.append(worker)
        for worker in started:
            worker.wait()
        yield address
