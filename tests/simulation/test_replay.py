"""A seed is a run: the same one gives the same bytes, in this process and in another."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scale0.simulator.run import run_seed

NETWORK = 1_000_004


@pytest.mark.parametrize("seed", [0, 1, 2, 33, NETWORK])
def test_the_same_seed_gives_the_same_digest(seed: int) -> None:
    first, second = run_seed(seed, 800), run_seed(seed, 800)
    assert first.digest == second.digest
    assert first.counts == second.counts


def test_other_seeds_give_other_digests() -> None:
    assert len({run_seed(seed, 300).digest for seed in range(2, 7)}) == 5


@pytest.mark.parametrize("seed", [7, NETWORK])
def test_the_digest_does_not_depend_on_the_order_of_sets(seed: int) -> None:
    """Another process hashes strings otherwise; a core that walks through a set would show it."""
    digests = {_digest_with_hash_seed(seed, hash_seed) for hash_seed in ("1", "2", "3")}
    assert len(digests) == 1, digests


def _digest_with_hash_seed(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "scale0.simulator", "--seed", str(seed), "--steps", "1000"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False).stdout
    return next(line for line in reversed(output.splitlines()) if "digest" in line)
