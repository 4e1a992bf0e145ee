"""`scale0 network`: the brokers of a network as one of them sees it, who stands in for whom, and what is wrong.

The table has a row a broker. Below it stand the links, and of these only what is worth a look: those that are broken,
and how many tasks went over the others; then the workers of each service, over all brokers. The next command repairs
the worst trouble. Names in that command come from the network, so they are quoted for the shell.

Of a pair, a primary and its fallback broker, the row of whoever serves shows how the other one is.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from scale0.cli import pairs, render
from scale0.cli.pairs import PairRows
from scale0.cli.render import Cell, Column
from scale0.cli.views import BrokerInfo, Row, View, count, mebibytes, micros, names, number, short_version, text

SERVICES_SHOWN_MAX: Final = 40  # below the table; --wide shows them all
GOOD_STATES: Final = ("active", "passive")
TROUBLES: Final = ("gone", "unknown", "disabling", "disabled", "draining", "holding", "joining")
"""States that the verdict counts, the worst first."""


def _identity(row: Row) -> str:
    return render.safe(row.get("identity", "?"))


def _state(row: Row) -> str:
    return str(row.get("state") or "unknown")


def is_broken(row: Row) -> bool:
    """Whether the link to this broker is down."""
    return not row.get("is_self") and row.get("link") in {"down", "dialing"}


def _severity(row: Row) -> int:
    """0 is the worst."""
    if _state(row) in TROUBLES:
        return TROUBLES.index(_state(row))
    is_problem = _state(row) not in GOOD_STATES or row.get("is_behind") or is_broken(row)
    return len(TROUBLES) if is_problem else len(TROUBLES) + 1


# --- the table ----------------------------------------------------------------------------------------------------


def _digest(rows: Sequence[Row]) -> Sequence[Row]:
    """Each row with what its FALLBACK column shows, which other rows tell: a broker's name, and how it is."""
    shown: dict[object, tuple[object, object]] = {}
    for pair in pairs.find(rows):
        primary, fallback = pair.primary, pair.fallback
        shown[pair.name] = (fallback.get("identity"), _condition(primary, fallback))
        if pair.stands_in:
            shown[fallback.get("identity")] = (pair.name, _condition(fallback, primary))
    return [{**row, "shown_fallback": shown.get(row.get("identity"))} for row in rows]


def _condition(row: Row, other: Row) -> str:
    """How the other one of the pair is: in sync or behind, by the word of who serves; else what it says itself."""
    told = row.get("fallback")
    return str(told) if other.get("state") == "passive" and told in {"in sync", "behind"} else _state(other)


def _fallback(row: Row) -> Cell:
    """The other one of the pair, and how it is; of a broker without one, the groups that are tried instead."""
    shown, groups = row.get("shown_fallback"), row.get("fallback_groups")
    if shown:
        name, word = shown
        glyph, fill = render.STATES.get(word, (render.UNKNOWN, "off"))
        return Text.assemble((glyph, render.STYLES[fill]), f" {render.safe(name)} {render.safe(word)}")
    return f"→ {names(row, 'fallback_groups')}" if isinstance(groups, list) and groups else render.UNKNOWN


def _config(row: Row) -> Cell:
    version = row.get("config_version")
    if not version:
        return render.UNKNOWN
    shown = short_version(version)
    return Text.assemble(shown, " ", ("!", render.STYLES["warn"]), " behind") if row.get("is_behind") else shown


def _cells(row: Row) -> Sequence[Cell]:
    return (
        text(row, "group"),
        text(row, "identity"),
        render.state(_state(row)),
        _fallback(row),
        number(row, "workers"),
        number(row, "clients"),
        number(row, "queued"),
        _config(row),
        "0" if row.get("is_self") else render.seconds(micros(row, "heard_us")),
        text(row, "link"),
        number(row, "epoch"),
        text(row, "config_version"),
        "yes" if row.get("is_sequencer") else "no",
        number(row, "tasks_per_s"),
        number(row, "cpu_percent"),
        mebibytes(row, "rss_bytes"),
        names(row, "endpoints"),
    )


def _verdict(rows: Sequence[Row], broker: BrokerInfo) -> tuple[str, str]:
    name = render.safe(broker.network or "scale0")
    if not rows:
        return "off", f"{name}: no broker told of itself {broker.short}"
    states = [_state(row) for row in rows]
    worrying = [*TROUBLES, *sorted({*states} - {*TROUBLES, *GOOD_STATES})]
    troubles = [f"{states.count(state):,} {render.safe(state)}" for state in worrying if state in states]
    if behind := sum(bool(row.get("is_behind")) for row in rows):
        troubles.append(f"{behind:,} behind")
    if cut := sum(is_broken(row) and _state(row) in GOOD_STATES for row in rows):
        troubles.append(f"{cut:,} not linked")
    found = pairs.find(rows)
    troubles += [f"{_identity(pair.other(pair.serving[0]))} does not keep up" for pair in found if pair.is_behind]
    splits = [f"{_identity(pair.primary)} and {_identity(pair.fallback)} both serve" for pair in found if pair.is_split]
    notes = [f"{_identity(pair.fallback)} serves for {_identity(pair.primary)}" for pair in found if pair.stands_in]
    said = ", ".join([f"{name}: {count(len(rows), 'broker')}", *troubles, *splits, *notes])
    if not troubles and not splits:
        return "ok", ", ".join([f"{name}: {count(len(rows), 'broker')}", _all_well(states), *notes])
    is_bad = bool(splits) or "gone" in states or not any(state in GOOD_STATES for state in states)
    return "bad" if is_bad else "warn", said


def _all_well(states: Sequence[str]) -> str:
    if "passive" in states:
        return f"{states.count('active'):,} active, {states.count('passive'):,} standby"
    return "active" if len(states) == 1 else "all active"


# --- below the table ----------------------------------------------------------------------------------------------


def _sections(rows: Sequence[Row], is_wide: bool) -> list[Text]:
    return [*_links(rows), *_services(rows, is_wide)]


def _links(rows: Sequence[Row]) -> list[Text]:
    """One line of what is worth a look: broken links, then tasks that went over the others; none if all is quiet."""
    own = next((_identity(row) for row in rows if row.get("is_self")), "?")
    parts = [_fault(own, row) for row in rows if is_broken(row)]
    forwarded = [part for row in rows if not row.get("is_self") for part in _forwarded(own, row)]
    if forwarded:
        parts.append(Text(f"forwarded {', '.join(forwarded)}"))
    if not parts:
        return []
    return [Text.assemble(("Links:", "bold"), " ", Text(" · ").join(parts))]


def _fault(own: str, row: Row) -> Text:
    heard_us = micros(row, "heard_us")
    since = "never heard" if heard_us is None else f"silent {render.seconds(heard_us)} s"
    what = "down" if heard_us is None and row.get("link") == "down" else since
    return Text.assemble(("✗", render.STYLES["bad"]), f" {own}↔{_identity(row)} {what}")


def _forwarded(own: str, row: Row) -> list[str]:
    ways = ((own, _identity(row), "forwarded"), (_identity(row), own, "received"))
    return [f"{origin}→{other} {number(row, key)}" for origin, other, key in ways if row.get(key)]


def _services(rows: Sequence[Row], is_wide: bool) -> list[Text]:
    """`render 12 (eu-1 5, eu-2 7)`: the workers of each service, and where they are."""
    workers: dict[str, dict[str, int]] = {}
    for row in sorted(rows, key=_identity):
        served = row.get("services")
        for service, number_of in served.items() if isinstance(served, dict) else ():
            if isinstance(number_of, int):
                workers.setdefault(render.safe(service), {})[_identity(row)] = number_of
    if not workers:
        return []
    shown = sorted(workers, key=lambda service: (any(workers[service].values()), service))
    left_out = [] if is_wide else shown[SERVICES_SHOWN_MAX:]
    lines = [Text("SERVICES", style="bold")]
    lines += [_service_line(service, workers[service]) for service in shown[: len(shown) - len(left_out)]]
    if left_out:
        lines.append(Text(f"+{count(len(left_out), 'service')}: --wide", style="dim"))
    return lines


def _service_line(service: str, workers: dict[str, int]) -> Text:
    where = ", ".join(f"{broker} {number_of:,}" for broker, number_of in workers.items() if number_of)
    if not where:
        return Text.assemble(("✗", render.STYLES["bad"]), f" {service} no worker")
    return Text(f"{service} {sum(workers.values()):,} ({where})")


# --- the next command ---------------------------------------------------------------------------------------------


def _quoted(value: object) -> str:
    return shlex.quote(render.safe(value))


def _endpoint(row: Row) -> str:
    endpoints = row.get("endpoints")
    return _quoted(endpoints[0]) if isinstance(endpoints, list) and endpoints else ""


def _start_again(row: Row, rows: Sequence[Row]) -> str:
    near = next((_endpoint(other) for other in rows if other.get("is_self")), "")
    where = "".join(f" {option} {place}" for option, place in (("--bind", _endpoint(row)), ("--join", near)) if place)
    name = _quoted(row.get("identity", "?"))
    why = "is gone: start it again" if _state(row) == "gone" else "was never heard: start it"
    pair = next((pair for pair in pairs.find(rows) if row in (pair.primary, pair.fallback)), None)
    or_else = f", or scale0 ctl forget {name}"
    if pair is not None and pair.serving:
        or_else = f"; {_identity(pair.other(row))} has no standby until then"
    return f"scale0 broker --identity {name}{where}   (it {why}{or_else})"


def _advise_pair(pair: PairRows) -> str:
    """What to do about a pair that lives, and is not as it should be."""
    if pair.is_split:
        older, newer = pair.older, pair.other(pair.older)
        at = f" --broker {place}" if (place := _endpoint(older)) else ""
        why = f"mend the link between {_identity(older)} and {_identity(newer)}"
        return f"scale0 ctl disable{at}   ({why}, or take the one with the older epoch out)"
    if pair.is_behind:
        at = f" --broker {place}" if (place := _endpoint(pair.serving[0])) else ""
        return f"scale0 brokers --json{at}   (its counters, and both logs, say why the copy is not whole)"
    if pair.stands_in and pair.fallback.get("fallback") == "in sync":
        name = _quoted(pair.name)
        return f"scale0 failback {name}   (if {_identity(pair.primary)}, which follows now, is to serve again)"
    return ""


def _advise(rows: Sequence[Row]) -> str:
    found = pairs.find(rows)
    for pair in found:
        if pair.is_split:
            return _advise_pair(pair)
    for row in rows:
        if _state(row) in {"gone", "unknown"}:
            return _start_again(row, rows)
    for row in rows:
        at = f" --broker {place}" if (place := _endpoint(row)) else ""
        if _state(row) in {"disabled", "disabling"}:
            return f"scale0 ctl enable{at}   (if {_identity(row)} is to serve again)"
        if row.get("is_behind"):
            return f"scale0 config show{at}   (what {_identity(row)} runs)"
        if is_broken(row):
            return f"scale0 network{at}   (how {_identity(row)} sees it)"
    return next((advice for pair in found if (advice := _advise_pair(pair))), "")


NETWORK = View(
    "broker",
    (
        Column("GROUP", drop=5),
        Column("BROKER"),
        Column("STATE"),
        Column("FALLBACK", drop=2),
        Column("WORKERS", is_number=True, drop=1),
        Column("CLIENTS", is_number=True, drop=4),
        Column("QUEUED", is_number=True, drop=3),
        Column("CONFIG"),
        Column("HEARD s", is_number=True, drop=6),
        Column("LINK", is_wide_only=True),
        Column("EPOCH", is_number=True, is_wide_only=True),
        Column("VERSION", is_wide_only=True),
        Column("SEQUENCER", is_wide_only=True),
        Column("TASKS/s", is_number=True, is_wide_only=True),
        Column("CPU %", is_number=True, is_wide_only=True),
        Column("RSS MiB", is_number=True, is_wide_only=True),
        Column("ENDPOINTS", is_wide_only=True),
    ),
    _cells,
    lambda row: (_severity(row), str(row.get("group") or ""), str(row.get("identity"))),
    _verdict,
    _advise,
    _digest,
    _sections,
)
