"""Where management keeps its files, unless it is told otherwise: by the XDG rule, `$XDG_CONFIG_HOME/scale0`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from scale0.core.settings import ManagementSettings


def config_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`$XDG_CONFIG_HOME/scale0`, by default `~/.config/scale0`. The rule says that a relative path is ignored."""
    told = environ.get("XDG_CONFIG_HOME", "")
    if told and Path(told).is_absolute():
        return Path(told) / "scale0"
    home = environ.get("HOME", "")
    return (Path(home) if home else Path("~").expanduser()) / ".config" / "scale0"


def users_path(environ: Mapping[str, str] = os.environ) -> Path:
    """The users of the brokers that this account runs."""
    return config_home(environ) / "users.json"


def audit_path(settings: ManagementSettings, state_dir: Path | None, identity: str) -> Path | None:
    """Where a broker writes down who did what: as told, else with its state, else beside its users.

    Users may be those of many brokers, but each has an audit log of its own.
    """
    if settings.audit:
        return Path(settings.audit)
    if state_dir is not None:
        return state_dir / "audit.log"
    return Path(settings.users).parent / f"audit-{quote(identity, safe='')}.log" if settings.users else None
