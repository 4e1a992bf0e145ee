"""What must hold in a network's document beyond the types of its keys. Rule 22: one that does not validate is refused.

`problems` tells everything that is wrong at once, each with its key and what is allowed; `check` raises it. Whoever
takes a document in, from a file, a manager or a peer, calls one of them first, so the core may rely on all of this.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

import msgspec

from scale0.protocol import limits
from scale0.protocol.document_fields import fields_of, name_of
from scale0.protocol.document_reader import WHOLE_MAX
from scale0.protocol.network import ALL, BrokerEntry, Document
from scale0.protocol.network_addresses import TCP, is_address
from scale0.protocol.problems import FOUND_MAX, Place, Places, Problem, hint, problem, refusal, shown
from scale0.protocol.public_keys import is_key

PORT_MAX: Final = 65_535
RESERVED: Final = ("scale0.", "mmi.")  # rule 34: the broker itself serves them

_PORTS: Final = ("frontend_port", "backend_port", "peer_port", "config_pub_port")


def check(document: Document, source: str = "config", places: Places | None = None) -> None:
    """Raise `SettingsError` with all that is wrong with `document`; `places` knows the lines."""
    found = problems(document)
    if found:
        raise refusal(found, source, places)


def problems(document: Document) -> list[Problem]:
    """All that is wrong with `document`; empty if it is good."""
    rules = (_values, _names, _brokers, _keys, _groups, _services)
    return list(islice(chain.from_iterable(rule(document, Place()) for rule in rules), FOUND_MAX))


# --- every value --------------------------------------------------------------------------------------------------


def _values(entry: msgspec.Struct, place: Place) -> Iterator[Problem]:
    """What holds for each number and each text, wherever it stands."""
    for field in fields_of(type(entry)).values():
        value = getattr(entry, field.name)
        if field.shape == "entries":
            for index, inner in enumerate(value):
                yield from _values(inner, place.field(field.key).item(index, name_of(inner)))
        elif field.shape == "entry":
            yield from _values(value, place.field(field.key))
        elif field.shape in ("whole", "number") and value is not None:
            wrong = _why_no_port(value) if field.key in _PORTS else _why_no_number(value, _most(field.name))
            if wrong:
                yield problem(place.field(field.key), wrong)
        elif isinstance(value, (str, list)):
            # What is printable fits on a screen, into a log and into every format.
            for text in (value,) if isinstance(value, str) else value:
                if not text.isprintable():
                    yield problem(place.field(field.key), f"{shown(text)} has characters that cannot be printed")


def _why_no_port(value: float) -> str:
    return "" if 0 <= value <= PORT_MAX else f"{value} is no port; allowed are 0 to {PORT_MAX}"


def _why_no_number(value: float, most: int) -> str:
    """Numbers are counts, sizes and durations: none of them is zero, negative or endless."""
    if math.isfinite(value) and 0 < value <= most:
        return ""
    return f"must be above 0{f' and at most {most}' if value > 0 else ''}, not {value}"


def _most(name: str) -> int:
    """Of the field of this name: durations travel in messages, which limit them, as do intervals of silence."""
    if name.endswith("_s"):
        return limits.REMAINING_MS_MAX // 1000
    return limits.LIVENESS_MAX if name == "liveness" else WHOLE_MAX


# --- names --------------------------------------------------------------------------------------------------------


def _names(document: Document, place: Place) -> Iterator[Problem]:
    """Entries are told apart by their names, and names travel in messages, which limit them."""
    lists: tuple[tuple[str, Sequence[msgspec.Struct], int], ...] = (
        ("brokers", document.brokers, limits.IDENTITY_BYTES_MAX),
        ("groups", document.groups, limits.IDENTITY_BYTES_MAX),
        ("service", document.service, limits.SERVICE_BYTES_MAX),
    )
    for key, entries, most in lists:
        for index, (name, is_repeated) in enumerate(_marked(name_of(entry) for entry in entries)):
            there = place.field(key).item(index, name)
            yield from _name(name, there, most)
            if is_repeated:
                yield problem(there, "listed twice; keep one of the entries")
    if not document.network:
        yield problem(place.field("network"), "must not be empty")
    takeover_s, interval_s = document.takeover_timeout_s, document.default_heartbeat_interval_s
    if takeover_s is not None and takeover_s < interval_s:
        text = f"{takeover_s:g} s is less than a heartbeat interval, {interval_s:g} s: pauses would look like losses"
        yield problem(place.field("takeover_timeout"), text)


def _marked(names: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Each name, and whether it came before."""
    seen: set[str] = set()
    for name in names:
        yield name, name in seen
        seen.add(name)


def _name(name: str, place: Place, most: int) -> Iterator[Problem]:
    if not 0 < _size(name) <= most:
        yield problem(place, f"{shown(name)}: a name has 1 to {most} bytes")
    elif name != name.strip():
        yield problem(place, f"{shown(name)}: a name neither begins nor ends with a blank")


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


# --- brokers ------------------------------------------------------------------------------------------------------


def _brokers(document: Document, place: Place) -> Iterator[Problem]:
    identities = dict.fromkeys(entry.identity for entry in document.brokers)
    most = document.limits.brokers
    if len(identities) > most:
        yield problem(place.field("brokers"), f"{len(identities)} brokers; limits.brokers allows {most}")
        return
    if identities:
        yield from _known(document.config_brokers, identities.keys(), place.field("config_brokers"), "a listed broker")
    for index, entry in enumerate(document.brokers):
        there = place.field("brokers").item(index, entry.identity)
        yield from _one_broker(entry, there)
        others = identities.keys() - {entry.identity}
        yield from _pair(document, entry, others, there.field("fallback_broker"))
        yield from _known(
            [peer.identity for peer in entry.peers], others, there.field("peers"), "another listed broker"
        )


def _pair(document: Document, entry: BrokerEntry, others: Collection[str], place: Place) -> Iterator[Problem]:
    """A fallback broker stands in for one broker, in the same group and for the same services, and has none itself."""
    name = entry.fallback_broker
    if not name:
        return
    yield from _known([name], others, place, "another listed broker")
    fallback = document.broker(name)
    if fallback is None or fallback is entry:
        return
    if fallback.fallback_broker:
        yield problem(place, f"{shown(name)} has a fallback broker itself; pairs do not form chains")
    if any(other.fallback_broker == name and other is not entry for other in document.brokers):
        yield problem(place, f"{shown(name)} is the fallback of another broker too; each has its own")
    if fallback.group != entry.group:
        yield problem(place, f"{shown(name)} is in group {shown(fallback.group)}; a pair is in one group")
    if fallback.services != entry.services:
        yield problem(place, f"{shown(name)} manages other services; a pair manages the same")


def _known(named: Sequence[str], allowed: Collection[str], place: Place, what: str) -> Iterator[Problem]:
    """Each name is one of `allowed`, and comes once."""
    for name, is_repeated in _marked(named):
        if name not in allowed:
            told = hint(name, sorted(allowed), "there are") if allowed else "there is no other"
            yield problem(place, f"{shown(name)} is not {what}; {told}")
        elif is_repeated:
            yield problem(place, f"{shown(name)} is named twice")


def _one_broker(entry: BrokerEntry, place: Place) -> Iterator[Problem]:
    for key, addresses in (("endpoints", entry.endpoints), ("config_sub_ports", entry.config_sub_ports)):
        for address in addresses:
            if not is_address(address):
                yield problem(place.field(key), f"{shown(address)} is no address such as tcp://10.0.0.1:5555")
    if entry.config_pub and not is_address(entry.config_pub):
        yield problem(place.field("config_pub"), f"{shown(entry.config_pub)} is no address such as tcp://10.0.0.1:5556")
    yield from _bind(entry, place.field("bind"))
    if any(mark in entry.advertise for mark in ("://", "/", " ")):
        yield problem(place.field("advertise"), f"{shown(entry.advertise)} is no host; the ports stand beside it")
    # `services` is a list of names, or "all" in its place.
    if not isinstance(entry.services, str):
        yield from offered(entry.services, place.field("services"))


def _keys(document: Document, place: Place) -> Iterator[Problem]:
    """A key is one broker's alone: by it the others know who speaks."""
    owners: dict[str, str] = {}
    for index, entry in enumerate(document.brokers):
        there = place.field("brokers").item(index, entry.identity)
        for name, key in (("public_key", entry.public_key), ("next_public_key", entry.next_public_key)):
            if not key:
                continue
            if not is_key(key):
                yield problem(there.field(name), f"{shown(key)} is no public key; scale0 keys show prints one")
            elif key in owners:
                yield problem(there.field(name), f"it is the key of {shown(owners[key])} already; each has its own")
            owners[key] = entry.identity
        if entry.next_public_key and not entry.public_key:
            yield problem(there.field("next_public_key"), "there is no public_key that it could follow")


def _bind(entry: BrokerEntry, place: Place) -> Iterator[Problem]:
    bind = entry.bind
    if "://" not in bind:
        if "/" in bind or " " in bind:
            yield problem(place, f"{shown(bind)} is neither an address such as tcp://127.0.0.1:5555 nor a host")
        return
    found = TCP.fullmatch(bind)
    is_wild = found is not None and found["port"] == "*"
    if not is_wild and not is_address(bind):
        yield problem(place, f"{shown(bind)} is no address such as tcp://127.0.0.1:5555")
    elif found and entry.frontend_port and found["port"] != str(entry.frontend_port):
        yield problem(place, f"{shown(bind)} and frontend_port {entry.frontend_port} differ; keep one of them")


def offered(names: Sequence[str], place: Place) -> Iterator[Problem]:
    """What is wrong with a list of services."""
    for name, is_repeated in _marked(names):
        if name == ALL:
            yield problem(place, f"{ALL!r} stands alone, in place of the list")
        elif is_repeated:
            yield problem(place, f"{shown(name)} is named twice")
        else:
            yield from _name(name, place, limits.SERVICE_BYTES_MAX)
            yield from _reserved(name, place)


# --- groups and services ------------------------------------------------------------------------------------------


def _groups(document: Document, place: Place) -> Iterator[Problem]:
    """A group exists if it has an entry, or a broker that names it."""
    existing = {entry.name for entry in document.groups} | {entry.group for entry in document.brokers if entry.group}
    lists = [
        (group.name, group.fallback_groups, place.field("groups").item(index, group.name))
        for index, group in enumerate(document.groups)
    ]
    lists += [
        (entry.group, entry.fallback_groups, place.field("brokers").item(index, entry.identity))
        for index, entry in enumerate(document.brokers)
    ]
    for own, named, there in lists:
        key = there.field("fallback_groups")
        for name, is_repeated in _marked(named):
            if name == own:
                yield problem(key, f"{shown(name)} cannot be its own fallback group")
            elif name not in existing:
                others = sorted(existing - {own})
                told = hint(name, others, "there are") if others else "there is no other"
                yield problem(key, f"no group {shown(name)}; {told}")
            elif is_repeated:
                yield problem(key, f"{shown(name)} is named twice")
    for index, entry in enumerate(document.brokers):
        if entry.group:
            there = place.field("brokers").item(index, entry.identity).field("group")
            yield from _name(entry.group, there, limits.IDENTITY_BYTES_MAX)


def _services(document: Document, place: Place) -> Iterator[Problem]:
    for index, entry in enumerate(document.service):
        there = place.field("service").item(index, entry.name)
        yield from _reserved(entry.name, there)
        if entry.max_attempts is not None and entry.max_attempts > limits.ATTEMPTS_MAX:
            key = there.field("max_attempts")
            yield problem(key, f"{entry.max_attempts} attempts; allowed are 1 to {limits.ATTEMPTS_MAX}")


def _reserved(name: str, place: Place) -> Iterator[Problem]:
    if name.startswith(RESERVED):
        yield problem(place, f"{shown(name)}: names that begin with scale0. or mmi. are the broker's own")
