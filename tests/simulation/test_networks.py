"""Networks of two to five brokers: no rule may break in any, and the important rules must be exercised."""

from __future__ import annotations

from collections import Counter

import pytest

from scale0.simulator.profiles import NETWORKS
from scale0.simulator.run import coverage, run_seed

STEPS = 2500
CHUNK = 42  # each large enough to exercise everything in MUST_HAPPEN
CHUNKS = [NETWORKS, pytest.param(NETWORKS + CHUNK, marks=pytest.mark.slow)]
MUST_HAPPEN = [
    *(
        ("rule", rule)
        for rule in ("forwarded", "returned by a peer", "redispatch", "resent", "told to move", "adopted")
    ),
    *(("config", what) for what in ("applied", "passed on", "refused with 400", "lost changes")),
    *(("alarm", name) for name in ("peer_lost", "config_lost")),
    *(("code", code) for code in ("301", "409", "499", "502", "503", "504")),
    *(
        ("to peer", name)
        for name in ("Cancel", "ConfigChange", "Disconnect", "Error", "Snapshot", "Table", "TaskReply")
    ),
    ("rule", "forwarded to a fallback group"),
    ("link", "announcement"),
    ("link", "told that it broke"),
    ("to client", "ChangeBroker"),
    ("to worker", "ChangeBroker"),
    ("effect", "Stopped"),
    ("manage", "balance"),
    ("manage", "failback"),
    ("fault", "broker joins"),
    ("fault", "network is parted"),
    ("fault", "one way is cut"),
    ("fault", "broker crashes midway"),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", CHUNKS)
def test_no_rule_breaks_in_any_network(first: int) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(first, first + CHUNK):
        result = run_seed(seed, STEPS)
        assert result.is_good, result.report()
        counts.update(result.counts)
    missing = [entry for entry in MUST_HAPPEN if not counts[entry]]
    assert not missing, f"never happened: {missing}\n{coverage(counts)}"
