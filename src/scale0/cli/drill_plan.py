"""Who is struck by a drill, and why this one: read from the network's own listings, before anything happens.

Whoever names no victim gets the least harmful one: a broker that others of its group stand in for, that does not give
the config its numbers, with the fewest clients and workers; a worker that is not the last of its service, with the
fewest tasks in hand. A victim must run on this machine, for a process can be reached from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from scale0.cli import listings
from scale0.cli.drill_faults import Side, check_process, command_of, pid_of
from scale0.cli.listings import Listing
from scale0.cli.views import Row, count
from scale0.errors import Scale0Error, UsageError

ASK_S: Final = 5.0
SERVING: Final = ("ready", "full")

AskAt = Callable[[Sequence[str], str], Listing]
"""Asks a broker at one of these addresses for a listing."""


class Watch(msgspec.Struct, frozen=True):
    """Where to see that the fault was noticed: a listing of these brokers, and when it says so."""

    addresses: list[str]
    listing: str
    is_noticed: Callable[[list[Row]], bool]
    by: str


class Plan(msgspec.Struct, frozen=True):
    """What will be done. `addresses` are where the load's client goes, the first one first."""

    kind: str
    victim: str
    what: str
    why: str
    addresses: list[str]
    watch: Watch
    process: str = ""
    sides: tuple[Side, Side] | None = None
    notes: list[str] = []
    is_harmless: bool = False  # it strikes nobody but the drill's own


def ask_at(addresses: Sequence[str], name: str) -> Listing:
    """A listing of whichever of these brokers answers."""
    from scale0.client import Client

    with Client(addresses, timeout=ASK_S, connect_timeout=2.0) as client:
        return listings.parse(client.call(f"scale0.{name}", returns=bytes))


class Survey:
    """The network, as the broker that was asked sees it."""

    def __init__(self, addresses: Sequence[str], ask: AskAt = ask_at) -> None:
        self._ask = ask
        found = ask(addresses, "network")
        self.asked = found.broker.identity
        self.rows: dict[str, Row] = {str(row["identity"]): row for row in found.rows}
        self._given = list(addresses)
        self._processes: dict[str, str] = {}

    @property
    def active(self) -> list[str]:
        return [name for name, row in self.rows.items() if row.get("state") == "active"]

    def addresses_of(self, *identities: str) -> list[str]:
        """Where these brokers are reached."""
        found = [str(address) for name in identities for address in self.rows[name].get("endpoints") or []]
        return found or (self._given if identities == (self.asked,) else [])

    def addresses(self, first: str) -> list[str]:
        """All active brokers' addresses, this one's first."""
        return self.addresses_of(first, *(name for name in self.active if name != first))

    def names(self) -> dict[str, str]:
        """Whose address it is."""
        named = {address: name for name in self.rows for address in self.addresses_of(name)}
        return {**({self._given[0]: self.asked} if len(self._given) == 1 else {}), **named}

    def at(self, identity: str, name: str) -> list[Row]:
        """A listing of this broker and no other."""
        found = self._ask(self.addresses_of(identity), name)
        if found.broker.identity != identity:
            raise Scale0Error(f"broker {identity} does not answer at {', '.join(self.addresses_of(identity))}")
        return found.rows

    def process_of(self, identity: str) -> str:
        if identity not in self._processes:
            self._processes[identity] = str(self.at(identity, "brokers")[0].get("process") or "")
        return self._processes[identity]

    def broker(self, identity: str) -> Row:
        if identity not in self.rows:
            raise UsageError(f"no broker {identity!r} in this network\nthere are {', '.join(self.rows)}")
        if identity not in self.active:
            raise UsageError(
                f"broker {identity} is {self.rows[identity].get('state')}, and a drill wants one that serves"
            )
        return self.rows[identity]


# --- kill-broker --------------------------------------------------------------------------------------------------


def kill_broker(survey: Survey, named: str | None, command: str) -> Plan:
    """The broker that dies, or pauses."""
    victim = named or _least_harmful(survey, command)
    row = survey.broker(victim)
    process = survey.process_of(victim)
    check_process(f"broker {victim}", process, f"{command} {victim}")
    fallback = _fallback_of(survey, victim)
    others = [name for name in survey.active if name != victim]
    others += [fallback] if fallback and fallback not in others else []
    notes = [f"the load's client is at {victim} when it strikes"] if others else ["nobody stands in for it"]
    if fallback:
        notes.append(f"its fallback broker is {fallback}, which should take over")
    if row.get("is_sequencer"):
        notes.append("it gives the config its numbers; the next of config_brokers takes that over")
    watch = Watch(
        survey.addresses_of(*others) if others else survey.addresses_of(victim),
        "network",
        lambda rows: any(_is_away(row) for row in rows if row.get("identity") == victim),
        "another broker",
    )
    held = f"{count(row.get('clients') or 0, 'client')}, {count(row.get('workers') or 0, 'worker')}"
    why = f"named by you; it has {held}" if named else f"it has {held}, and {', '.join(others)} can stand in for it"
    what = f"broker {victim}, {_shown(process)}"
    addresses = survey.addresses_of(victim, *others)
    return Plan("kill-broker", victim, what, why, addresses, watch, process, notes=notes)


def _least_harmful(survey: Survey, command: str) -> str:
    candidates = [name for name in survey.active if _stand_ins(survey, name) or _fallback_of(survey, name)]
    if not candidates:
        raise UsageError("no broker of this network has another to stand in for it\nname one to kill it anyway")

    def harm(name: str) -> tuple[bool, int, int]:
        row = survey.rows[name]
        return bool(row.get("is_sequencer")), row.get("clients") or 0, row.get("workers") or 0

    whys = []
    for name in sorted(candidates, key=harm):
        try:
            check_process(f"broker {name}", survey.process_of(name), f"{command} {name}")
        except Scale0Error as error:
            whys.append(str(error))
            continue
        return name
    raise UsageError("\n".join(["no broker can be drilled from here", *whys]))


def _stand_ins(survey: Survey, name: str) -> list[str]:
    group = survey.rows[name].get("group")
    return [other for other in survey.active if other != name and survey.rows[other].get("group") == group]


def _fallback_of(survey: Survey, name: str) -> str:
    """The standby of this broker, if it has one and that one is there."""
    fallback = str(survey.rows[name].get("fallback_broker") or "")
    return fallback if survey.rows.get(fallback, {}).get("state") in ("active", "passive") else ""


def _is_away(row: Row) -> bool:
    return row.get("state") != "active" or row.get("link") not in ("up", "self")


# --- kill-worker --------------------------------------------------------------------------------------------------


def kill_worker(survey: Survey, named: str | None, service: str, command: str) -> Plan:
    """The worker that dies, or pauses: one of an operator's service."""
    rows = [row for name in survey.active for row in survey.at(name, "workers")]
    if named is not None:
        found = [row for row in rows if row.get("identity") == named]
        if not found:
            raise UsageError(f"no worker {named!r} in this network\nwho is there: scale0 workers")
        return _worker_plan(survey, found[0], "named by you", command)
    serving = [row for row in rows if service in (row.get("services") or []) and row.get("state") in SERVING]
    if len(serving) < 2:
        raise UsageError(
            f"{service} has {count(len(serving), 'worker')}: without the last one nobody serves it\nname it"
        )
    whys = []
    for row in sorted(serving, key=lambda row: (row.get("busy") or 0, str(row.get("identity")))):
        try:
            return _worker_plan(survey, row, f"{len(serving) - 1} more serve {service}", command)
        except UsageError as error:
            whys.append(str(error))
    raise UsageError("\n".join(["no worker can be drilled from here", *whys]))


def _worker_plan(survey: Survey, row: Row, why: str, command: str) -> Plan:
    identity, process, broker = str(row["identity"]), row.get("process"), str(row["broker"])
    check_process(f"worker {identity}", process, f"{command} {identity}")
    what = f"worker {identity} of {', '.join(row.get('services') or [])}, {_shown(str(process))}"
    held = f"it has {count(row.get('busy') or 0, 'task')} in hand"
    return Plan(
        "kill-worker",
        identity,
        what,
        f"{why}; {held}",
        survey.addresses(broker),
        watch_worker(survey, identity, broker),
        str(process),
    )


def watch_worker(survey: Survey, identity: str, broker: str) -> Watch:
    """Until its broker no longer counts on it."""

    def is_noticed(rows: list[Row]) -> bool:
        return not any(row.get("identity") == identity and row.get("state") in SERVING for row in rows)

    return Watch(survey.addresses_of(broker), "workers", is_noticed, f"its broker {broker}")


def kill_own_worker(survey: Survey, workers: int) -> Plan:
    """One of the drill's own workers: nobody else is touched. Which one is known when they run (`own_worker`)."""
    if workers < 2:
        raise UsageError("with one worker of its own the drill would kill the last one\nstart more: --workers 2")
    addresses = survey.addresses(survey.asked)
    watch = Watch(addresses, "workers", lambda rows: False, "its broker")
    what = f"one of the {workers} workers that the drill starts for itself"
    return Plan("kill-worker", "", what, "nobody else is touched", addresses, watch, is_harmless=True)


def own_worker(plan: Plan, survey: Survey, identity: str, broker: str, process: str) -> Plan:
    """The plan with the drill's own worker named."""
    watch = watch_worker(survey, identity, broker)
    return msgspec.structs.replace(plan, victim=identity, watch=watch, process=process)


# --- partition ----------------------------------------------------------------------------------------------------


def partition(survey: Survey, named: tuple[str, str] | None, *, is_one_way: bool) -> Plan:
    """The two brokers between which nothing passes."""
    one, other = named or _quietest_pair(survey)
    if one == other:
        raise UsageError(f"a partition is between two brokers, and {one} was named twice")
    for name in (one, other):
        survey.broker(name)
    sides = (_side(survey, one), _side(survey, other))
    arrow = "→" if is_one_way else "|"
    what = f"what {one} sends to {other} is lost" if is_one_way else f"nothing passes between {one} and {other}"
    # Who hears nothing notices: of a cut one way, that is the other end.
    watcher, watched = (other, one) if is_one_way else (one, other)
    watch = Watch(
        survey.addresses_of(watcher),
        "network",
        lambda rows: any(_is_away(row) for row in rows if row.get("identity") == watched),
        watcher,
    )
    why = "named by you" if named else "of the active brokers these have the fewest clients and workers"
    notes = [f"{one} and {other} raise the alarm 'drill', and heal by themselves when the time is over"]
    return Plan(
        "partition", f"{one} {arrow} {other}", what, why, survey.addresses(one), watch, sides=sides, notes=notes
    )


def _quietest_pair(survey: Survey) -> tuple[str, str]:
    def harm(name: str) -> tuple[int, int]:
        return survey.rows[name].get("clients") or 0, survey.rows[name].get("workers") or 0

    quiet = sorted(survey.active, key=harm)
    if len(quiet) < 2:
        raise UsageError("a partition needs two active brokers, and this network has one")
    return quiet[0], quiet[1]


def _side(survey: Survey, identity: str) -> Side:
    return Side(identity, survey.addresses_of(identity)[0])


def _shown(process: str) -> str:
    name = command_of(pid_of(process))
    return f"process {pid_of(process)}" + (f" ({name})" if name else "")


def describe(plan: Plan) -> dict[str, Any]:
    """For `--dry-run --json`."""
    return {"kind": plan.kind, "victim": plan.victim, "what": plan.what, "why": plan.why, "notes": plan.notes}
