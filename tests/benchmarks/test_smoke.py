"""Each benchmark runs with tiny sizes, so that none rots between releases. Nothing is measured here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 280  # only a hang reaches it
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
QUICK = ["core_cost", "routing", "latency"]
SLOW = [
    "endtoend",
    "workers",
    "idle",
    "restart",
    "forwarding",
    "failover",
    "config_spread",
    "shares",
    "recording",
    "encryption",
    "management",
]
WITH_SPARK = [
    "pipeline",
    "freshness",
    "whatif",
]  # minutes, where the machine has other work
SPARK_LIMIT_S = 1200


def smoke(out: Path, *arguments: str, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--smoke", "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_benchmark_runs_and_gives_verdicts(name: str, tmp_path: Path) -> None:
    run_and_look(name, tmp_path, LIMIT_S)


@pytest.mark.slow
@pytest.mark.timeout(SPARK_LIMIT_S + 60)
@pytest.mark.parametrize("name", WITH_SPARK)
def test_benchmark_of_the_pipeline_runs_and_gives_verdicts(name: str, tmp_path: Path) -> None:
    run_and_look(name, tmp_path, SPARK_LIMIT_S)


def run_and_look(name: str, tmp_path: Path, limit_s: float) -> None:
    done = smoke(tmp_path, name, limit_s=limit_s)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads((tmp_path / "results.json").read_text())
    assert result["name"] == name
    assert result["tables"]
    assert result["verdicts"]
    assert "### Verdicts" in (tmp_path / "table.md").read_text()


def test_unknown_benchmark_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    done = smoke(tmp_path, "speed")
    assert done.returncode == 2
    assert "unknown benchmark speed; there are core_cost" in done.stderr


@pytest.mark.parametrize("name", ["routing", pytest.param("config_spread", marks=pytest.mark.slow)])
def test_load_generator_in_python_does_what_the_compiled_one_does(name: str, tmp_path: Path) -> None:
    done = smoke(tmp_path, name, "--no-compiler")
    assert done.returncode == 0, done.stdout + done.stderr
