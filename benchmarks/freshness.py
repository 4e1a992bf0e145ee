"""How old gold is while a pipeline follows: from a task's reply to the table that counts it.

A broker records, a client asks at an even rate, and `scale0 pipeline run` follows, each in a process of its own. Every
half second the gold table is read as the web page reads it, without Spark; a task is as late in gold as the moment when
the table first counts as many as were settled at the task's time.
"""

from __future__ import annotations

import bisect
import os
import signal
import subprocess
import sys
import time

from measure import percentile
from report import Options, Result, Table, at_most, figure
from scale0 import Client, Worker
from scale0.testing import broker
from scale0_pipeline.errors import NothingRecorded
from scale0_pipeline.gold import Gold

_P95_MAX_S = 15.0
_TASKS_PER_S = 50
_LOOK_S = 0.5
_START_S = 90.0


def run(options: Options) -> Result:
    place = options.directory / "fresh" / "data"
    with broker(telemetry=place.parent) as running:
        worker = Worker(running.endpoint)
        worker.add_service("echo", lambda text: text)
        with worker.start(), Client(running.endpoint) as client:
            command = [sys.executable, "-m", "scale0", "pipeline", "run", "--data", str(place), "--json"]
            pipeline = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
            try:
                ages = _watch(client, Gold(str(place)), options)
            finally:
                os.killpg(pipeline.pid, signal.SIGINT)
                pipeline.wait(60)
    worst = percentile(ages, 95) if ages else None
    rows = [
        ["p50", figure(percentile(ages, 50) if ages else None)],
        ["p95", figure(worst)],
        ["looked at", str(len(ages))],
    ]
    table = Table("Age of gold while a pipeline follows, s", ["what", "s"], rows)
    return Result("freshness", [table], [at_most("event to gold, p95", worst, _P95_MAX_S, " s")])


def _watch(client: Client, gold: Gold, options: Options) -> list[float]:
    """Ask at an even rate and look at gold; how old each task was when gold first counted it."""
    settled: list[float] = []
    ages: list[float] = []
    counted, first_s = 0, None
    look_at_s = began_s = time.monotonic()
    while True:
        now = time.monotonic()
        if now - began_s > _START_S or (first_s is not None and now - first_s > options.fresh_s):
            return ages
        client.call("echo", "x")
        settled.append(time.monotonic())
        if now >= look_at_s:
            look_at_s = now + _LOOK_S
            total = _counted(gold)
            if total > counted:
                seen_s = time.monotonic()
                is_steady = first_s is not None  # what waited for Spark's start is not the stream's age
                first_s = first_s or seen_s
                if is_steady:
                    since = bisect.bisect_left(settled, first_s)
                    ages += [seen_s - at for at in settled[max(counted, since) : total]]
                counted = total
        time.sleep(max(0.0, 1 / _TASKS_PER_S - (time.monotonic() - now)))


def _counted(gold: Gold) -> int:
    try:
        rows = gold.rows("gold/service_1m", columns=["service", "count"])
    except NothingRecorded:
        return 0
    return sum(row["count"] for row in rows.to_pylist() if row["service"] == "echo")
