"""The coverage table: it expects what the code can do, tells what was missed, and why some things never happen."""

from __future__ import annotations

from scale0.core import modes
from scale0.core.handlers import HANDLERS
from scale0.core.link_settings import Phase
from scale0.protocol.codes import Code
from scale0.protocol.dialects import PEER
from scale0.simulator import coverage_table
from scale0.simulator.coverage_table import FROM, MODES, PHASES, groups, lines, missed, star_name
from scale0.simulator.profiles import NETWORKS
from scale0.simulator.run import Sum, run_seed


def test_whatever_a_broker_has_a_handler_for_is_expected() -> None:
    for dialect, known in HANDLERS.items():
        assert {kind.__name__ for kind in known} <= set(FROM[dialect.name]), dialect.name


def test_every_code_is_expected_or_explained() -> None:
    told = {line.name: line for line in lines({}) if line.group == "error codes"}
    assert set(told) == {str(int(code)) for code in Code}
    assert told["444"].never
    assert not told["444"].is_missed
    assert told["400"].is_missed


def test_every_phase_of_a_link_and_every_mode_has_its_transitions() -> None:
    assert {phase.value for phase in Phase} == {*PHASES, *(after for afters in PHASES.values() for after in afters)}
    told = modes.__doc__ or ""
    assert all(mode in told for mode in MODES if mode != "down")


def test_what_was_counted_is_not_missed() -> None:
    before = {(line.group, line.name) for line in missed({})}
    after = {(line.group, line.name) for line in missed({("from client", "Task"): 1, ("code", "400"): 2})}
    assert before - after == {("from client", "Task"), ("error codes", "400")}


def test_transitions_of_the_star_are_named_as_worlds_count_them() -> None:
    assert star_name("PRIMARY", "PEER_BACKUP", "SERVE") == "PRIMARY+PEER_BACKUP→SERVE"
    assert all("→" in name for group in groups() if group.key == "star" for name in group.expected)


def test_a_few_worlds_exercise_most_of_it() -> None:
    total = Sum()
    for seed in [*range(12), *range(NETWORKS, NETWORKS + 12)]:
        total.add(run_seed(seed, 1500))
    absent = [line for line in missed(total.counts) if line.group != "binary star"]
    everything = [line for line in lines(total.counts) if not line.never and line.group != "binary star"]
    assert len(absent) < len(everything) / 4, absent
    assert PEER.name in FROM
    assert coverage_table.NEVER["to req worker"]
