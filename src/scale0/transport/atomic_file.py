"""A file that is replaced as a whole: after a crash at any moment it holds either the old content or the new one.

The new content goes to a temporary file beside it and is flushed to the disk; then the name moves over, in one step of
the file system, and the directory is flushed, too. Whatever fails leaves the old file as it was.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write `content` to `path`; it is on disk when this returns. Makes the directory. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """The new name is on disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
