"""What the simulator has exercised, and what it should have: each command in each direction and dialect, each code,
each transition, each kind of fault.

A group is a set of names under which worlds count (`World.count`). What it expects is written down here, or read from
the code where the code has it as a table. Anything that was counted and is not expected is no mistake: nuisances say
whatever comes to their mind. What cannot happen by design is listed with the reason, so that the table is whole.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any

import msgspec

from scale0.core import peer_dialect
from scale0.protocol.codes import Code
from scale0.simulator.scenario import KINDS

Counts = dict[tuple[str, str], int]

_TO_ALL = ("Config", "ConfigAck", "Error", "ForceNegotiate", "Pong")
FROM = {
    "client": ("Connect", "Task", "Cancel", "Ping", "NeedBroker", "Disconnect", "ManagementReq"),
    "worker": ("Connect", "Ready", "TaskReply", "Ping", "NeedBroker", "Disconnect", "ManagementReq"),
    "req client": ("Connect", "Task", "Cancel", "Ping", "NeedBroker", "Disconnect", "ManagementReq"),
    "req worker": ("Connect", "Ready", "TaskReply", "Ping", "NeedBroker", "Disconnect", "ManagementReq"),
    "peer": ("Connect", "ForceNegotiate", *sorted(kind.__name__ for kind in peer_dialect.SAYS)),
    "majordomo 0.1 client": ("MdpRequest",),
    "majordomo 0.2 client": ("MdpRequest",),
    "majordomo 0.1 worker": ("MdpReady", "MdpReply", "MdpHeartbeat", "MdpDisconnect"),
    "majordomo 0.2 worker": ("MdpReady", "MdpReply", "MdpHeartbeat", "MdpDisconnect"),
}
"""What a broker hears, by dialect."""

TO = {
    "client": (*_TO_ALL, "TaskReply", "ChangeBroker", "ManagementRep", "Disconnect"),
    "worker": (*_TO_ALL, "ReadyOk", "Task", "Cancel", "ChangeBroker", "ManagementRep", "Disconnect"),
    "req client": (*_TO_ALL, "TaskReply", "ChangeBroker", "ManagementRep"),
    "req worker": (*_TO_ALL, "Task", "ChangeBroker", "ManagementRep"),
    "peer": ("Connect", "ForceNegotiate", *sorted(kind.__name__ for kind in peer_dialect.SAYS)),
    "majordomo 0.1 client": ("MdpResult",),
    "majordomo 0.2 client": ("MdpResult",),
    "majordomo 0.1 worker": ("MdpTask", "MdpHeartbeat", "MdpDisconnect"),
    "majordomo 0.2 worker": ("MdpTask", "MdpHeartbeat", "MdpDisconnect"),
}
"""What a broker says, by dialect."""

MODES = {
    "down": ("active", "joining", "disabled", "passive"),
    "joining": ("active",),
    "active": ("draining", "disabling", "disabled", "passive", "holding"),
    "passive": ("active", "disabled"),
    "holding": ("active", "passive"),
    "draining": ("active", "disabling", "disabled"),
    "disabling": ("disabled", "active"),
    "disabled": ("active", "passive"),
}
WORKER_STATES = {
    "new": ("negotiating", "ready", "full"),  # a Majordomo worker is ready at once
    "negotiating": ("ready", "full", "draining", "gone"),
    "ready": ("full", "draining", "negotiating", "gone"),
    "full": ("ready", "draining", "negotiating", "gone"),
    "draining": ("ready", "full", "negotiating", "gone"),
}
PHASES = {
    "idle": ("connecting",),
    "connecting": ("up", "asking", "paused", "over"),
    "asking": ("connecting", "paused", "over"),
    "up": ("connecting", "asking", "paused", "over"),
    "paused": ("connecting", "over"),
}
PEER_LINKS = {"unlinked": ("dialing", "linked"), "dialing": ("linked", "unlinked"), "linked": ("unlinked",)}
"""Which state leads to which, as others see it; a row is one state."""

BY_THEMSELVES = ("nuisance", "double reply")  # faults that participants make, at no set time

NOT_PUSHED = "a REQ socket gets one answer to each request, and nothing unasked (rule 3)"
NEVER = {
    "code": {str(int(Code.SILENCE)): "a peer held for malware gets no answer"},
    "to req client": {"Disconnect": NOT_PUSHED},
    "to req worker": {
        "ReadyOk": "its READY is answered by a TASK, or by PONG",
        "Cancel": NOT_PUSHED,
        "Disconnect": NOT_PUSHED,
    },
}
"""What cannot happen by design, and why."""


class Group(msgspec.Struct):
    """Names that belong together."""

    title: str
    key: str  # the group's name among the counts
    expected: tuple[str, ...]

    @property
    def never(self) -> dict[str, str]:
        return NEVER.get(self.key, {})


class Line(msgspec.Struct):
    """One thing that should have happened."""

    group: str
    name: str
    count: int
    never: str = ""  # why it cannot happen

    @property
    def is_missed(self) -> bool:
        return not self.count and not self.never


def groups() -> list[Group]:
    """Everything that the table is about. A new group is one more line here."""
    codes = tuple(str(int(code)) for code in Code if str(int(code)) not in NEVER["code"])
    found = [Group(f"from {dialect}", f"from {dialect}", names) for dialect, names in FROM.items()]
    found += [Group(f"to {dialect}", f"to {dialect}", names) for dialect, names in TO.items()]
    found += [
        Group("error codes", "code", codes),
        Group("broker modes", "broker mode", _transitions(MODES)),
        Group("worker states", "worker state", _transitions(WORKER_STATES)),
        Group("participants' links", "participant's link", _transitions(PHASES)),
        Group("peers' links", "peer link", _transitions(PEER_LINKS)),
        Group("faults", "fault", (*KINDS, *BY_THEMSELVES)),
    ]
    star = _star_transitions()
    return [*found, Group("binary star", "star", star)] if star else found


def lines(counts: Counts) -> list[Line]:
    """The whole table."""
    return [
        Line(group.title, name, counts.get((group.key, name), 0), group.never.get(name, ""))
        for group in groups()
        for name in (*group.expected, *group.never)
    ]


def missed(counts: Counts) -> list[Line]:
    return [line for line in lines(counts) if line.is_missed]


def _transitions(table: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(f"{before} → {after}" for before, afters in table.items() for after in afters)


def _star_transitions() -> tuple[str, ...]:
    """The binary star's, as the core has them: worlds count them by these names."""
    if importlib.util.find_spec("scale0.core.star") is None:
        return ()
    table: Any = getattr(importlib.import_module("scale0.core.star"), "TABLE", {})
    return tuple(star_name(state, event, result) for (state, event), result in table.items())


def star_name(state: Any, event: Any, result: Any) -> str:
    """The name of one transition of the binary star: `PRIMARY+PEER_BACKUP→ACTIVE`."""
    return f"{_name(state)}+{_name(event)}→{_name(result)}"


def _name(value: Any) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(_name(part) for part in value)
    return str(getattr(value, "name", value))
