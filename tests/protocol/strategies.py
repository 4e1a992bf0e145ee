"""Hypothesis strategies for every message of every dialect, made from the messages' own types.

Parameters with a meaning (an identity, an id, a version) have a strategy under their name; all others follow from their
type, so that a message or parameter that is added later is tested without a change here.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from scale0.protocol import limits
from scale0.protocol.commands import COMMANDS
from scale0.protocol.dialects import MDP1_CLIENT, MDP1_WORKER, MDP2_CLIENT, MDP2_WORKER, Dialect
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.majordomo import (
    MdpDisconnect,
    MdpHeartbeat,
    MdpMessage,
    MdpReady,
    MdpReply,
    MdpRequest,
)
from scale0.protocol.messages import (
    Message,
    PeerService,
    Ping,
    Pong,
    Rare,
    ServiceOffer,
    Stream,
    Task,
    TaskId,
    TaskReply,
)

I64 = st.integers(-(2**63), 2**63 - 1)
U64 = st.integers(0, 2**64 - 1)
U63 = st.integers(0, limits.EPOCH_MAX)
U32 = st.integers(0, 2**32 - 1)
U8 = st.integers(0, 255)
U7 = st.integers(0, 127)  # the eighth bit of a TASK's flags says where its body stands

around_inline = st.integers(limits.INLINE_BYTES_MAX - 1, limits.INLINE_BYTES_MAX + 1).map(lambda size: (bytes(size),))
body = st.lists(st.binary(max_size=64), max_size=4).map(tuple) | around_inline
mdp_body = st.lists(st.binary(max_size=64), min_size=1, max_size=4).map(tuple)
name = st.text(min_size=1, max_size=limits.SERVICE_BYTES_MAX // 4)
version = st.binary(min_size=limits.VERSION_BYTES, max_size=limits.VERSION_BYTES)
nonce = st.binary(min_size=limits.NONCE_BYTES, max_size=limits.NONCE_BYTES)
interval_ms = st.integers(0, limits.REMAINING_MS_MAX)
task_id: st.SearchStrategy[TaskId] = st.builds(make_id, st.builds(id_prefix, name, nonce), U64)

scalar = st.none() | st.booleans() | I64 | st.floats(allow_nan=False) | st.text(max_size=8) | st.binary(max_size=8)
anything = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
peer_service = st.builds(
    PeerService,
    name,
    workers=st.integers(0, 9),
    credit=st.integers(0, limits.CREDIT_MAX),
    queued=st.integers(0, 9),
    idempotent=st.booleans(),
    max_attempts=st.integers(1, limits.ATTEMPTS_MAX),
)
offer = st.builds(ServiceOffer, name, st.booleans(), st.integers(1, limits.ATTEMPTS_MAX))

BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "identity": name,
    "nonce": nonce,
    "config_version": version,
    "base": version,
    "id": task_id,
    "in_flight": st.lists(task_id, max_size=3),
    "capacity": st.integers(0, limits.CAPACITY_MAX),
    "heartbeat_interval_ms": interval_ms,
    "covers_ms": interval_ms,
    "liveness": st.integers(0, limits.LIVENESS_MAX),
    "serial": U63,
    "brokers": st.sampled_from(("own", "all")) | st.lists(name, max_size=3),
    "epoch": U63,
    "epochs": st.dictionaries(name, U63, max_size=3),
    "stream": U63,
    "ask": U63,
    "echo": U63,
    "code": st.integers(100, 999),
}


def rare(kind: type[Rare]) -> st.SearchStrategy[Rare]:
    """Messages of this kind, each parameter given or left to its default."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        values = offers_or_names(kind) if field.name == "services" else by_name_or_type(field.name, field.type)
        (required if field.required else optional)[field.name] = values
    return st.fixed_dictionaries(required, optional=optional).map(lambda parameters: kind(**parameters))


def offers_or_names(kind: type[Rare]) -> st.SearchStrategy[Any]:
    return st.lists({"Ready": offer, "PeerStatus": peer_service}.get(kind.__name__, name), max_size=3)


def by_name_or_type(name: str, kind: Any) -> st.SearchStrategy[Any]:
    return BY_NAME[name] if name in BY_NAME else of_type(kind)


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a parameter's type, as wide as the wire carries them."""
    if kind is Any:
        return anything
    if kind is bool:
        return st.booleans()
    if kind is int:
        return I64
    if kind is str:
        return st.text(max_size=20)
    if kind is bytes:
        return st.binary(max_size=20)
    origin, arguments = kind.__origin__, kind.__args__
    if origin is list:
        return st.lists(of_type(arguments[0]), max_size=3)
    assert origin is dict, kind
    return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=3)


task = st.builds(
    Task,
    task_id,
    name,
    body,
    U32,
    attempt=U8,
    priority=st.integers(0, limits.PRIORITIES - 1),
    flags=U7,
    send_time_us=I64,
    behind=U32,
    broker_time_us=I64,
    config_version=version,
    options=st.binary(max_size=64),
)
taskreply = st.builds(
    TaskReply,
    task_id,
    body,
    attempt=U8,
    status=st.integers(0, 2),
    part=U32,
    final=st.booleans(),
    time_us=I64,
    wait_us=I64,
    work_us=I64,
    config_version=version,
)
ping = st.builds(
    Ping,
    I64,
    heartbeat_interval_ms=U32,
    config_version=version,
    offset_us=I64,
    has_offset=st.booleans(),
    oldest_unanswered=U64,
    offset_bits=st.integers(0, 127),
)
pong = st.builds(Pong, I64, I64, config_version=version, epoch=U64)
stream = st.builds(Stream, U64, body)

native: st.SearchStrategy[Message] = st.one_of(task, taskreply, ping, pong, stream, *map(rare, COMMANDS.values()))

mdp_request = st.builds(MdpRequest, name, mdp_body)
mdp_ready = st.builds(MdpReady, name)
mdp_final = st.builds(MdpReply, st.binary(max_size=32), mdp_body)
mdp_partial = st.builds(MdpReply, st.binary(max_size=32), mdp_body, st.just(False))
mdp_silent: st.SearchStrategy[MdpMessage] = st.sampled_from([MdpHeartbeat(), MdpDisconnect()])

MAJORDOMO: dict[Dialect, st.SearchStrategy[MdpMessage]] = {
    MDP1_CLIENT: mdp_request,
    MDP2_CLIENT: mdp_request,
    MDP1_WORKER: mdp_ready | mdp_final | mdp_silent,
    MDP2_WORKER: mdp_ready | mdp_final | mdp_partial | mdp_silent,
}
"""What a Majordomo client or worker may say to a broker, by dialect."""
