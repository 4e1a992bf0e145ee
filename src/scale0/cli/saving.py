"""Where `scale0 worker` and `scale0 call` keep the last config that they got, so that the next one finds its brokers.

On by default: whoever starts a command again should not need the one broker that is down. It is a convenience and no
more, so a place that cannot be written is no failure, and is told to whoever looks for it alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from scale0.cli import state_dirs

logger = logging.getLogger("scale0.cli")


def file_for(role: str, addresses: Sequence[str]) -> Path | None:
    """The file for a participant that was given these addresses; None if nothing can be kept."""
    try:
        path = state_dirs.participant_file(role, addresses)
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # no home directory, a file in its place, a disk that is read-only
        logger.debug("the config is not saved: %s", error)
        return None
    if not os.access(path.parent, os.W_OK):
        logger.debug("the config is not saved: %s cannot be written", path.parent)
        return None
    return path
