"""`scale0 ctl audit --verify`: has nobody changed, removed or moved a record of the audit log?

It reads the file itself, on the machine where it lies, for a broker that was broken into would hardly say so. Each
record holds the hash of the one before it; cutting off the end alone is not seen that way, so the last hash is shown:
compare it with a copy that you keep elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from scale0.cli import ctl_command, render, state_dirs
from scale0.cli.failures import Exit
from scale0.cli.render import Page
from scale0.cli.views import count
from scale0.errors import UsageError
from scale0.management import audit, places

PROBLEMS_SHOWN: Final = 20


def find(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The audit logs of the brokers that this account runs here."""
    brokers, beside_users = state_dirs.state_home(environ) / "brokers", places.users_path(environ).parent
    return [*sorted(beside_users.glob("audit*.log")), *sorted(brokers.glob("*/audit.log"))]


def verify(told: str | None, is_json: bool, environ: Mapping[str, str] = os.environ) -> Exit:
    """Verify one file, or all that are found; 1 if a chain is broken."""
    paths = [Path(told)] if told else find(environ)
    if not paths:
        raise UsageError(
            "no audit log was found for this account on this machine\n"
            "name it: scale0 ctl audit --verify --file STATE_DIR/audit.log"
        )
    ends = [_verify(path, is_json) for path in paths]
    return Exit.GOOD if all(end == Exit.GOOD for end in ends) else Exit.BAD_ANSWER


def _verify(path: Path, is_json: bool) -> Exit:
    try:
        found = audit.verify(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if is_json:
        document = {"schema": "scale0.audit_verdict/1", "path": str(path), "is_good": found.is_good}
        ctl_command.write_line({**document, **msgspec.to_builtins(found)})
        return Exit.GOOD if found.is_good else Exit.BAD_ANSWER
    page = Page()
    name = render.safe(path)
    if found.is_good:
        page.line(render.verdict("ok", f"{count(found.records, 'record')} in {name}, none changed, removed or moved"))
        page.line(
            f"last: {found.last_seq:,} {found.last_hash}   (keep a copy elsewhere: a cut-off end shows in nothing else)"
        )
        return Exit.GOOD
    page.line(render.verdict("bad", f"{name}: the chain is broken in {count(len(found.problems), 'place')}"))
    for problem in found.problems[:PROBLEMS_SHOWN]:
        page.line(f"  {render.safe(problem.file)}:{problem.line}: {render.safe(problem.text)}")
    if len(found.problems) > PROBLEMS_SHOWN:
        page.line(f"  and {len(found.problems) - PROBLEMS_SHOWN:,} more: --json")
    return Exit.BAD_ANSWER
