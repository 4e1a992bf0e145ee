"""From a run that breaks a rule to the shortest that still breaks it.

Each attempt is a smaller scenario, run from its start; it is taken if it breaks the same rule. First whole parts are
left out, for they matter most: guests, brokers, workers, clients. Then faults, by delta debugging: halves, quarters,
and so on down to single ones. Then steps: a violation that comes after healing may come after less trouble, too. All of
it again, until nothing more can be left out or the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from scale0.errors import UsageError
from scale0.simulator.run import Result, run
from scale0.simulator.scenario import GUESTS, Scenario, workers_min
from scale0.simulator.timeline import HEALED, Recorder

TIME_S = 30.0
ATTEMPTS_MAX = 2000
Say = Callable[[str], None]


class Shrunk(msgspec.Struct):
    """The shortest that was found."""

    result: Result
    attempts: int
    took_s: float
    is_complete: bool  # nothing more can be left out, one by one; else the time was over


def shrink(failed: Result, time_s: float = TIME_S, say: Say = lambda line: None) -> Shrunk:
    """Look for a shorter run that breaks the same rule. `say` hears of each that is found."""
    return _Search(failed, time_s, say).run()


class _Search:
    def __init__(self, failed: Result, time_s: float, say: Say) -> None:
        self.best = failed
        self._rule = failed.rule
        self._say = say
        self._began_s = time.monotonic()
        self._end_s = self._began_s + time_s
        self._attempts = 0
        self._tried: set[Scenario] = {failed.scenario}

    @property
    def _is_over(self) -> bool:
        return time.monotonic() >= self._end_s or self._attempts >= ATTEMPTS_MAX

    def run(self) -> Shrunk:
        is_complete = False
        try:
            self._end_at_the_violation()
            while not self._is_over and not is_complete:
                before = self.best.scenario
                self._leave_out_parts()
                self._leave_out_faults()
                self._leave_out_steps()
                is_complete = self.best.scenario == before and not self._is_over
        except KeyboardInterrupt:
            pass  # what was found so far counts
        return Shrunk(self.best, self._attempts, time.monotonic() - self._began_s, is_complete)

    def _try(self, **changes: object) -> bool:
        """Run the best scenario with these changes; it is the new best if it breaks the same rule."""
        scenario = msgspec.structs.replace(self.best.scenario, **changes)
        if self._is_over or scenario in self._tried:
            return False
        self._tried.add(scenario)
        self._attempts += 1
        try:
            result = run(scenario)
        except UsageError:  # such a world cannot be
            return False
        if result.is_interrupted:
            raise KeyboardInterrupt
        if result.rule != self._rule or _size(result) >= _size(self.best):
            return False
        self.best = result
        self._end_at_the_violation()
        self._say(f"{self._attempts} tried: step {result.failed_at_step}, {_told(result)}")
        return True

    def _end_at_the_violation(self) -> None:
        """Steps after a violation do not happen: to name fewer changes nothing."""
        scenario, at_step = self.best.scenario, self.best.failed_at_step
        if scenario.hours or at_step < scenario.steps:
            self.best.scenario = msgspec.structs.replace(scenario, hours=0.0, steps=at_step)

    # --- what can be left out -------------------------------------------------------------------------------------

    def _leave_out_parts(self) -> None:
        for guest in GUESTS:
            if guest not in self.best.scenario.without:
                self._try(without=(*self.best.scenario.without, guest))
        profile = self.best.scenario.profile()
        if profile.shape is not None and profile.shape.pairs:
            self._try(brokers=1, fallbacks=1) or self._try(brokers=2, fallbacks=1)
        elif profile.shape is not None:
            self._fewer("brokers", len(profile.shape.brokers), 2)
        self._fewer("workers", profile.workers, workers_min(self.best.scenario.profile()))
        self._fewer("clients", profile.clients, 1)

    def _fewer(self, name: str, now: int, least: int) -> None:
        """The least at once, else one less at a time."""
        if now > least and not self._try(**{name: least}):
            while now - 1 > least and self._try(**{name: now - 1}):
                now -= 1

    def _leave_out_faults(self) -> None:
        """Delta debugging: leave out ever smaller parts of the faults, until each that is left is needed."""
        numbers = self._struck()
        if not numbers or self._try(strikes=()):
            return
        parts = 2
        while len(numbers) > 1 and not self._is_over:
            for part in _split(numbers, parts):
                rest = tuple(number for number in numbers if number not in part)
                if self._try(strikes=rest):
                    numbers, parts = rest, max(2, parts - 1)
                    break
            else:
                if parts >= len(numbers):
                    break
                parts = min(len(numbers), parts * 2)

    def _struck(self) -> tuple[int, ...]:
        """The faults that happen in the best run."""
        recorder = Recorder()
        run(self.best.scenario, recorder)
        return tuple(strike.number for strike in recorder.finish() if strike.number != HEALED)

    def _leave_out_steps(self) -> None:
        """Only of a violation that comes after healing: from there on it is looked for."""
        while self.best.failed_at_step > self.best.scenario.steps:
            steps = self.best.scenario.steps
            if not any(
                self._try(steps=fewer) for fewer in (0, steps // 4, steps // 2, steps * 3 // 4, steps * 9 // 10)
            ):
                return


def _split(numbers: tuple[int, ...], parts: int) -> Iterator[frozenset[int]]:
    size = max(1, -(-len(numbers) // parts))
    for first in range(0, len(numbers), size):
        yield frozenset(numbers[first : first + size])


def _size(result: Result) -> tuple[int, int, int]:
    """What is to be small: the faults to understand, then the participants, then the steps."""
    profile = result.scenario.profile()
    guests = sum(getattr(profile, name) for names in GUESTS.values() for name in names)
    brokers = len(profile.shape.brokers) if profile.shape is not None else profile.brokers
    return result.faults, brokers + profile.workers + profile.clients + guests, result.failed_at_step


def _told(result: Result) -> str:
    faults, processes, _ = _size(result)
    return f"{faults} fault{'s' if faults != 1 else ''}, {processes} processes"
