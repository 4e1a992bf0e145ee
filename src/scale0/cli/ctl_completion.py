"""What the shell offers when Tab is pressed: listings, commands, and the names that a running broker knows.

Names come from the broker's built-in services, which anybody may ask, so that completion never needs a password. It
must never be in the way either: whoever does not answer within a second offers nothing, and nothing is ever printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from scale0.cli.options import DEFAULT_BROKER, addresses
from scale0.management.vocabulary import COMMANDS, LISTINGS

PATIENCE_S: Final = 1.0
OFFERED_MAX: Final = 200
KEYS: Final = {"services": "name", "dead_letters": "id"}
"""What names a row of a listing, where that is not its identity."""

SOURCES: Final = {"worker": "workers", "service": "services", "broker": "network", "peer": "network"}
"""By the argument of a command: the listing whose rows it may name."""


def listings(incomplete: str) -> list[tuple[str, str]]:
    """Names of listings, each with what it shows."""
    wanted = incomplete.replace("-", "_")
    return [(name.replace("_", "-"), told.summary) for name, told in LISTINGS.items() if name.startswith(wanted)]


def commands(incomplete: str) -> list[tuple[str, str]]:
    """Names of commands, as the vocabulary has them, each with what it does."""
    return [(name, told.summary) for name, told in COMMANDS.items() if name.startswith(incomplete)]


def names(listing: str) -> Callable[[str], list[str]]:
    """A completion by the names in a listing of the broker that SCALE0_BROKER means."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in ask(listing) if name.startswith(incomplete)][:OFFERED_MAX]

    return complete


def of_argument(name: str) -> Callable[[str], list[str]] | None:
    """The completion of a command's argument, if a broker knows what it may be; a dead letter is a task that can be."""
    source = SOURCES.get(name)
    return names(source) if source else None


def ask(listing: str) -> list[str]:
    """The names in a listing; none if nobody answers."""
    from scale0.cli.listings import parse
    from scale0.client import Client
    from scale0.errors import Scale0Error

    try:
        where = addresses(os.environ.get("SCALE0_BROKER") or DEFAULT_BROKER)
        with Client(where, timeout=PATIENCE_S, connect_timeout=PATIENCE_S) as client:
            rows = parse(client.call(f"scale0.{listing}", returns=bytes)).rows
    except (Scale0Error, OSError):
        return []
    key = KEYS.get(listing, "identity")
    return sorted(str(row[key]) for row in rows if isinstance(row.get(key), str) and str(row[key]).isprintable())
