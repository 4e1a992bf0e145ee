"""How long work tells where it is: one callable, so that a terminal, a log or a test can listen."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and of how much; 0 when that is not known."""


def silent(what: str, done: int, of: int) -> None:
    """Nobody listens."""
