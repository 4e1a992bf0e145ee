"""A broker with a life of its own, to which a conversation is said as bytes, as a network would bring them.

Before the first step there are sessions in every dialect, tasks that wait and tasks in flight, and in some worlds peers
that forward. Limits are small, so that a short conversation reaches them. After each step the invariants are checked:
nothing escapes but what the loop allows, tables keep to their caps, what the broker sends can be encoded and read, what
it keeps can be written, and it sleeps. In the end all time passes, and every accepted task must have been settled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scale0.core.broker import Broker
from scale0.core.effects import DIALED, Answered, Asked, Effect, KeepConfig, Publish, Route, Send
from scale0.core.settings import BrokerSettings, Limits
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol import codec
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import (
    CLIENT,
    MDP1_CLIENT,
    MDP1_WORKER,
    MDP2_CLIENT,
    MDP2_WORKER,
    PEER,
    REQ_CLIENT,
    REQ_WORKER,
    WORKER,
    Dialect,
)
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.majordomo import MdpReady, MdpRequest
from scale0.protocol.messages import (
    Connect,
    PeerService,
    Ping,
    Ready,
    ServiceOffer,
    SnapshotReq,
    Stream,
    StreamAck,
    Task,
    TaskId,
)
from scale0.simulator.gatekeeper import Gatekeeper
from scale0.transport import config_file
from tests.core.neighbour import joining, status
from tests.core.record_reader import Reader
from tests.fuzz.conversation import Conversation, Step, parse

NONCE: Final = b"12345678"
PASSWORD: Final = "pw"
EFFECTS_MAX: Final = 400  # of one step, in a world as small as this
TICKS_AT_ONCE_MAX: Final = 4  # one thing may lead to another; more would be a loop that never sleeps
WEEK_S: Final = 8 * 24 * 3600.0  # longer than any deadline
COUNTERS_MAX: Final = 200  # names of counters

LIMITS: Final = Limits(
    sessions=16,
    services=10,
    queued_per_service=4,
    accepted=16,
    accepted_bytes=64 * 1024,
    accepted_per_client=6,
    undelivered_bytes_per_client=4096,
    outcomes=6,
    outcomes_bytes=8192,
    dead_letters=2,
    dead_letter_bytes=4096,
    error_clients=4,
    strangers=4,
    joined_bytes=4096,
    brokers=4,
    config_history=4,
    table_rows=6,
)
_SETTINGS: Final[dict[str, Any]] = {
    "identity": "b1",
    "limits": LIMITS,
    "advertise": ["tcp://10.0.0.1:5555"],
    "config_pub": "tcp://10.0.0.1:5556",
}


def task_id(client: str, sequence: int) -> TaskId:
    return make_id(id_prefix(client, NONCE), sequence)


class BrokerWorld:
    """One broker and those who speak to it. A name that begins with `@` is the end of a link that the broker dialed."""

    def __init__(self, name: str = "lone", broker: Callable[..., Broker] = Broker) -> None:
        self.now = 1000.0
        self.wall_s = 1_700_000_000.0
        self.highest = LIMITS  # of all limits so far: a lower one holds for what is new
        self.is_watched = False  # while it is set up nothing is fuzzed, so nothing is checked
        seeds = ["tcp://10.0.0.9:5555"] if name == "joining" else None
        self.broker = broker(
            BrokerSettings(**_SETTINGS), now=self.now, wall_s=self.wall_s, nonce=NONCE, seeds=seeds, boot="fuzz"
        )
        self.gatekeeper = Gatekeeper(self.broker, {"root": PASSWORD})
        self.reader = Reader(self.broker)
        self.pass_time(8.0)
        WORLDS.get(name, _lone)(self)
        self.is_watched = True

    @property
    def state(self) -> State:
        return self.broker.state

    # --- what happens ---------------------------------------------------------------------------------------------

    def play(self, conversation: Conversation) -> None:
        for step in conversation.steps:
            self.act(step)
        self.end()

    def act(self, step: Step) -> None:
        if step.verb == "jump":
            self.wall_s += step.pause_s
            self.pass_time(0.0)
            return
        if step.pause_s > 0:
            self.pass_time(step.pause_s)
        route = route_of(step.who)
        if step.verb == "break":
            self.look(self.broker.link_broken(route, self.now))
        elif step.verb == "hear":
            version = b"".join(step.frames)[:16].ljust(16, b"\0")
            self.look(self.broker.heard_version(step.who, version, self.now))
        elif step.verb == "drain":
            with contextlib.suppress(ProtocolError):  # it is not in a state for it
                self.look(self.broker.manage("drain", {}, self.now)[1])
        else:
            self._receive(route, step.frames, {"full": "full", "gone": "unroutable"}.get(step.verb, ""))

    def _receive(self, route: Route, frames: tuple[bytes, ...], fate: str) -> None:
        """As `transport.loop` does it, for any bytes."""
        try:
            dialect, message = codec.decode(frames)
            effects = self.broker.receive(route, dialect, message, self.now)
        except ProtocolError as error:
            effects = self.broker.malformed(route, _dialect_of(frames), error, self.now)
        for _ in range(EFFECTS_MAX):
            self.look(effects)
            sends = [effect for effect in effects if isinstance(effect, Send)] if fate else []
            if not sends:
                return
            effects = [effect for send in sends for effect in self.broker.send_failed(send, fate, self.now)]
        raise AssertionError("what cannot be sent is sent again and again")

    def say(self, name: str, dialect: Dialect, message: AnyMessage) -> None:
        self.look(self.broker.receive(route_of(name), dialect, message, self.now))

    def pass_time(self, seconds: float) -> None:
        """Tick as a loop does that was away for so long; then the broker must sleep."""
        self.now += seconds
        self.wall_s += seconds
        for _ in range(TICKS_AT_ONCE_MAX):
            self.look(self.broker.tick(self.now, self.wall_s))
            if self.broker.next_deadline() > self.now:
                return
        raise AssertionError("the broker never sleeps")

    def end(self) -> None:
        """I1: when every deadline is past, nothing is queued or in flight; in a copy it is the partner's to settle."""
        for seconds in (1.0, 10.0, 60.0, WEEK_S, WEEK_S):
            self.pass_time(seconds)
        census = self.broker.census()
        if self.state.mode == "passive":
            return
        assert census.queued == 0, census
        assert census.in_flight == 0, census

    # --- what must hold -------------------------------------------------------------------------------------------

    def look(self, effects: list[Effect]) -> None:
        self._check(effects)
        for effect in effects:
            if isinstance(effect, Asked):
                self.look(self.gatekeeper.decide(effect, self.now))
            elif isinstance(effect, Answered):
                self.look(self.gatekeeper.answered(effect, self.now) or [])

    def _check(self, effects: list[Effect]) -> None:
        if not self.is_watched:
            return
        assert len(effects) <= EFFECTS_MAX, f"one step had {len(effects)} effects"
        for effect in effects:
            look_at(effect)
        self._check_tables()
        self.reader.check()
        state = self.state
        held, state.limits = state.limits, self.highest
        try:
            self.broker.check()
        finally:
            state.limits = held

    def _check_tables(self) -> None:
        """I10, for the tables that `Broker.check` leaves out."""
        state = self.state
        now, before = msgspec.structs.astuple(state.limits), msgspec.structs.astuple(self.highest)
        if now != before:
            self.highest = Limits(*map(max, now, before))
        limits = self.highest
        peers = state.network.peers
        assert len(state.services.by_name) <= limits.services + len(state.settings.service)
        assert len(peers) <= limits.brokers
        assert sum(len(peer.table) for peer in peers.values()) <= limits.table_rows
        assert all(len(peer.held) <= limits.accepted for peer in peers.values())
        assert all(len(peer.table_due) <= limits.sessions for peer in peers.values())
        assert len(state.config.history) <= limits.config_history
        assert len(state.network.askers) <= 100
        assert len(state.network.failing_back) <= limits.brokers
        assert len(state.counters) <= COUNTERS_MAX, f"counters by names from outside: {list(state.counters)[-9:]}"
        assert not state.effects, "an effect was left behind"


def look_at(effect: Effect) -> None:
    """Whatever the shell will do with an effect can be done."""
    match effect:
        case Send(_, dialect, message):
            frames = codec.encode(dialect, message)
            if dialect.is_native:  # what goes to Majordomo participants is not what comes from them
                assert codec.decode(frames) == (dialect, message), "it reads as something else"
        case KeepConfig(records):
            assert config_file.decode(config_file.encode(records)) == records, "what was kept reads as something else"
        case Publish(message):
            codec.decode(codec.encode(PEER, message))


def route_of(name: str) -> Route:
    if name.startswith("@"):
        number = int(name[1:]) if name[1:].isascii() and name[1:].isdigit() else 1
        return Route(bytes((DIALED,)) + b"L" + (number % 2**32).to_bytes(4, "big"))
    return Route(b"\0" + name.encode(errors="replace"))


def _dialect_of(frames: tuple[bytes, ...]) -> Dialect | None:
    try:
        return codec.dialect_of(frames)
    except ProtocolError:
        return None


# --- worlds -------------------------------------------------------------------------------------------------------


def _lone(world: BrokerWorld) -> None:
    """A client and a worker in every dialect; some tasks are in flight, some wait."""
    world.say("wilma", WORKER, Connect(identity="wilma", nonce=NONCE, services=["echo", "twice"]))
    world.say("wilma", WORKER, Ready(services=[ServiceOffer("echo"), ServiceOffer("twice", True, 3)], capacity=2))
    world.say("rob", REQ_WORKER, Connect(identity="rob", nonce=NONCE, services=["echo"]))
    world.say("rob", REQ_WORKER, Ready(services=[ServiceOffer("echo")]))
    world.say("mdpw1", MDP1_WORKER, MdpReady("old"))
    world.say("mdpw2", MDP2_WORKER, MdpReady("new"))
    world.say("ann", CLIENT, Connect(identity="ann", nonce=NONCE))
    for sequence, service in enumerate(("twice", "echo", "echo", "echo"), 1):
        world.say("ann", CLIENT, Task(task_id("ann", sequence), service, (b"body",), 20_000))
    world.say("rita", REQ_CLIENT, Connect(identity="rita", nonce=NONCE))
    world.say("rita", REQ_CLIENT, Task(task_id("rita", 1), "echo", (b"body",), 20_000))
    world.say("mdpc1", MDP1_CLIENT, MdpRequest("old", (b"body",)))
    world.say("mdpc2", MDP2_CLIENT, MdpRequest("new", (b"body",)))


def _network(world: BrokerWorld) -> None:
    """As before, with two peers: each takes work for services of its own, and has work here."""
    for name in ("b2", "b3"):
        world.say(name, PEER, joining(name))
        world.pass_time(0.1)
    _lone(world)
    for name, service in (("b2", "far"), ("b3", "echo")):
        offer = PeerService(service, workers=2, credit=1, idempotent=True, max_attempts=3)
        world.say(name, PEER, status(name, offer, is_full=True))
    for sequence in (11, 12):
        world.say("ann", CLIENT, Task(task_id("ann", sequence), "far", (b"body",), 20_000))
    world.pass_time(0.1)
    world.say("b2", PEER, Task(task_id("bob", 1), "new", (b"body",), 20_000))
    world.say("ann", CLIENT, Ping(0))


def _pair(world: BrokerWorld) -> None:
    """The primary of a pair: active, with the life of `_lone`, which its fallback b2 follows."""
    world.say("b2", PEER, joining("b2"))
    world.pass_time(0.1)
    _apply(world, b'{"brokers":[{"identity":"b1","fallback_broker":"b2"},{"identity":"b2"}]}')
    world.say("b2", PEER, status("b2", is_full=True, star="passive"))
    world.say("b2", PEER, SnapshotReq(what="state"))
    _lone(world)
    world.say("b2", PEER, StreamAck(seq=1))


def _passive(world: BrokerWorld) -> None:
    """The fallback of b2, which is active and streams its state: a client, a worker, and a task in flight."""
    world.say("b2", PEER, joining("b2"))
    world.pass_time(0.1)
    _apply(world, b'{"brokers":[{"identity":"b1"},{"identity":"b2","fallback_broker":"b1"}]}')
    world.say("b2", PEER, status("b2", is_full=True, star="active", epoch=3, stream=1))
    world.say("b2", PEER, Stream(1, packed(CHANGES)))


def _apply(world: BrokerWorld, document: bytes) -> None:
    world.look(world.broker.manage("config_apply", {"document": document}, world.now)[1])
    world.pass_time(0.1)


CHANGES: Final[list[tuple[Any, ...]]] = [
    (0,),
    (1, "ann", NONCE, "client", 2.5, [], "", "JSON", 1, 2),
    (1, "wilma", NONCE, "worker", 2.5, ["echo"], "", "JSON", 1, 0),
    (3, "wilma", [["echo", False, 3]], 2, True, 2.5),
    (4, task_id("ann", 1), "echo", [b"body"], b"", 1, 0, 0, 20_000, 0),
    (5, task_id("ann", 1), "wilma", 1),
    (4, task_id("ann", 2), "other", [b"body"], b"", 1, 0, 0, 20_000, 5),
]
"""What a partner streams first: all before is void, who is there, what is offered, and tasks, one in flight."""


def packed(changes: list[tuple[Any, ...]]) -> tuple[bytes, ...]:
    """Changes as STREAM carries them."""
    return (msgspec.msgpack.encode(changes),)


def _joining(world: BrokerWorld) -> None:
    """It has dialed its seed and waits to be entered; nobody has said anything yet."""
    world.say("ann", CLIENT, Connect(identity="ann", nonce=NONCE))


def _draining(world: BrokerWorld) -> None:
    _network(world)
    world.look(world.broker.manage("drain", {}, world.now)[1])


def _disabled(world: BrokerWorld) -> None:
    _network(world)
    world.look(world.broker.manage("disable", {}, world.now)[1])


WORLDS: Final[dict[str, Callable[[BrokerWorld], Any]]] = {
    "lone": _lone,
    "network": _network,
    "pair": _pair,
    "passive": _passive,
    "joining": _joining,
    "draining": _draining,
    "disabled": _disabled,
}


def run(data: bytes) -> None:
    """Fuzz target: what these bytes say to a broker."""
    conversation = parse(data)
    BrokerWorld(conversation.world).play(conversation)
