"""Hypothesis strategies for network documents and parts: valid ones, and ones that only their types restrict.

Valid documents hold together: names are unique, and what is referred to exists. They are drawn so that every key of the
model takes part, and so that texts have the characters that formats stumble over: quotes, `#`, blanks, `<`, `&`.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from hypothesis import strategies as st

from scale0.protocol.document_fields import Field, fields_of
from scale0.protocol.document_reader import WHOLE_MAX
from scale0.protocol.limits import REMAINING_MS_MAX
from scale0.protocol.network import (
    ALL,
    BrokerEntry,
    Document,
    GroupBroker,
    GroupConfig,
    GroupEntry,
    Limits,
    Part,
    PeerEntry,
    ServiceEntry,
)

AWKWARD = "aé€'\"#<>&;=.$ 0-\\/:"

character = st.sampled_from(AWKWARD) | st.characters(categories=("L", "M", "N", "P", "S"))
printable = st.text(character, max_size=12)
name = st.text(character, min_size=1, max_size=10).map(str.strip).filter(bool)
service_name = name.filter(lambda text: text != ALL and not text.startswith(("scale0.", "mmi.")))
positive = st.integers(1, WHOLE_MAX)
durations = st.floats(min_value=1e-9, max_value=REMAINING_MS_MAX // 1000, allow_nan=False)
seconds = durations | st.integers(1, 10_000).map(float)
port = st.integers(0, 65_535)
address = st.builds(
    "tcp://{}:{}".format, st.sampled_from(["10.0.0.1", "[::1]", "eu-1.example.org"]), st.integers(1, 65_535)
) | st.just("ipc:///run/scale0.sock")


def some(values: list[str]) -> st.SearchStrategy[list[str]]:
    """Some of `values`, in any order."""
    return st.lists(st.sampled_from(values), unique=True, max_size=4) if values else st.just([])


def services() -> st.SearchStrategy[Any]:
    return st.just(ALL) | st.lists(service_name, unique=True, max_size=3)


def service_entry(service: str) -> st.SearchStrategy[ServiceEntry]:
    return st.builds(
        ServiceEntry,
        name=st.just(service),
        idempotent=st.none() | st.booleans(),
        max_attempts=st.none() | st.integers(1, 255),
        timeout_s=st.none() | seconds,
    )


def made_key(of: str) -> str:
    """A public key that no other name has, with every sort of character that keys have."""
    digits = hashlib.sha256(of.encode(errors="surrogatepass")).hexdigest()[:32]
    groups = [f"0{digits[start : start + 4]}" for start in range(0, 32, 4)]  # a group that begins low is a number
    return "".join(groups).translate(str.maketrans("abcdef", "#$%&*^"))


@st.composite
def broker_entry(draw: st.DrawFn, identity: str, identities: list[str], groups: list[str]) -> BrokerEntry:
    others = [other for other in identities if other != identity]
    group = draw(st.sampled_from(["", *groups]))
    frontend_port = draw(port)
    host = draw(st.sampled_from(["127.0.0.1", "0.0.0.0", "eu-1"]))
    bind = draw(st.sampled_from(["", host, f"tcp://{host}:{frontend_port or '*'}", "ipc:///run/s"]))
    peers = draw(some(others))
    key = draw(st.sampled_from(["", made_key(identity)]))
    return BrokerEntry(
        identity=identity,
        group=group,
        services=draw(services()),
        endpoints=draw(st.lists(address, max_size=2)),
        bind=bind,
        advertise=draw(st.sampled_from(["", "eu-1.example.org"])),
        frontend_port=frontend_port,
        backend_port=draw(port),
        peer_port=draw(port),
        config_pub_port=draw(port),
        config_pub=draw(st.just("") | address),
        config_sub_ports=draw(st.lists(address, max_size=2)),
        public_key=key,
        next_public_key=draw(st.sampled_from(["", made_key(f"next {identity}")])) if key else "",
        max_role=draw(st.sampled_from(["view", "operate", "admin"])),
        state=draw(st.sampled_from(["active", "disabled"])),
        peers=[PeerEntry(identity=peer, table=draw(st.sampled_from(["push", "pull", "off"]))) for peer in peers],
        fallback_groups=draw(some([other for other in groups if other != group])),
        fallback_broker="",
    )


def paired(brokers: list[BrokerEntry]) -> list[BrokerEntry]:
    """The second is the fallback of the first: it is in the same group, and manages the same services."""
    if len(brokers) < 2:
        return brokers
    first, second, *others = brokers
    primary = msgspec.structs.replace(first, fallback_broker=second.identity)
    alike = {"group": first.group, "services": first.services, "fallback_groups": first.fallback_groups}
    return [primary, msgspec.structs.replace(second, **alike), *others]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Documents that validate."""
    identities = draw(st.lists(name, unique=True, max_size=3))
    groups = draw(st.lists(name, unique=True, max_size=3))
    offered = draw(st.lists(service_name, unique=True, max_size=3))
    brokers = [draw(broker_entry(identity, identities, groups)) for identity in identities]
    limit = {key: draw(positive) for key in draw(some(list(fields_of(Limits)))) if key != "brokers"}
    durations = [field.name for field in fields_of(Document).values() if field.shape == "number"]
    drawn = {key: draw(seconds) for key in draw(some(durations))}
    if "takeover_timeout_s" in drawn:  # no shorter than an interval
        drawn["takeover_timeout_s"] += drawn.get("default_heartbeat_interval_s", 2.5)
    return Document(
        network=draw(name),
        config_brokers=draw(some(identities)),
        join=draw(st.sampled_from(["open", "listed"])),
        liveness=draw(st.integers(1, 100)),
        failback=draw(st.sampled_from(["manual", "automatic"])),
        groups=[
            GroupEntry(name=group, fallback_groups=draw(some([other for other in groups if other != group])))
            for group in groups
        ],
        brokers=paired(brokers) if draw(st.booleans()) else brokers,
        service=[draw(service_entry(service)) for service in offered],
        limits=Limits(**limit),
        **drawn,
    )


group_broker = st.builds(
    GroupBroker,
    identity=name,
    services=services(),
    endpoints=st.lists(address, max_size=2),
    config_pub=st.just("") | address,
    public_key=printable,
    next_public_key=printable,
    partner=st.just("") | name,
)
parts = st.builds(
    Part,
    identity=name,
    services=st.lists(service_name, max_size=3),
    preferred_broker=st.just("") | name,
    group_config=st.lists(
        st.builds(GroupConfig, name=printable, brokers=st.lists(group_broker, max_size=2)), max_size=2
    ),
    default_heartbeat_interval_s=seconds,
    liveness=st.integers(1, 100),
)
"""Parts as a broker makes them."""


def loose(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Entries that only the types restrict: any text, any number."""
    drawn = {field.name: _loose(field) for field in fields_of(kind).values()}
    return st.builds(kind, **drawn)


def _loose(field: Field) -> st.SearchStrategy[Any]:
    texts = st.text(max_size=6)
    lists = st.lists(texts, max_size=2)
    found: dict[str, st.SearchStrategy[Any]] = {
        "text": texts,
        "whole": st.integers(-WHOLE_MAX, WHOLE_MAX),
        "number": st.floats(-WHOLE_MAX, WHOLE_MAX),
        "flag": st.booleans(),
        "texts": lists,
        "services": st.just(ALL) | lists,
    }
    if field.shape == "choice":
        return st.sampled_from(field.inner)
    if field.shape == "entries":
        return st.lists(loose(field.inner), max_size=2)
    if field.shape == "entry":
        return loose(field.inner)
    return st.none() | found[field.shape] if field.default is None else found[field.shape]
