"""Two hundred worlds, and every one that ever failed: no rule may break, and the important rules must be exercised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scale0.simulator.run import coverage, run_seed

STEPS = 1200
SEEDS = 200  # with those of `test_networks` and the known ones 300 in all
CHUNK = 25  # each large enough to exercise everything in MUST_HAPPEN
MUST_HAPPEN = [
    *(("code", code) for code in ("400", "404", "408", "409", "429", "499", "501", "502", "503", "504")),
    *(("rule", rule) for rule in ("malformed", "redispatch", "resent", "returned", "run again", "session move")),
    *(("effect", effect) for effect in ("Abort", "Connected", "Left", "Ready", "Stopped")),
    ("to client", "ForceNegotiate"),
    ("to worker", "ForceNegotiate"),
    ("to worker", "Cancel"),
    ("to majordomo 0.1 worker", "MdpTask"),
    ("to majordomo 0.2 worker", "MdpTask"),
    ("to majordomo 0.1 client", "MdpResult"),
    ("to majordomo 0.2 client", "MdpResult"),
    ("to req worker", "Task"),
    ("to req client", "TaskReply"),
    ("network", "broker's send full"),
    ("network", "broker's send unroutable"),
    ("fault", "double reply"),
]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_rule_breaks_in_any_world(first: int) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + CHUNK):
        result = run_seed(seed, STEPS)
        assert result.is_good, result.report()
        counts.update(result.counts)
    missing = [entry for entry in MUST_HAPPEN if not counts[entry]]
    assert not missing, f"never happened: {missing}\n{coverage(counts)}"


def _known() -> list[tuple[int, int]]:
    lines = (Path(__file__).parent / "seeds.txt").read_text().splitlines()
    entries = [line.split("#")[0].split() for line in lines]
    return [(int(entry[0]), int(entry[1])) for entry in entries if entry]


@pytest.mark.parametrize(("seed", "steps"), _known())
def test_a_seed_that_once_failed_holds(seed: int, steps: int) -> None:
    result = run_seed(seed, steps)
    assert result.is_good, result.report()
