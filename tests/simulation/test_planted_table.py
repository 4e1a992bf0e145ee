"""The table of planted bugs in docs/simulator.md is the one that the tests plant."""

from __future__ import annotations

import re
from pathlib import Path

from scale0.simulator.scenario import GUESTS
from tests.simulation import test_planted_bugs, test_planted_network_bugs, test_planted_star_bugs

DOCUMENT = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
PLANTED = {
    **test_planted_bugs.bug.by_name,
    **test_planted_network_bugs.bug.by_name,
    **test_planted_star_bugs.bug.by_name,
}


def test_every_planted_bug_is_in_the_table_with_the_rules_that_find_it() -> None:
    section = DOCUMENT.partition("## Bugs that it must find")[2]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    told = dict(rows[1:])  # the first is the table's head
    assert told == {name.replace("_", " "): ", ".join(sorted(rules)) for name, (_, rules) in PLANTED.items()}
    assert len(told) >= 12


def test_every_guest_is_explained() -> None:
    assert all(f"`{guest}`" in DOCUMENT for guest in GUESTS)
