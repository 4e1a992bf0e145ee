"""Bugs that are planted in the core, and the search for them: the simulator must find each within a few seeds.

The core's own `check` is switched off meanwhile, so that the checks from outside must find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from scale0.core.broker import Broker
from scale0.simulator.run import run_seed

Plant = Callable[[pytest.MonkeyPatch], None]


class Bugs:
    """Planted bugs by name, each with the rules of which it breaks one."""

    def __init__(self) -> None:
        self.by_name: dict[str, tuple[Plant, set[str]]] = {}

    def __call__(self, *rules: str) -> Callable[[Plant], Plant]:
        """Plants a bug that breaks one of `rules`."""

        def register(plant: Plant) -> Plant:
            self.by_name[plant.__name__] = (plant, set(rules))
            return plant

        return register

    def must_be_found(self, name: str, monkeypatch: pytest.MonkeyPatch, seeds: Iterable[int], steps: int) -> None:
        plant, rules = self.by_name[name]
        plant(monkeypatch)
        monkeypatch.setattr(Broker, "check", lambda self, route=None: None)
        found: list[str] = []
        for seed in seeds:
            result = run_seed(seed, steps)
            if result.rule in rules:
                assert "replay: scale0 sim --seed" in result.report()
                return
            if not result.is_good:
                found.append(f"seed {seed}: {result.violation}")
        pytest.fail(f"no seed broke {rules}; found: {found}")
