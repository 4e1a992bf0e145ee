"""Several brokers joined by links in memory: what one sends, the other gets, through the codec, in order.

A test moves time, cuts links and kills brokers; clients and workers are names that speak by hand. After each verb the
broker is checked, and it may not want to be woken at once for ever: a loop that obeyed would never sleep.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

import msgspec

from scale0.core.askers import Later
from scale0.core.broker import Broker
from scale0.core.effects import (
    DIALED,
    Alarm,
    Answered,
    Asked,
    Dial,
    Effect,
    HangUp,
    KeepConfig,
    Listen,
    Persist,
    Publish,
    Route,
    Send,
    Stopped,
)
from scale0.core.network import Peer
from scale0.core.settings import BrokerSettings
from scale0.core.state import State
from scale0.protocol import codec
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import CLIENT, WORKER, Dialect
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    ChangeBroker,
    Connect,
    Disconnect,
    Error,
    ManagementRep,
    Ping,
    Ready,
    ServiceOffer,
    Task,
    TaskId,
    TaskReply,
)
from scale0.protocol.network import BrokerEntry, ConfigRecord, Document
from scale0.simulator.gatekeeper import Gatekeeper

INTERVAL_S = 2.5
STEP_S = 0.05
SETTLED_S = 9.0  # longer than a broker waits for unknown services after its start
TICKS_AT_ONCE_MAX = 4  # one thing may lead to another; more would be a loop that never sleeps
CLIENT_NONCE = b"cccccccc"
WORKER_NONCE = b"wwwwwwww"

M = TypeVar("M")


def endpoint_of(place: int) -> str:
    """Where the broker listens that was added as number `place`, from 1."""
    return f"tcp://10.0.0.{place}:5555"


def publisher_of(place: int) -> str:
    return f"tcp://10.0.0.{place}:5556"


class Node:
    """One broker of the mesh, and what came out of it."""

    def __init__(self, mesh: Mesh, name: str, **how: Any) -> None:
        self.mesh = mesh
        self.name = name
        self.endpoint = endpoint_of(len(mesh.nodes) + 1)
        self.publisher = publisher_of(len(mesh.nodes) + 1)
        self.links: dict[Route, tuple[Node, Route]] = {}  # ours → whose, and theirs
        self.records: list[ConfigRecord] = []  # on its disk
        self.kept = Persist("active")  # on its disk
        self.lives = 0
        self.how = how
        self.start(**how)

    def start(
        self,
        *,
        seeds: list[str] | None = None,
        document: Document | None = None,
        is_fresh: bool = False,
        users: dict[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.lives += 1
        self.is_up = True
        self.listens_to: list[str] = []
        self.said: dict[str, list[AnyMessage]] = {}  # to participants
        self.alarms: list[Alarm] = []
        self.answers: dict[int, ManagementRep | Error] = {}
        self.published: list[bytes] = []
        self.dials: list[tuple[float, str]] = []  # when, and where to
        self.is_stopped = False
        local = {"identity": self.name, "advertise": [self.endpoint], "config_pub": self.publisher, **settings}
        self.broker = Broker(
            BrokerSettings(**local),
            now=self.mesh.now,
            wall_s=self.mesh.now,
            nonce=f"{self.name[-4:]:_>4}{self.lives:04d}".encode(),
            state=self.kept.state,
            epoch=self.kept.epoch,
            was_serving=self.kept.is_serving,
            records=[] if is_fresh else list(self.records),
            seeds=seeds,
            document=document,
        )
        self.gatekeeper = Gatekeeper(self.broker, users or {})

    @property
    def state(self) -> State:
        return self.broker.state

    @property
    def mode(self) -> str:
        return self.state.mode

    @property
    def version(self) -> str:
        return str(self.state.config.version)

    @property
    def document(self) -> Document:
        return self.state.config.document

    def peer(self, name: str) -> Peer:
        return self.state.network.peers[name]

    def alarm_names(self) -> list[str]:
        return [alarm.name for alarm in self.alarms]

    # --- life and death ---------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Without a word: the links are dead, and the ends that dialed notice."""
        self.is_up = False
        for route, (other, theirs) in list(self.links.items()):
            other.links.pop(theirs, None)
            if theirs[0] == DIALED and other.is_up:
                other.do(other.broker.link_broken(theirs, self.mesh.now))
            del self.links[route]

    def restart(self, **how: Any) -> None:
        """Killed and started again, with what it has on its disk; if not said otherwise, as it was started first."""
        self.kill()
        self.start(**(how or self.how))

    def restart_unnoticed(self) -> None:
        """So fast that the connections of those who dialed are made again by themselves, on the same routes."""
        for route in [route for route in self.links if route[0] == DIALED]:
            self.mesh.hang_up(self, route)
        self.start(**self.how)

    # --- effects ----------------------------------------------------------------------------------------------------

    def do(self, effects: list[Effect]) -> None:
        self.broker.check()
        for effect in [*effects, *self.broker.flush(self.mesh.now)]:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(effect)
            case Dial():
                self.dials.append((self.mesh.now, effect.endpoint))
                self.mesh.dial(self, effect)
            case HangUp():
                self.mesh.hang_up(self, effect.route)
            case KeepConfig():
                self.records = effect.records
            case Persist():
                self.kept = effect
            case Listen():
                self.listens_to = effect.endpoints
            case Publish():
                self.published.append(effect.message.config_version)
                self.mesh.publish(self, effect)
            case Alarm():
                self.alarms.append(effect)
            case Asked():
                self.do(self.gatekeeper.decide(effect, self.mesh.now))
            case Answered():
                self.answers[effect.key] = effect.message
                self.do(self.gatekeeper.answered(effect, self.mesh.now) or [])
            case Stopped():
                self.is_stopped = True
            case _:
                raise AssertionError(f"nobody carries out {effect}")

    def _send(self, send: Send) -> None:
        if send.route in self.links:
            other, theirs = self.links[send.route]
            wire = self.mesh.delayed if self.mesh.is_cut(self, other) else self.mesh.wire
            wire.append((self, other, theirs, codec.encode(send.dialect, send.message)))
        elif send.route[0] == DIALED:
            pass  # nobody answers there: the message waits in the pipe for ever
        elif send.route[:1] == b"N":
            self.do(self.broker.send_failed(send, "unroutable", self.mesh.now))
        else:
            self.said.setdefault(send.route[1:].decode(), []).append(send.message)

    # --- participants and operators ---------------------------------------------------------------------------------

    def say(self, name: str, dialect: Dialect, message: AnyMessage) -> None:
        self.do(self.broker.receive(Route(b"\0" + name.encode()), dialect, message, self.mesh.now))
        self.mesh.settle()

    def heard(self, name: str, kind: type[M]) -> list[M]:
        """What was sent to `name`, of this kind; it is taken away."""
        messages = self.said.get(name, [])
        self.said[name] = [message for message in messages if not isinstance(message, kind)]
        return [message for message in messages if isinstance(message, kind)]

    def worker(self, name: str, *services: str, capacity: int = 1, idempotent: bool = False, **more: Any) -> None:
        self.say(name, WORKER, Connect(identity=name, nonce=WORKER_NONCE, services=list(services), **more))
        offers = [ServiceOffer(service, idempotent) for service in services]
        self.say(name, WORKER, Ready(services=offers, capacity=capacity))

    def client(self, name: str, **more: Any) -> None:
        self.say(name, CLIENT, Connect(identity=name, nonce=CLIENT_NONCE, **more))

    def submit(self, name: str, sequence: int, service: str, timeout_s: float = 30.0, **more: Any) -> None:
        self.say(name, CLIENT, Task(id_of(name, sequence), service, (b"body",), round(timeout_s * 1000), **more))

    def answer(self, name: str, body: bytes = b"done", **more: Any) -> list[Task]:
        """The worker replies to every task that it was sent."""
        tasks = self.heard(name, Task)
        for task in tasks:
            self.say(name, WORKER, TaskReply(task.id, (body,), task.attempt, **more))
        return tasks

    def bodies(self, name: str) -> list[bytes]:
        """The replies that this client got."""
        return [b"".join(reply.body) for reply in self.heard(name, TaskReply)]

    def codes(self, name: str) -> list[int]:
        """The errors that this participant got."""
        return [error.code for error in self.heard(name, Error)]

    def manage(self, command: str, **arguments: Any) -> Any:
        """A command of an operator; another broker's answer is waited for."""
        result, effects = self.broker.manage(command, arguments, self.mesh.now)
        self.do(effects)
        self.mesh.settle()
        return self.answers.get(result.key) if isinstance(result, Later) else result

    def apply(self, document: Document | None = None, **more: Any) -> Any:
        """Make `document` the network's config; without one, the current one with `changes`."""
        changes = {key: more.pop(key) for key in list(more) if key in Document.__struct_fields__}
        wanted = msgspec.structs.replace(document or self.document, **changes)
        return self.manage("config_apply", document=msgspec.json.encode(wanted), **more)

    def rows(self, what: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.manage("list", what=what)["rows"]
        return rows


class Mesh:
    """Brokers, their links, and time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.nodes: dict[str, Node] = {}
        self.wire: deque[tuple[Node, Node, Route, list[bytes]]] = deque()
        self.cuts: set[frozenset[str]] = set()
        self.delayed: list[tuple[Node, Node, Route, list[bytes]]] = []  # what waits behind a cut
        self.passed: list[tuple[str, str, AnyMessage]] = []  # what brokers said to one another
        self.beats = True

    def add(self, name: str, **how: Any) -> Node:
        node = self.nodes[name] = Node(self, name, **how)
        return node

    # --- links ------------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between them until `heal`, as when a cable is pulled: the connection stands, and waits."""
        self.cuts.add(frozenset((one, other)))

    def heal(self) -> None:
        """What waited arrives, in order, unless its link was given up meanwhile."""
        self.cuts.clear()
        self.wire.extend(self.delayed)
        self.delayed.clear()

    def is_cut(self, one: Node, other: Node) -> bool:
        return frozenset((one.name, other.name)) in self.cuts

    def sever(self, one: str, other: str) -> None:
        """Their connection ends; who dialed it notices."""
        node = self.nodes[one]
        for route, (peer, theirs) in list(node.links.items()):
            if peer.name == other:
                del node.links[route]
                del peer.links[theirs]
                dialer, dialed = (node, route) if route[0] == DIALED else (peer, theirs)
                dialer.do(dialer.broker.link_broken(dialed, self.now))
        self.settle()

    def links_between(self, one: str, other: str) -> int:
        return sum(1 for peer, _ in self.nodes[one].links.values() if peer.name == other)

    def dial(self, node: Node, effect: Dial) -> None:
        other = next((n for n in self.nodes.values() if n.endpoint == effect.endpoint and n.is_up), None)
        if other is None or self.is_cut(node, other):
            return
        theirs = Route(b"N" + node.name.encode() + b"." + effect.route)
        node.links[effect.route] = (other, theirs)
        other.links[theirs] = (node, effect.route)

    def hang_up(self, node: Node, route: Route) -> None:
        if route in node.links:
            other, theirs = node.links.pop(route)
            other.links.pop(theirs, None)

    def publish(self, node: Node, effect: Publish) -> None:
        for other in self.nodes.values():
            if other.is_up and node.publisher in other.listens_to and not self.is_cut(node, other):
                other.do(other.broker.heard_version(effect.message.identity, effect.message.config_version, self.now))

    def settle(self) -> None:
        """Deliver everything that is under way, and what comes of it."""
        for _ in range(100_000):
            if not self.wire:
                return
            self.deliver()
        raise AssertionError("the brokers never stop talking")

    def deliver(self) -> None:
        """Deliver the oldest message that is under way."""
        sender, node, route, frames = self.wire.popleft()
        if node.is_up and route in node.links:
            dialect, message = codec.decode(frames)
            self.passed.append((sender.name, node.name, message))
            node.do(node.broker.receive(route, dialect, message, self.now))

    def between(self, one: str, other: str, kind: type[M]) -> list[M]:
        """What `one` said to `other` since the log was cleared, of this kind."""
        said = [message for sender, node, message in self.passed if (sender, node) == (one, other)]
        return [message for message in said if isinstance(message, kind)]

    # --- time -------------------------------------------------------------------------------------------------------

    def run(self, seconds: float, step_s: float = STEP_S) -> None:
        """Let time pass; participants' heartbeats go on by themselves."""
        for _ in range(max(1, round(seconds / step_s))):
            self.now += step_s
            for node in self.nodes.values():
                if node.is_up:
                    self._beat(node)
                    self._tick(node)
            self.settle()

    def _tick(self, node: Node) -> None:
        """As often as the broker wants it."""
        for _ in range(TICKS_AT_ONCE_MAX):
            node.do(node.broker.tick(self.now, self.now))
            if node.broker.next_deadline() > self.now:
                return
        raise AssertionError(f"{node.name} never sleeps")

    def _beat(self, node: Node) -> None:
        if not self.beats:
            return
        for session in list(node.state.sessions.by_identity.values()):
            if session.dialect.is_native and session.route and self.now - session.last_seen_s > INTERVAL_S / 2:
                ping = Ping(round(self.now * 1e6), config_version=session.config_version)
                node.do(node.broker.receive(session.route, session.dialect, ping, self.now))

    def move_told(self) -> int:
        """Every worker that was told CHANGEBROKER goes there, as its library would; how many went."""
        moves = []
        for node in self.nodes.values():
            for session in list(node.state.sessions.by_identity.values()):
                told = node.heard(session.identity, ChangeBroker)
                if told and session.worker is not None:
                    services = [service.name for service in session.worker.services]
                    moves.append((node, session.identity, services, session.worker.capacity, told[-1]))
        for node, name, services, capacity, target in moves:
            node.say(name, WORKER, Disconnect())
            self.nodes[target.identity].worker(name, *services, capacity=capacity)
        return len(moves)


def id_of(client: str, sequence: int) -> TaskId:
    return make_id(id_prefix(client, CLIENT_NONCE), sequence)


def group_of(count: int, **settings: Any) -> tuple[Mesh, list[Node]]:
    """`count` brokers, b1 to bN, that have joined the first one, all active and linked."""
    mesh = Mesh()
    first = mesh.add("b1", **settings)
    nodes = [first] + [mesh.add(f"b{n}", seeds=[first.endpoint], **settings) for n in range(2, count + 1)]
    mesh.run(12.0)
    assert all(node.mode == "active" for node in nodes), [node.mode for node in nodes]
    mesh.passed.clear()
    return mesh, nodes


def document_of(brokers: dict[str, dict[str, Any]], **document: Any) -> Document:
    """A document that lists these brokers, each where the mesh will put it if they are added in this order."""
    entries = [
        {"identity": name, "endpoints": [endpoint_of(place)], "config_pub": publisher_of(place), **entry}
        for place, (name, entry) in enumerate(brokers.items(), 1)
    ]
    return Document(brokers=msgspec.convert(entries, list[BrokerEntry]), **document)


def pair_of(run_s: float = SETTLED_S, **document: Any) -> tuple[Mesh, Node, Node]:
    """A primary and its fallback: one serves, the other follows."""
    mesh = Mesh()
    written = document_of({"prim": {"fallback_broker": "back"}, "back": {}}, **document)
    primary, fallback = (mesh.add(name, document=written) for name in ("prim", "back"))
    mesh.run(run_s)
    assert (primary.mode, fallback.mode) == ("active", "passive")
    mesh.passed.clear()
    return mesh, primary, fallback


def network_of(brokers: dict[str, dict[str, Any]], **document: Any) -> tuple[Mesh, list[Node]]:
    """Brokers that were started from one document that lists them; linked, and settled."""
    mesh = Mesh()
    written = document_of(brokers, **document)
    nodes = [mesh.add(name, document=written) for name in brokers]
    mesh.run(SETTLED_S)
    assert all(mesh.links_between(a, b) == 1 for a in brokers for b in brokers if a != b), "all are linked"
    mesh.passed.clear()
    return mesh, nodes
