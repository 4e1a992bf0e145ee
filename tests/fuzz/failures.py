"""Inputs that made the code fail: what went wrong in a few words, and the smallest input that still does it.

A failure is known by its kind and by the function of Scale0 where it came up, or by the sentence of the assertion; so
the thousandth input that fails alike is not kept.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable
from typing import Final

RUNS_MAX: Final = 400  # of the target while one input is reduced
NAME_MAX: Final = 60

_NOT_PLAIN: Final = re.compile(r"[^a-z0-9]+")


def failure_of(run: Callable[[bytes], None], data: bytes) -> str | None:
    """How `run` fails with `data`, as a name for a file; None if it does not."""
    try:
        run(data)
    except Exception as error:
        return name_of(error)
    return None


def name_of(error: Exception) -> str:
    """Such as `unicodedecodeerror-in-take-snapshot`, or an assertion's own sentence."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/src/scale0/" in frame.filename] or frames
    if isinstance(error, AssertionError) and str(error):
        words = re.sub(r"[0-9]+|b?'[^']*'|\(.*", "", str(error))
    else:
        words = f"{type(error).__name__} in {ours[-1].name}"
    return _NOT_PLAIN.sub("-", words.lower()).strip("-")[:NAME_MAX] or "failure"


def file_name(failure: str, data: bytes) -> str:
    return f"{failure}-{hashlib.sha256(data).hexdigest()[:6]}"


def reduce(run: Callable[[bytes], None], data: bytes, runs_max: int = RUNS_MAX) -> bytes:
    """A smaller input that fails in the same way: ever smaller groups of lines are left out, then of bytes."""
    failure = failure_of(run, data)
    if failure is None:
        return data
    budget = runs_max

    def still_fails(candidate: bytes) -> bool:
        nonlocal budget
        budget -= 1
        return budget >= 0 and failure_of(run, candidate) == failure

    for separator in (b"\n", b" ", b""):
        pieces = data.split(separator) if separator else [bytes((byte,)) for byte in data]
        data = separator.join(fewer(pieces, lambda kept, by=separator: still_fails(by.join(kept))))  # type: ignore[misc]
    return data


def fewer(pieces: list[bytes], is_good: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Those of `pieces` that `is_good` cannot do without, found by leaving out ever smaller groups."""
    size = max(1, len(pieces) // 2)
    while True:
        place = 0
        while place < len(pieces):
            rest = pieces[:place] + pieces[place + size :]
            if rest and is_good(rest):
                pieces = rest
            else:
                place += size
        if size == 1:
            return pieces
        size //= 2
