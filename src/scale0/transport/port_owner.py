"""Who listens on a port: asked only when binding failed, so that the error can name the process.

Linux tells it in two steps: /proc/net/tcp maps the port to a socket's inode, and some process's /proc/*/fd holds that
inode. Elsewhere, or without permission, the answer is `None` and the error says less. Only name and number of the
process are told, never its arguments: those may hold secrets.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"  # the state's number in /proc/net/tcp
_PORT: Final = re.compile(r":(\d+)$")


def owner_of(endpoint: str, proc: Path = Path("/proc")) -> str | None:
    """The process that listens on the port of `endpoint`, as people write it: `name (process 123)`."""
    found = _PORT.search(endpoint)
    if found is None:
        return None
    inodes = _listeners(int(found.group(1)), proc)
    return _holder(inodes, proc) if inodes else None


def _listeners(port: int, proc: Path) -> set[str]:
    """Inodes of the sockets that listen on `port`."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # columns: number, local address, remote address, state, …, inode is the tenth
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _holder(inodes: set[str], proc: Path) -> str | None:
    """The first process with one of `inodes` among its open files, of those that we may look into."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in proc.glob("[0-9]*"):
        try:
            if any(str(descriptor.readlink()) in wanted for descriptor in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
    return None
