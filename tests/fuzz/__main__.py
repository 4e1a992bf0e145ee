"""`make fuzz`: fuzz all targets for a given time, keep what covers something new, and tell what failed.

    python -m tests.fuzz --for 600 --targets broker,client

Each target has its share of the time. New inputs that no kept one covers go to the corpus as `new-…`; an input that
fails is made as small as possible and goes there under a name that tells how, so that `make test` fails until the cause
is mended. The exit status is 1 then.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.fuzz import coverage, failures
from tests.fuzz.targets import TARGETS, Target

INPUT_BYTES_MAX: Final = 12 * 1024  # of an input that is kept for its coverage
CORPUS_BYTES_MAX: Final = 480 * 1024  # of all kept inputs; a failing one is kept all the same

MEMORY: Final = Path("/dev/shm")  # many small files are written, and none is kept

_STATUS: Final = re.compile(r"#(\d+)\s+\S+\s+cov: (\d+) ft: \d+ corp: (\d+)\S*(?:.*exec/s: (\d+))?")


class Outcome(NamedTuple):
    """What one campaign came to."""

    executions: int
    coverage_before: int
    coverage: int
    kept: int
    failed: list[Path]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz the handlers, the readers and the files.")
    parser.add_argument("--for", dest="seconds", type=float, default=600.0, help="seconds in all (600)")
    parser.add_argument("--targets", default=",".join(TARGETS), help="which ones, by commas (all)")
    options = parser.parse_args()
    chosen = [TARGETS[name] for name in options.targets.split(",") if name in TARGETS]
    if not chosen:
        parser.error(f"no such target; there are {', '.join(TARGETS)}")
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed; make fuzz installs it, or pip install '.[fuzz]'")
    parts = sum(target.weight for target in chosen)
    outcomes = {}
    for target in chosen:
        outcomes[target.name] = fuzz(target, max(1, round(options.seconds * target.weight / parts)))
    return report(outcomes)


def fuzz(target: Target, seconds: int) -> Outcome:
    """One campaign, with its progress on one line."""
    with tempfile.TemporaryDirectory(prefix="scale0-fuzz-", dir=MEMORY if MEMORY.is_dir() else None) as place:
        found, failed = Path(place) / "found", Path(place) / "failed"
        found.mkdir()
        failed.mkdir()
        executions, before, covered = _campaign(target, seconds, found, failed)
        show(f"{target.name:8} choosing what to keep …")
        kept = keep(target, [path.read_bytes() for path in found.iterdir()])
        broken = [keep_failure(target, path) for path in sorted(failed.iterdir())]
    show("")
    print(f"{target.name:8} {executions:>9,} inputs, {kept} kept, {len(broken)} failed", flush=True)
    return Outcome(executions, before, covered, kept, broken)


def _campaign(target: Target, seconds: int, found: Path, failed: Path) -> tuple[int, int, int]:
    """Executions, and coverage at first and at last."""
    command = [sys.executable, "-m", "tests.fuzz.campaign", target.name, str(found), str(failed)]
    executions = before = covered = 0
    last = ""
    with subprocess.Popen(
        [*command, f"-max_total_time={seconds}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(found.parent)},  # it cannot clean up after itself
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = line.strip() or last
            status = _STATUS.match(line)
            if status is None:
                continue
            executions, covered = int(status[1]), int(status[2])
            before = covered if "INITED" in line else before
            progress = f"{target.name:8} {executions:>9,} inputs  coverage {covered:,} (+{covered - before})"
            show(f"{progress}  {status[4] or '–'} a second")
    if process.returncode and not any(failed.iterdir()):
        raise SystemExit(f"\nthe campaign of {target.name} ended with status {process.returncode}: {last}")
    return executions, before, covered


def show(progress: str) -> None:
    """What goes on now, in the place of what went on before; a file gets none of it."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{progress}", end="", flush=True)


def keep(target: Target, candidates: list[bytes]) -> int:
    """Add to the corpus what covers something new, as far as there is room; how many were added."""
    room = CORPUS_BYTES_MAX - sum(path.stat().st_size for path in target.corpus.parent.rglob("*") if path.is_file())
    small = [data for data in candidates if len(data) <= INPUT_BYTES_MAX]
    added = 0
    for data in coverage.choose(target.run, target.inputs().values(), small):
        room -= len(data)
        if room < 0:
            break
        (target.corpus / f"new-{hashlib.sha256(data).hexdigest()[:10]}").write_bytes(data)
        added += 1
    return added


def keep_failure(target: Target, path: Path) -> Path:
    """The input at `path`, made small, in the corpus."""
    data = path.read_bytes()
    failure = failures.failure_of(target.run, data)
    if failure is not None:
        data = failures.reduce(target.run, data)
    kept = target.corpus / (failures.file_name(failure, data) if failure else path.name)
    kept.write_bytes(data)
    return kept


def report(outcomes: dict[str, Outcome]) -> int:
    print("\ntarget       inputs   coverage    kept  failed")
    for name, one in outcomes.items():
        grown = f"{one.coverage:,} (+{one.coverage - one.coverage_before})"
        print(f"{name:8} {one.executions:>10,} {grown:>13} {one.kept:>5} {len(one.failed):>7}")
    broken = [path for one in outcomes.values() for path in one.failed]
    for path in broken:
        print(f"failed: {path}")
    if broken:
        print("each stays in the corpus; see it fail with: python -m pytest tests/fuzz")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
