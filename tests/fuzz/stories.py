"""Conversations of real messages, from which the fuzzers set out.

For the broker every dialect tells its story, in order, to the broker of `broker_world`. For participants a broker tells
all that a broker may say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from scale0.core.config import content_hash
from scale0.core.config_service import ConfigState
from scale0.protocol import codec, dialects, documents
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Dialect
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.majordomo import MdpDisconnect, MdpHeartbeat, MdpReady, MdpReply, MdpRequest
from scale0.protocol.messages import (
    NO_VERSION,
    Cancel,
    ChangeBroker,
    Config,
    ConfigAck,
    ConfigChange,
    ConfigVersion,
    Connect,
    Disconnect,
    Error,
    Flag,
    ForceNegotiate,
    ManagementRep,
    ManagementReq,
    NeedBroker,
    PeerService,
    Ping,
    Pong,
    Ready,
    ReadyOk,
    ServiceOffer,
    Snapshot,
    SnapshotReq,
    Status,
    Stream,
    StreamAck,
    Table,
    TableReq,
    Task,
    TaskReply,
)
from scale0.protocol.network import (
    BrokerEntry,
    ConfigRecord,
    Document,
    GroupBroker,
    GroupConfig,
    GroupEntry,
    Limits,
    Part,
    PeerEntry,
    ServiceEntry,
)
from tests.core.neighbour import joining, status
from tests.fuzz import participant_worlds
from tests.fuzz.broker_world import CHANGES, NONCE, PASSWORD, packed, task_id
from tests.fuzz.conversation import Step

Said = tuple[str, Dialect, AnyMessage] | tuple[str, Dialect, AnyMessage, float] | Step

DOCUMENT: Final = Document(
    network="eu",
    config_brokers=["b1", "b2"],
    groups=[GroupEntry(name="g", fallback_groups=["h"]), GroupEntry(name="h")],
    brokers=[
        BrokerEntry(identity="b1", group="g", endpoints=["tcp://10.0.0.1:5555"], config_pub="tcp://10.0.0.1:5556"),
        BrokerEntry(
            identity="b2",
            group="h",
            bind="tcp://0.0.0.0:5555",
            advertise="eu-2.example.org",
            frontend_port=5555,
            config_pub_port=5556,
            services=["echo", "far"],
            peers=[PeerEntry(identity="b1", table="pull")],
            fallback_broker="b1",
        ),
    ],
    service=[ServiceEntry(name="echo", idempotent=True, max_attempts=2, timeout_s=1.5)],
    limits=Limits(sessions=100, brokers=8),
)
PART: Final = Part(
    identity="me",
    services=["echo"],
    preferred_broker="b1",
    group_config=[
        GroupConfig(name="g", brokers=[GroupBroker(identity="b1", endpoints=["tcp://home:5555"], public_key="k")]),
        GroupConfig(name="h", brokers=[GroupBroker(identity="b2", endpoints=["tcp://third:5555"])]),
    ],
)


def record(document: Document, number: int, epoch: int = 1, **more: Any) -> ConfigRecord:
    text = documents.canonical(document)
    return ConfigRecord(version=ConfigVersion(epoch, number, content_hash(text)).pack(), document=text, **more)


RECORDS: Final = [record(Document(), 1, author="b1"), record(DOCUMENT, 42, author="root", comment="more", time_us=7)]


def snapshot(*records: ConfigRecord, what: str = "config") -> Snapshot:
    return Snapshot(what=what, seq=1, state=msgspec.msgpack.encode(ConfigState(list(records))))


def manage(command: str, **arguments: Any) -> ManagementReq:
    return ManagementReq(auth_id="root", auth_password=PASSWORD, seq=7, command=command, arguments=arguments)


def task(client: str, sequence: int, service: str = "echo", **more: Any) -> Task:
    return Task(task_id(client, sequence), service, (b"body",), more.pop("remaining_ms", 20_000), **more)


def reply(client: str, sequence: int, **more: Any) -> TaskReply:
    return TaskReply(task_id(client, sequence), (b"done",), **more)


# --- what is said to a broker -------------------------------------------------------------------------------------


def native_client() -> list[Said]:
    who, dialect = "ann", dialects.CLIENT
    return [
        (who, dialect, Ping(5, 2500, has_offset=True, offset_us=3, oldest_unanswered=2)),
        (who, dialect, task("ann", 20)),
        (who, dialect, task("ann", 20, flags=int(Flag.RESENT))),
        (who, dialect, task("ann", 21, "scale0.workers")),
        (who, dialect, task("ann", 22, "mmi.service")),
        (who, dialect, task("ann", 23, "nobody", priority=3, behind=3, options=b"\x81\xa1a\x01")),
        (who, dialect, Cancel(id=task_id("ann", 2))),
        (who, dialect, Cancel(id=task_id("ann", 20))),
        (who, dialect, NeedBroker(identity="ann", services=["echo"], tried=["tcp://10.0.0.3:5555"])),
        ("ann2", dialect, Connect(identity="ann", nonce=NONCE, config_type="ZPL", home="b2")),
        ("eve", dialect, Connect(identity="ann", nonce=b"othernon")),
        ("eve", dialect, task("ann", 30), 3.0),
        ("ann2", dialect, Disconnect(reason="done")),
    ]


def native_worker() -> list[Said]:
    who, dialect = "wilma", dialects.WORKER
    both = [ServiceOffer("echo", True, 2), ServiceOffer("more")]
    return [
        (who, dialect, reply("ann", 1, part=0, final=False)),
        (who, dialect, reply("ann", 1, part=1)),
        (who, dialect, reply("ann", 2, status=int(Status.RETURNED))),
        (who, dialect, Ping(5, 2500)),
        (who, dialect, Ready(services=both, capacity=3, in_flight=[task_id("ann", 3)])),
        (who, dialect, reply("ann", 3, status=int(Status.FAILED), wait_us=5, work_us=6)),
        ("wilma2", dialect, Connect(identity="wilma", nonce=NONCE, services=["echo"], in_flight=[task_id("ann", 4)])),
        ("wilma2", dialect, Ready(services=both, capacity=0, heartbeat=False, heartbeat_interval_ms=5000)),
        ("wilma2", dialect, reply("ann", 4), 3.0),
        ("willi", dialect, Connect(identity="willi", nonce=NONCE, services=["old", "scale0.x"])),
        ("willi", dialect, Ready(services=[ServiceOffer("old"), ServiceOffer("scale0.x")], capacity=1)),
        ("wilma2", dialect, Disconnect()),
    ]


def req_mode() -> list[Said]:
    return [
        ("rob", dialects.REQ_WORKER, reply("ann", 2)),
        ("rob", dialects.REQ_WORKER, reply("ann", 3), 1.0),
        ("rob", dialects.REQ_WORKER, Ready(services=[ServiceOffer("echo")])),
        ("rob", dialects.REQ_WORKER, Ping(1), 3.0),
        ("rita", dialects.REQ_CLIENT, Cancel(id=task_id("rita", 1))),
        ("rita", dialects.REQ_CLIENT, task("rita", 2)),
        ("rita", dialects.REQ_CLIENT, Ping(1)),
        ("root", dialects.REQ_CLIENT, Connect(identity="root", nonce=NONCE)),
        ("root", dialects.REQ_CLIENT, manage("list", what="workers")),
        ("rita", dialects.REQ_CLIENT, Disconnect()),
        ("rob", dialects.REQ_WORKER, Disconnect()),
    ]


def majordomo(version: int) -> list[Said]:
    client = dialects.MDP1_CLIENT if version == 1 else dialects.MDP2_CLIENT
    worker = dialects.MDP1_WORKER if version == 1 else dialects.MDP2_WORKER
    service = "old" if version == 1 else "new"
    number = 3 if version == 1 else 4  # what the broker called this client: the third or fourth of its kind
    address = make_id(id_prefix(f"mdp-client-{number}", NONCE), 1) + b"\x01"
    parts: list[Said] = [] if version == 1 else [("mdpw2", worker, MdpReply(address, (b"part",), final=False))]
    return [
        (f"mdpw{version}", worker, MdpHeartbeat()),
        (f"mdpc{version}", client, MdpRequest(service, (b"more", b"frames"))),
        *parts,
        (f"mdpw{version}", worker, MdpReply(address, (b"done",))),
        (f"mdpc{version}", client, MdpRequest("mmi.service", (b"echo",))),
        ("another", worker, MdpReady(service)),
        ("another", worker, MdpReady(service), 3.0),
        ("stranger", worker, MdpHeartbeat()),
        (f"mdpw{version}", worker, MdpDisconnect()),
    ]


def peers() -> list[Said]:
    who, dialect = "b2", dialects.PEER
    offer = PeerService("far", workers=2, credit=3, queued=1, idempotent=True, max_attempts=2)
    return [
        (who, dialect, status("b2", offer, workers=2, clients=1, heartbeat_interval_ms=2500)),
        (who, dialect, reply("ann", 11)),
        (who, dialect, reply("ann", 12, status=int(Status.RETURNED))),
        (who, dialect, task("bob", 2, "echo")),
        (who, dialect, Cancel(id=task_id("bob", 1))),
        (who, dialect, TableReq()),
        (who, dialect, Table(seq=1, is_full=True, rows=[{"identity": "w9", "services": ["far"], "state": "free"}])),
        (who, dialect, Table(seq=2, rows=[{"identity": "w9"}])),
        (who, dialect, Ping(1)),
        (who, dialect, Stream(seq=1, changes=(b"x",))),
        (who, dialect, StreamAck(seq=1)),
        (who, dialect, Error(code=503, text="not now", id=task_id("ann", 11))),
        (who, dialect, status("b2", state="draining", is_full=True), 2.0),
        (who, dialect, Disconnect(is_drained=True)),
        ("b4", dialect, joining("b4", group="g", network="eu")),
        Step("break", "@1", 1.0),
        ("b3", dialect, Connect(identity="b3", nonce=b"restarte", network="scale0")),
    ]


def configs() -> list[Said]:
    who, dialect = "b2", dialects.PEER
    return [
        (who, dialect, SnapshotReq(what="config")),
        (who, dialect, ConfigChange(seq=3, base=b"", document=documents.canonical(DOCUMENT), author="root")),
        (who, dialect, snapshot(*RECORDS)),
        (who, dialect, snapshot(RECORDS[0], what="lost")),
        (who, dialect, ManagementRep(seq=1, result={"version": "1.2"})),
        (who, dialect, Error(code=409, text="too late", seq=1)),
        Step("hear", "b2", 0.5, (RECORDS[1].version,)),
        ("b3", dialect, snapshot(record(DOCUMENT, 43, epoch=2))),
        ("ann", dialects.CLIENT, Ping(1, config_version=NO_VERSION), 3.0),
    ]


def managers() -> list[Said]:
    who, dialect = "root", dialects.CLIENT
    listings = ("services", "workers", "clients", "brokers", "network", "network_workers", "config", "config_history")
    return [
        *[(who, dialect, manage("list", what=what)) for what in (*listings, "dead_letters", "error_clients")],
        (who, dialect, manage("config_apply", document='{"liveness": 4, "limits": {"sessions": 2}}', comment="c")),
        (who, dialect, manage("config_rollback", version="1.1")),
        (who, dialect, manage("forget_broker", broker="b2")),
        (who, dialect, manage("balance")),
        (who, dialect, manage("failback")),
        (who, dialect, manage("clear_error_client", connection="00")),
        (who, dialect, manage("clear_dead_letters")),
        (who, dialect, manage("reload_config")),
        (who, dialect, manage("disable"), 1.0),
        (who, dialect, manage("enable"), 6.0),
        (who, dialect, manage("drain")),
    ]


def joining_broker() -> list[Said]:
    seed = dialects.PEER
    return [
        ("@1", seed, Connect(identity="b2", nonce=NONCE, network="eu"), 0.1),
        ("@1", seed, status("b2", is_full=True, config_version=RECORDS[1].version)),
        ("@1", seed, snapshot(*RECORDS)),
        ("@1", seed, Error(code=503, text="not now")),
        ("ann", dialects.CLIENT, task("ann", 1)),
        Step("break", "@1", 0.5),
        ("@2", seed, Connect(identity="b2", nonce=NONCE, network="eu"), 3.0),
    ]


def active_of_a_pair() -> list[Said]:
    who, dialect = "b2", dialects.PEER
    return [
        (who, dialect, StreamAck(seq=2)),
        ("wilma", dialects.WORKER, reply("ann", 1)),
        (who, dialect, status("b2", star="passive", ask=5, is_full=True)),
        ("ann", dialects.CLIENT, Connect(identity="ann", nonce=NONCE, epochs={"b1": 1})),
        ("ann", dialects.CLIENT, task("ann", 20, flags=int(Flag.RESENT))),
        (who, dialect, StreamAck(seq=4)),
        (who, dialect, SnapshotReq(what="state")),
        ("ann", dialects.CLIENT, Connect(identity="ann", nonce=NONCE, epochs={"b1": 4}), 1.0),
        (who, dialect, status("b2", star="active", epoch=4)),
        ("root", dialects.CLIENT, manage("list", what="brokers"), 3.0),
    ]


def passive_of_a_pair() -> list[Said]:
    """It follows, its partner falls silent, and it takes over what it was told."""
    who, dialect = "b2", dialects.PEER
    one, two = task_id("ann", 1), task_id("ann", 2)
    parts = packed([(7, one, 1), (8, codec.encode(dialect, reply("ann", 1))), (5, two, "", 1)])
    rest = packed([(6, two, 2), (11, two), (9, two, 502, "lost"), (12, "ann", 2), (2, "wilma")])
    quiet: list[Said] = [Step("say", "nobody", 1.0) for _ in range(9)]
    return [
        (who, dialect, Stream(2, parts)),
        (who, dialect, Stream(3, rest)),
        (who, dialect, Stream(9, rest)),
        (who, dialect, Stream(1, packed([*CHANGES, (10, two)]))),
        ("ann", dialects.CLIENT, Connect(identity="ann", nonce=NONCE, epochs={"b2": 3})),
        ("wilma", dialects.WORKER, NeedBroker(identity="wilma", services=["echo"])),
        *quiet,
        ("ann", dialects.CLIENT, Connect(identity="ann", nonce=NONCE, epochs={"b2": 3})),
        ("ann", dialects.CLIENT, task("ann", 1, flags=int(Flag.RESENT))),
        ("wilma", dialects.WORKER, Connect(identity="wilma", nonce=NONCE, in_flight=[one])),
        ("wilma", dialects.WORKER, Ready(services=[ServiceOffer("echo")], in_flight=[one])),
        ("wilma", dialects.WORKER, reply("ann", 1)),
        (who, dialect, status("b2", star="active", epoch=3)),
    ]


BROKER: Final[dict[str, tuple[str, Callable[[], list[Said]]]]] = {
    "native-client": ("lone", native_client),
    "native-worker": ("lone", native_worker),
    "req-mode": ("lone", req_mode),
    "majordomo-1": ("lone", lambda: majordomo(1)),
    "majordomo-2": ("lone", lambda: majordomo(2)),
    "peers": ("network", peers),
    "configs": ("network", configs),
    "managers": ("network", managers),
    "joining": ("joining", joining_broker),
    "pair": ("pair", active_of_a_pair),
    "passive": ("passive", passive_of_a_pair),
    "draining": ("draining", lambda: [*native_worker(), *peers()]),
    "disabled": ("disabled", lambda: [*native_client(), *configs()]),
}


# --- what a broker says -------------------------------------------------------------------------------------------


def of_any_broker() -> list[AnyMessage]:
    version = ConfigVersion(1, 2, b"hashhash").pack()
    there = ["tcp://third:5555"]
    return [
        Pong(1_700_000_000_000_000, 1, version, 1),
        Config(
            config_type="JSON",
            config_version=version,
            config=documents.encode(PART, "JSON"),
            epoch=1,
            heartbeat_interval_ms=2500,
            liveness=3,
        ),
        ConfigAck(config_version=version, epoch=2, heartbeat_interval_ms=1000, liveness=2),
        Error(code=426, text="config differs"),
        Error(code=400, text="malformed"),
        ForceNegotiate(reason="unknown session"),
        ConfigAck(config_version=version, epoch=2),
        ChangeBroker(identity="b2", endpoints=there, public_key="k", reason="balance"),
        ConfigAck(config_version=version, epoch=2),
        Error(code=301, text="moved", detail={"identity": "b3", "endpoints": there}),
        Error(code=409, text="identity in use", fatal=True),
        Disconnect(reason="drained"),
        ConfigAck(config_version=version, epoch=1),
    ]


def to_client() -> list[Said]:
    one, two = (make_id(id_prefix(participant_worlds.IDENTITY, participant_worlds.NONCE), n) for n in (1, 2))
    said: list[Said] = [("broker", dialects.CLIENT, message) for message in of_any_broker()]
    return [
        ("broker", dialects.CLIENT, TaskReply(two, (b"\x01",), part=0, final=False)),
        ("broker", dialects.CLIENT, TaskReply(two, (b"", b"raw"), part=1, final=False)),
        Step("submit", "echo", 0.1, (b"\x90",)),
        ("broker", dialects.CLIENT, Error(code=503, text="not now", id=one)),
        Step("cancel", "0", 0.1),
        ("broker", dialects.CLIENT, Error(code=404, text="nobody", id=one, detail={"near": ["eco"]})),
        *said,
        Step("break", "broker", 1.0),
        ("broker", dialects.CLIENT, TaskReply(two, (), part=2), 4.0),
        Step("close", "me", 1.0),
    ]


def to_worker() -> list[Said]:
    said: list[Said] = [("broker", dialects.WORKER, message) for message in of_any_broker()]
    ok = ReadyOk(heartbeat_interval_ms=2500, time_us=1, capacity=3, epoch=1, refused={"twice": "reserved"})
    return [
        ("broker", dialects.WORKER, task("ann", 5, attempt=2, options=b"\x81\xa8encoding\xa7msgpack")),
        ("broker", dialects.WORKER, task("ann", 6, "twice")),
        ("broker", dialects.WORKER, task("ann", 7, "unknown")),
        ("broker", dialects.WORKER, Cancel(id=task_id("ann", 5))),
        Step("part", "me", 0.1, (b"\x01",)),
        Step("answer", "me", 0.1, (b"\x01",)),
        Step("offer", "more"),
        ("broker", dialects.WORKER, ok),
        Step("withdraw", "twice"),
        Step("capacity", "me"),
        Step("backlog", "me", 3.0, (b"", b"")),
        ("broker", dialects.WORKER, ok),
        *said,
        Step("break", "broker", 1.0),
        ("broker", dialects.WORKER, ConfigAck(config_version=NO_VERSION, epoch=2), 4.0),
        ("broker", dialects.WORKER, ok),
        Step("return", "me"),
        Step("leave", "me", 1.0),
        ("broker", dialects.WORKER, msgspec.structs.replace(ok, capacity=0)),
    ]
