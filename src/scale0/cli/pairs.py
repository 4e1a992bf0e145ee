"""The pairs of a network, as the rows of `scale0.network` tell them: who serves, and how the other one is.

A pair is a primary and its fallback broker. Whoever of the two is active tells how its standby is: in sync, behind, or
lost. If both say that they are active, the two cannot hear one another: there is no third that could decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scale0.cli.views import Row

SERVING: Final = ("active", "holding")  # states of a broker that has sessions


class PairRows(msgspec.Struct, frozen=True):
    """The two rows of a pair."""

    primary: Row
    fallback: Row

    @property
    def name(self) -> str:
        return str(self.primary.get("identity"))

    @property
    def serving(self) -> list[Row]:
        """The rows of those that serve: one, unless nobody does, or the two are cut from one another."""
        return [row for row in (self.primary, self.fallback) if row.get("state") in SERVING]

    @property
    def is_split(self) -> bool:
        return len(self.serving) > 1

    @property
    def stands_in(self) -> bool:
        """The fallback serves in place of the primary."""
        return self.serving == [self.fallback]

    @property
    def is_behind(self) -> bool:
        """The standby lives, and has no whole copy."""
        return len(self.serving) == 1 and self.serving[0].get("fallback") == "behind"

    @property
    def older(self) -> Row:
        """Of two that serve, the one with the lower epoch: it will step down."""
        return min((self.primary, self.fallback), key=lambda row: row.get("epoch") or 0)

    def other(self, row: Row) -> Row:
        return self.fallback if row is self.primary else self.primary


def find(rows: Sequence[Row]) -> list[PairRows]:
    """Every pair of these rows; a fallback that no row tells of is unknown."""
    by_name = {row.get("identity"): row for row in rows}
    return [
        PairRows(row, by_name.get(name, {"identity": name, "state": "unknown"}))
        for row in rows
        if (name := row.get("fallback_broker"))
    ]
