"""The timeline: each fault with its number, its victim and what followed; and a trace of all messages."""

from __future__ import annotations

import io

from scale0.simulator.run import run
from scale0.simulator.scenario import Scenario
from scale0.simulator.timeline import HEALED, STRIKES_MAX, Recorder

SCENARIO = Scenario(1_000_003, 1200)


def test_faults_are_told_in_order_with_what_followed() -> None:
    recorder = Recorder()
    result = run(SCENARIO, recorder)
    strikes = recorder.finish()
    assert len(strikes) == result.faults + 1  # and the moment of healing
    assert [strike.at_s for strike in strikes] == sorted(strike.at_s for strike in strikes)
    assert strikes[-1].number == HEALED
    assert any(strike.told for strike in strikes)
    told = sum(number for strike in strikes for name, number in strike.followed.items() if name.startswith("outcome"))
    before = sum(result.outcomes.values()) - told  # outcomes before the first fault
    assert 0 <= before < told


def test_recording_changes_nothing() -> None:
    assert run(SCENARIO, Recorder(io.StringIO())).digest == run(SCENARIO).digest


def test_the_whole_trace_can_be_written() -> None:
    file = io.StringIO()
    run(SCENARIO, Recorder(file))
    lines = file.getvalue().splitlines()
    assert sum(" → " in line for line in lines) > 500
    assert any("fault: 0: " in line for line in lines)


def test_the_timeline_has_a_limit() -> None:
    recorder = Recorder()
    for number in range(STRIKES_MAX + 10):
        recorder.event(1000.0 + number, "fault", f"{number}: broker crashes")
    assert len(recorder.finish()) == STRIKES_MAX
    assert recorder.finish()[-1].number == STRIKES_MAX + 9
