"""What surrounds the code: the Makefile, the pinned versions, what continuous integration runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import scale0

ROOT = Path(__file__).parent.parent
PINNED = re.compile(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+")
AS_FROM_A_SHELL = {name: os.environ[name] for name in os.environ if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
"""What make tells the processes that it starts, these tests among them, is not for the make that they start."""


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_constraint_is_a_name_and_a_version() -> None:
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    assert lines
    for line in lines:
        assert PINNED.fullmatch(line), line


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in read("constraints.txt").splitlines()}
    wanted = [
        *project["dependencies"],
        *(name for group in project["optional-dependencies"].values() for name in group),
    ]
    for requirement in wanted:
        if requirement.startswith("scale0["):  # our own extras, which are in the list themselves
            continue
        assert re.split(r"[<>=!\[ ;]", requirement)[0].lower() in pinned, requirement


def test_the_version_is_the_same_everywhere() -> None:
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == scale0.__version__


def test_continuous_integration_runs_what_developers_run() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert read(".ci/run").rstrip().splitlines()[-1] == "make test"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed: apt install make")
def test_make_alone_lists_what_can_be_made() -> None:
    listed = subprocess.run(
        ["make"], cwd=ROOT, env=AS_FROM_A_SHELL, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    for target in ("setup", "demo", "test", "test-slow", "sim", "fuzz", "bench", "clean"):
        assert f"make {target} " in listed


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed: apt install make")
def test_setup_says_in_one_line_what_is_missing(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("")
    done = subprocess.run(
        ["make", "setup", "PYTHON=no-such-python"],
        cwd=tmp_path,
        env=AS_FROM_A_SHELL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("error: no 'no-such-python' here")
