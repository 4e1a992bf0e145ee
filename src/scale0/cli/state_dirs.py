"""Where the command line keeps what must outlive a process, by the XDG rule: `$XDG_STATE_HOME/scale0`.

    brokers/IDENTITY/    a broker's last good config, its epoch and whether it is disabled
    telemetry/IDENTITY/  where a broker's recorder works
    data/                what brokers recorded, and the tables that `scale0 pipeline` makes of it
    participants/        the last config that `scale0 worker` and `scale0 call` got, a file a set of brokers

Identities come from people and from config documents; here they become names of directories, so everything but letters,
digits and a few marks is spelled out, and none can lead elsewhere. Nothing is created here: whoever writes, creates.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

NAME_BYTES_MAX: Final = 200  # of a directory's name; file systems allow 255


def state_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_STATE_HOME/scale0`, by default `~/.local/state/scale0`. The rule says that a relative path is ignored."""
    told = environ.get("XDG_STATE_HOME", "")
    base = Path(told) if told and Path(told).is_absolute() else _home(environ) / ".local" / "state"
    return base / "scale0"


def broker_dir(identity: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the broker of this identity keeps its state, on this machine and for this user."""
    return state_home(environ) / "brokers" / file_name(identity)


def telemetry_dir(identity: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Where the recorder of the broker of this identity works."""
    return state_home(environ) / "telemetry" / file_name(identity)


def data_place(environ: Mapping[str, str] = os.environ) -> Path:
    """Where what the brokers of this machine record is gathered, and where the pipeline keeps its tables."""
    return state_home(environ) / "data"


def participant_file(role: str, addresses: Iterable[str], environ: Mapping[str, str] = os.environ) -> Path:
    """Where `scale0 worker` or `scale0 call` keeps the last config from the brokers at `addresses`."""
    digest = hashlib.sha256("\n".join(addresses).encode()).hexdigest()[:16]
    return state_home(environ) / "participants" / f"{file_name(role)}-{digest}.json"


def file_name(name: str) -> str:
    """`name` as one component of a path: different names stay different, and none is `.` or `..` or too long."""
    quoted = quote(name, safe="")
    quoted = quoted.replace(".", "%2E") if not quoted.strip(".") else quoted
    if len(quoted) <= NAME_BYTES_MAX:
        return quoted
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{quoted[: NAME_BYTES_MAX - len(digest) - 1]}+{digest}"


def _home(environ: Mapping[str, str]) -> Path:
    told = environ.get("HOME", "")
    return Path(told) if told else Path("~").expanduser()
