"""A handler that a worker's child process can import."""

from __future__ import annotations


def half(number: int) -> float:
    return number / 2
