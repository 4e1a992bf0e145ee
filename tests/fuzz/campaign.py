"""Fuzz one target for some time, led by coverage: a process of its own, for atheris never returns.

    python -m tests.fuzz.campaign TARGET FOUND FAILED -max_total_time=60 …

Inputs that reach something new are written into the directory FOUND, those that fail into FAILED, one of each kind; it
goes on after a failure. What follows are flags of libFuzzer.
"""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any, Final

FLAGS: Final = ("-max_len=65536", "-len_control=0", "-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=1")


def main(arguments: list[str]) -> None:
    name, found, failed, *flags = arguments
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["scale0"]):  # before anything of Scale0 is imported
        targets = importlib.import_module("tests.fuzz.targets")
        failures = importlib.import_module("tests.fuzz.failures")
    target = targets.TARGETS[name]
    known: set[str] = set()

    def test_one_input(data: bytes) -> None:
        failure = failures.failure_of(target.run, data)
        if failure is not None and failure not in known:
            known.add(failure)
            (Path(failed) / failures.file_name(failure, data)).write_bytes(data)
            print(f"failed: {failure}", flush=True)

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        changed: bytes = target.mutator.mutate(data, random.Random(seed))
        return changed[:size_max]

    prefix = f"-artifact_prefix={failed}/"
    argv = [sys.argv[0], found, str(target.corpus), prefix, *FLAGS, *flags]
    atheris.Setup(argv, test_one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
