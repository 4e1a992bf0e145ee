"""Whether a command may be carried out: are its arguments good, may this one do it, and what is written down of it?"""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from scale0.errors import ProtocolError
from scale0.management.vocabulary import LISTINGS, Command, Principal, Role
from scale0.protocol.codes import Code

SUMMARY_MAX: Final = 500
PRIVATE: Final = frozenset({"document", "body", "hints"})
"""Arguments that may be long, or nobody's business: the audit log has their size and hash."""


def check_arguments(command: Command, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments, as the core takes them. `ProtocolError` 400 says what is wrong and what there is."""
    try:
        checked = msgspec.convert(arguments, command.arguments)
    except msgspec.ValidationError as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(command.arguments)) or "none"
        text = f"{command.name}: {error}; its arguments are: {known}"
        raise ProtocolError(Code.MALFORMED, text) from None
    except RecursionError:
        raise ProtocolError(Code.MALFORMED, f"{command.name}: the arguments are nested too deeply") from None
    return dict(msgspec.to_builtins(checked))


def why_denied(principal: Principal, command: Command, arguments: dict[str, Any]) -> str:
    """Why this one may not do this; empty if he may."""
    needed = command.role
    for name in listings_in(command, arguments):
        needed = max(needed, LISTINGS[name].role)
    if principal.role < needed and principal.limit:
        return f"{command.name} needs the role {needed.text}; {principal.limit}"
    if principal.role < needed:
        return f"{command.name} needs the role {needed.text}; {principal.user or 'this user'} has {principal.role.text}"
    if command.name == "test_task" and principal.services is not None:
        service = str(arguments.get("service", ""))
        if not any(fnmatchcase(service, pattern) for pattern in principal.services):
            may = ", ".join(principal.services) or "none"
            return f"{principal.user} may send test tasks to {may}, not to {service}"
    return ""


def listings_in(command: Command, arguments: dict[str, Any]) -> list[str]:
    """Which listings a command would show."""
    if command.name == "list":
        return [what for what in [str(arguments.get("what", "brokers"))] if what in LISTINGS]
    if command.name == "snapshot":
        return [part for part in arguments.get("parts", ()) if part in LISTINGS]
    return []


def capped(claimed: str, most: str) -> Role | None:
    """The role that is believed of a peer's user: what it says, up to what that peer may; `None` if it may nothing."""
    try:
        return min(Role.read(claimed), Role.read(most))
    except ValueError:
        return None


def limit_of(claimed: str, role: Role, peer: str, own: str, *, is_proven: bool) -> str:
    """Why a peer's user may do less here than he may there; empty if that is not so."""
    if role.text == claimed:
        return ""
    key = f"max_role of {peer} in the network's config" if is_proven else f"plain_peers in [management] of {own}"
    return f"what {peer} passes on may have {role.text} here: ask {own} itself with --broker, or raise {key}"


def target_of(command: Command, arguments: dict[str, Any]) -> str:
    """The object's name, if the command has one."""
    return str(arguments.get(command.target) or "")[:200] if command.target else ""


def summary_of(arguments: dict[str, Any], brokers: object = "own") -> str:
    """What the audit log has of the arguments."""
    shown: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in PRIVATE:
            data = value.encode(errors="replace") if isinstance(value, str) else repr(value).encode(errors="replace")
            shown[name] = f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:16]}"
        else:
            shown[name] = value
    if brokers != "own":
        shown["brokers"] = brokers
    return msgspec.json.encode(shown).decode()[:SUMMARY_MAX] if shown else ""
