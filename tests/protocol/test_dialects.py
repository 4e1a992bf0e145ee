"""A session's role comes from its header (rule 1)."""

from __future__ import annotations

import pytest

from scale0.protocol import dialects
from scale0.protocol.dialects import Dialect, Role

ALL = [value for value in vars(dialects).values() if isinstance(value, Dialect)]


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_role_is_the_fourth_letter_of_the_header(dialect: Dialect) -> None:
    assert len(dialect.header) == 6
    assert {b"C": Role.CLIENT, b"W": Role.WORKER, b"P": Role.PEER}[dialect.header[3:4]] is dialect.role


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
def test_native_dialects_begin_with_the_projects_letters(dialect: Dialect) -> None:
    assert dialect.is_native == dialect.header.startswith(b"SC0")
    assert dialect.is_native or dialect.header.endswith(b"0%d" % dialect.majordomo)


def test_every_dialect_can_be_found_by_its_header() -> None:
    tables = [
        dialects.DEALER_DIALECTS,
        dialects.REQ_DIALECTS,
        dialects.MDP1_DIALECTS,
        dialects.MDP2_DIALECTS,
    ]
    assert sorted(dialect.name for table in tables for dialect in table.values()) == sorted(
        dialect.name for dialect in ALL
    )
