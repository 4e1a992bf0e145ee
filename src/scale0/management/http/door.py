"""What the HTTP door asks of the broker: commands, through whatever leads to its gate, and answers to them.

In service that is the channel (`PageChannel`); tests and the page's development put another door in its place. Whoever
asks is named with each question: the gate checks the role again, and writes the audit record.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from scale0.errors import ProtocolError
from scale0.management.channel import Brokers, Door
from scale0.management.vocabulary import Principal, Role
from scale0.protocol.codes import Code

__all__ = ["ANSWER_WITHIN_S", "LOOKER", "Brokers", "Door", "Principal", "ask"]

ANSWER_WITHIN_S: Final = 60.0
"""The longest that a command may take; the gate has shorter limits of its own, this one is for a gate that hangs."""

LOOKER: Final = Principal(user="page", role=Role.ADMIN, door="http")
"""Who asks for what all pages share; what each visitor may see of it is decided where it is handed out."""


async def ask(
    door: Door,
    principal: Principal,
    command: str,
    arguments: dict[str, Any],
    *,
    command_id: str = "",
    brokers: Brokers = "own",
    within_s: float = ANSWER_WITHIN_S,
) -> Any:
    """As `Door.ask`, and never for ever."""
    try:
        async with asyncio.timeout(within_s):
            return await door.ask(principal, command, arguments, command_id=command_id, brokers=brokers)
    except TimeoutError:
        text = f"the broker did not answer {command} within {within_s:g} s; it may have done it: look at the audit"
        raise ProtocolError(Code.DEADLINE_IN_FLIGHT, text) from None
