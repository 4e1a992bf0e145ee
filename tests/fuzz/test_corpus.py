"""The kept inputs are replayed, and some fresh mutations of them are tried, from a fixed seed.

`make fuzz` looks much longer, led by coverage, and adds to the corpus; whatever once failed stays in it.
"""

from __future__ import annotations

import random

import pytest

from tests.fuzz.seeds import CORPUS, files
from tests.fuzz.targets import TARGETS, Target

CORPUS_BYTES_MAX = 500 * 1024
SEED = 20
FRESH = {"broker": 100, "client": 150, "worker": 150}
FRESH_OTHERWISE = 200

targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@targets
def test_whatever_is_in_the_corpus_does_no_harm(target: Target) -> None:
    inputs = target.inputs()
    assert inputs, f"{target.corpus} is empty; write the first inputs with python -m tests.fuzz.seeds"
    for name, data in inputs.items():
        harmless(target, data, f"corpus/{target.name}/{name}")


@targets
def test_fresh_mutations_do_no_harm(target: Target) -> None:
    chance = random.Random(SEED)
    pool = list(target.inputs().values())
    for _ in range(FRESH.get(target.name, FRESH_OTHERWISE)):
        data = target.mutator.mutate(chance.choice(pool), chance)
        harmless(target, data, "a mutation; keep it in the corpus under a telling name")


def harmless(target: Target, data: bytes, what: str) -> None:
    try:
        target.run(data)
    except Exception as error:
        error.add_note(f"{what}:\n{data!r}")
        raise


def test_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) <= CORPUS_BYTES_MAX


def test_every_directory_of_the_corpus_has_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def test_seeds_of_today_can_be_made_and_do_no_harm() -> None:
    """The kept ones may be older than the messages are; older peers speak like that."""
    for name, data in files().items():
        harmless(TARGETS[name.partition("/")[0]], data, name)
