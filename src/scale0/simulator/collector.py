"""Python's collector of cycles, at rest while a world runs.

A world makes hundreds of objects a step, and nearly all of them are freed as soon as nothing refers to them. Looking
for cycles among them after each few hundred, as Python does by default, takes a fifth of the time and finds next to
nothing. So it looks seldom, and never at what was there before the world; after the run the world itself, which is one
large cycle, is collected.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 50_000  # new objects between two looks; each looks at these only
OLDER_EVERY = (20, 100)  # so many looks, and looks of looks, between two at older ones: a long run stays bounded


@contextmanager
def at_rest() -> Iterator[None]:
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, *OLDER_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.collect()
        gc.unfreeze()
