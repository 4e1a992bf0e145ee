"""The demo's closing sum: does accepted = replied + errors hold, on both sides, and do the sides agree?

The client's ledger and the broker's counters are kept by different processes from different events. Each must balance
alone, and each figure must be the same in both. Tasks that the broker refused at the door were never accepted; they are
counted, and stand outside the sum.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from rich.text import Text

from scale0.cli import render
from scale0.cli.render import Column
from scale0.cli.views import count

NOT_ACCEPTED = frozenset({400, 404, 413, 429, 503})
"""Codes that refuse a task before it is accepted."""

MEANINGS = {
    408: "deadline passed in the queue",
    502: "worker lost, and the service is not idempotent",
    504: "no reply by the deadline",
    500: "the handler raised",
}


class Side(msgspec.Struct, frozen=True):
    """One side's figures. `open` has neither reply nor error yet."""

    name: str
    accepted: int
    replied: int
    errored: int
    open: int

    @property
    def is_balanced(self) -> bool:
        """The promise at the end of a run: every accepted task has one outcome, and nothing is left open."""
        return self.open == 0 and self.accepted == self.replied + self.errored

    @property
    def sum(self) -> str:
        sign = "=" if self.accepted == self.replied + self.errored else "≠"
        return f"{self.accepted:,} {sign} {self.replied:,} + {self.errored:,}"


class Books(msgspec.Struct, frozen=True):
    client: Side
    broker: Side
    errors: dict[int, int]
    refused: int
    wrong: int

    @property
    def are_balanced(self) -> bool:
        return not self.troubles()

    def troubles(self) -> list[str]:
        """What does not hold, a sentence each."""
        found = [
            f"the {side.name}'s sum does not hold: {side.sum}, {side.open:,} open"
            for side in (self.client, self.broker)
            if not side.is_balanced
        ]
        found += [
            f"{key}: the client counts {getattr(self.client, key):,}, the broker {getattr(self.broker, key):,}"
            for key in ("accepted", "replied", "errored")
            if getattr(self.client, key) != getattr(self.broker, key)
        ]
        if self.wrong:
            found.append(f"{count(self.wrong, 'reply', 'replies')} did not answer what was asked")
        if not self.client.accepted:
            found.append("no task was accepted at all")
        return found


def balance(submitted: int, replied: int, errors: Counter[int], wrong: int, broker_row: dict[str, Any]) -> Books:
    """Both sides of the sum, from the client's ledger and the broker's row in `scale0.brokers`."""
    refused = sum(number for code, number in errors.items() if code in NOT_ACCEPTED)
    errored = errors.total() - refused
    accepted = submitted - refused
    return Books(
        Side("client", accepted, replied, errored, accepted - replied - errored),
        Side(
            "broker",
            broker_row["accepted"],
            broker_row["replied"],
            broker_row["errored"],
            broker_row["queued"] + broker_row["in_flight"],
        ),
        dict(sorted(errors.items())),
        refused,
        wrong,
    )


def draw(books: Books) -> list[Text]:
    """The closing lines of the demo."""
    columns = (
        Column("BOOKS"),
        *(Column(title, is_number=True) for title in ("ACCEPTED", "REPLIED", "ERRORS", "OPEN")),
        Column("ACCEPTED = REPLIED + ERRORS"),
    )
    rows = [
        (
            side.name,
            f"{side.accepted:,}",
            f"{side.replied:,}",
            f"{side.errored:,}",
            f"{side.open:,}",
            Text.assemble(
                ("✓" if side.is_balanced else "✗", render.STYLES["ok" if side.is_balanced else "bad"]), " ", side.sum
            ),
        )
        for side in (books.client, books.broker)
    ]
    lines = render.table(columns, rows, is_wide=True)
    for code, number in books.errors.items():
        lines.append(Text(f"{number:,} × {code}: {MEANINGS.get(code, 'see docs/protocol.md')}"))
    troubles = books.troubles()
    lines += [Text.assemble(("✗", render.STYLES["bad"]), " ", trouble) for trouble in troubles]
    if not troubles:
        lines.append(
            render.verdict("ok", "every accepted task has exactly one outcome, and both sides agree on each figure")
        )
    return lines
