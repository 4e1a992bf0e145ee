"""What one run of a broker must never do to other brokers, judged from what goes over its links.

Rule 28: to the origin a peer is a worker whose capacity is the credit that it grants per service; only the origin
queues and settles; a broker that takes a forwarded task gives it to a worker of its own at once, or gives it back at
once, and never passes it on. A pair of brokers has one link, and none that nobody knows of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING

from scale0.core.afar import split_options
from scale0.core.askers import ASKERS_MAX
from scale0.core.connections import is_overtaken
from scale0.core.effects import Send
from scale0.protocol.codec import AnyMessage
from scale0.protocol.codes import Code
from scale0.protocol.ids import show_id
from scale0.protocol.messages import Cancel, Connect, Disconnect, Error, PeerStatus, Status, Task, TaskReply

if TYPE_CHECKING:
    from scale0.simulator.checks_broker import BrokerChecks

ASKS = (Task, Cancel)
NEXT_TICK_S = 0.01  # one that stood still meets its deadlines then
OVERDUE_S = 0.5  # a broker asks for its deadlines in steps of 0.02 s, and a simulated one wakes a little late


class PeerChecks:
    """The checks of one run of one broker as a peer of others, which are named here."""

    def __init__(self, checks: BrokerChecks) -> None:
        self.checks = checks
        self.host = checks.host
        self.world = checks.world
        self.core = checks.core
        self._connects: tuple[str, Connect] | None = None
        self._nonces: dict[str, bytes] = {}
        self._credit: dict[str, dict[str, int]] = {}  # by peer and service, as it said last
        self._paused: dict[str, set[str]] = {}  # services of which it gave a task back since
        self._unsent: set[tuple[str, str]] = set()  # peers and services of which a task met a full pipe since
        self._held: dict[str, dict[bytes, Task]] = {}  # our tasks that it has
        self._taken: dict[bytes, Counter[str]] = {}  # tasks of others that came: how many answers each origin may get
        self._owed: dict[bytes, Counter[str]] = {}  # the same, of what came before the broker forgot all tasks
        self._run_anew: set[bytes] = set()  # of these, what has ended here and runs again, for its client itself

    # --- what comes -----------------------------------------------------------------------------------------------

    def received(self, peer: str, route: bytes, message: AnyMessage) -> None:
        self.world.counts["from peer", type(message).__name__] += 1
        if isinstance(message, Connect):
            known = self.core.network.peers.get(peer)
            if known is not None and not known.is_linked:
                self._credit.pop(peer, None)  # what it granted went with its link
            if known is None or not is_overtaken(known.session, message):
                self._connects = (peer, message)
            return
        if route not in self.core.sessions.by_route:
            return  # over a link that is not up: it is not heard
        if isinstance(message, PeerStatus):
            self._told(peer, message)
        elif isinstance(message, ASKS):  # what is not known here any more is answered, too
            origins = self._taken.setdefault(message.id, Counter())
            origins[peer] += 1
            if isinstance(message, Task):
                self.checks.taken(message.id, is_first=len(origins) == 1)
                self.checks.workers.take_back(message.id, message.attempt)  # each TASK may be dispatched once
        elif isinstance(message, TaskReply) and message.final:
            self._replied(peer, message)
        elif isinstance(message, Error) and message.id:
            self._held.get(peer, {}).pop(message.id, None)
            if message.code == Code.MOVED:
                self.checks.moved(message.id)
        elif isinstance(message, Disconnect) and message.is_drained:
            for task in self._held.pop(peer, {}).values():  # it left with nothing in hand: they never started there
                self.checks.workers.never_started(task.id, task.attempt)

    def _replied(self, peer: str, reply: TaskReply) -> None:
        task = self._held.get(peer, {}).pop(reply.id, None)
        if reply.status == Status.RETURNED:
            self.world.count("rule", "returned by a peer")
            self.checks.workers.never_started(reply.id, reply.attempt)
            if task is not None:
                self._paused.setdefault(peer, set()).add(task.service)

    def handled(self) -> None:
        """Right after `Broker.receive`: was CONNECT accepted?"""
        if self._connects is None:
            return
        peer, message = self._connects
        self._connects = None
        known = self.core.network.peers.get(peer)
        if known is not None and known.session is not None and known.session.nonce == message.nonce:
            self._connected(peer, message)

    def _connected(self, peer: str, message: Connect) -> None:
        """CONNECT says what it holds of our tasks; another process holds none, and has granted nothing."""
        if self._nonces.get(peer) != message.nonce:
            self._forget(peer)
        self._nonces[peer] = message.nonce
        held = self._held.get(peer, {})
        self._held[peer] = {id_: task for id_, task in held.items() if id_ in message.in_flight}

    def _told(self, peer: str, status: PeerStatus) -> None:
        credit = self._credit.setdefault(peer, {})
        if status.is_full:
            credit.clear()
        for offer in status.services:
            credit[offer.name] = offer.credit
        self._paused.pop(peer, None)
        if self._unsent:
            self._unsent = {(name, service) for name, service in self._unsent if name != peer}

    # --- what goes ------------------------------------------------------------------------------------------------

    def sent(self, peer: str, send: Send) -> None:
        message = send.message
        self.world.counts["to peer", type(message).__name__] += 1
        self.world.versions.told(self.host, message)
        if isinstance(message, Task):
            self._forwarded(peer, message)
        elif isinstance(message, TaskReply):
            self._answered(peer, message.id, message.final)
            if message.id not in self._run_anew:
                self.checks.must_be_current(message)
        elif isinstance(message, Error) and message.id:
            self._answered(peer, message.id, True)

    def send_failed(self, peer: str, message: AnyMessage) -> None:
        if isinstance(message, Task):
            self._held.get(peer, {}).pop(message.id, None)
            self._unsent.add((peer, message.service))
            self.checks.workers.take_back(message.id, message.attempt)
        elif (isinstance(message, TaskReply) and message.final) or (isinstance(message, Error) and message.id):
            self._taken.setdefault(message.id, Counter())[peer] += 1  # it is said again

    def _forwarded(self, peer: str, task: Task) -> None:
        self.world.count("rule", "forwarded")
        visited, _ = split_options(task.options)
        held = self._held.setdefault(peer, {})
        credit = self._credit.get(peer, {}).get(task.service, 0)
        has_now = sum(1 for known in held.values() if known.service == task.service)
        self.checks.must_dispatch(task)
        if self.has_taken(task.id) and not self.checks.answers.was_asked(task.id):
            self._fail("rule 28", f"passed {show_id(task.id)} on to {peer}, and is not its origin")
        self._must_be_nearest(peer, task)
        if self.host.name not in visited or peer in visited:
            self._fail("rule 28", f"sent {show_id(task.id)} to {peer}, and it had been at {visited}")
        if has_now >= credit:
            text = f"sent {show_id(task.id)} to {peer}, which has {has_now} and granted {credit} of {task.service}"
            self._fail("credit", text)
        if task.service in self._paused.get(peer, ()):
            self._fail("rule 28", f"{peer} gave a task of {task.service} back and was sent another at once")
        self.checks.workers.given_out(task, "")
        held[task.id] = task

    def _must_be_nearest(self, peer: str, task: Task) -> None:
        """Group first, then fallback groups: no broker of the own group has room while a farther one is asked."""
        peers = self.host.broker.state.network.peers
        if peer not in peers or peers[peer].tier == 0:  # it may have been forgotten in the same step
            return
        self.world.count("rule", "forwarded to a fallback group")
        if task.attempt > 1:  # a repetition may pass over the broker that has just lost the worker
            return
        entry = self.core.ledger.entries.get(task.id)
        if entry is None or entry.sent_s < self.core.now:  # decided before: it has waited for the fallback's word since
            return
        pair = self.host.broker.state.pair
        partner = pair.partner if pair is not None else ""  # of a pair only one has work: it gets none from the other
        for name, known in peers.items():
            is_there = known.is_linked and known.session is not None and not known.session.is_absent
            if known.tier or not is_there or name == partner:
                continue
            has_now = sum(1 for held in self._held.get(name, {}).values() if held.service == task.service)
            has_now += self._held_back(name, task.service)
            has_room = has_now < self._credit.get(name, {}).get(task.service, 0)
            is_paused = task.service in self._paused.get(name, ()) or (name, task.service) in self._unsent
            if has_room and not is_paused:
                self._fail("rule 28", f"sent {show_id(task.id)} to {peer}, and {name} of its group has room")

    def _held_back(self, peer: str, service: str) -> int:
        """What it was given and has not got takes room there already.

        It waits until the fallback knows of it; or nobody follows any more, and it leaves later in this very burst.
        """
        held = self.core.stream.held if self.core.stream is not None else {}
        waiting = [one for one in held.values() if one.worker.session.identity == peer]
        return sum(1 for one in waiting if one.entry.service.name == service) + self._leaves_now(peer, service, held)

    def _leaves_now(self, peer: str, service: str, held: Container[bytes]) -> int:
        entries, had = self.core.ledger.entries, self._held.get(peer, {})
        worker = self.core.network.peers[peer].workers.get(service)
        given = [entries.get(id_) for id_ in worker.slots if id_ not in held and id_ not in had] if worker else []
        return sum(1 for one in given if one is not None and one.worker is worker and one.sent_s < self.core.now)

    def _answered(self, peer: str, id_: bytes, is_final: bool) -> None:
        """I2: an answer goes only to the broker that asked."""
        asked = self._taken.get(id_, Counter())
        if asked[peer] <= 0:
            asked = self._owed.get(id_, Counter())
        if asked[peer] <= 0:
            self._fail("I2", f"{peer} was told of {show_id(id_)}, which it did not ask")
        if is_final:
            asked[peer] -= 1

    def owes_as(self, before: PeerChecks) -> None:
        """Brokers' sessions outlast what the broker forgets: what has ended is told when its origin is back.

        A peer that is back on another connection is still the process that it was: what it has granted since counts.
        """
        self._owed = before._owed | before._taken
        self._nonces = before._nonces

    def has_taken(self, id_: bytes) -> bool:
        """Whether another broker waits for this task."""
        origins = self._taken.get(id_)
        return origins is not None and origins.total() > 0

    def runs_anew(self, id_: bytes) -> None:
        """Its client asks for it here, and the answer that waits for its origin is of the run before.

        The origin gets that one when its link is back, and judges it (rule 7). To the client only the new run counts.
        """
        self._run_anew.add(id_)

    # --- between ----------------------------------------------------------------------------------------------------

    def after_step(self) -> None:
        if self._held:
            for name, peer in self.core.network.peers.items():
                if not peer.is_linked and name in self._held:
                    self._forget(name)

    def look_into(self) -> None:
        """Now and then: the ledger and the links."""
        state = self.core
        # A standby's copy ends when its partner says so.
        for entry in state.ledger.entries.values() if state.mode != "passive" else ():
            if entry.is_forwarded and entry.is_queued:
                self._fail("rule 28", f"queued {show_id(entry.id)}, and is not its origin")
            is_excused = self.host.now <= self.checks.workers.excused_s + NEXT_TICK_S
            if entry.deadline_s + OVERDUE_S < self.host.now and not is_excused:
                late_s = self.host.now - entry.deadline_s
                self._fail("I1", f"holds {show_id(entry.id)} {late_s:.2f} s past its deadline")
        known = {peer.dialing.route for peer in state.network.peers.values()}
        known.update(seed.route for seed in state.network.seeds.values())
        forgotten = [link.leads_to for route, link in self.host.links.by_route.items() if route not in known]
        if forgotten:
            self._fail("one link", f"dialed {', '.join(forgotten)} and has forgotten it")
        # I10: what is known of the network stays within its caps.
        limits, known_peers = state.limits, state.network.peers
        rows = sum(len(peer.table) for peer in known_peers.values())
        if len(known_peers) > limits.brokers or len(state.config.history) > limits.config_history:
            self._fail("I10", f"knows {len(known_peers)} peers and {len(state.config.history)} former configs")
        if rows > limits.table_rows or len(state.network.askers) > ASKERS_MAX:
            self._fail("I10", f"holds {rows} rows of heartbeat tables and {len(state.network.askers)} askers")

    def _forget(self, peer: str) -> None:
        self._held.pop(peer, None)
        self._credit.pop(peer, None)
        self._paused.pop(peer, None)

    def _fail(self, rule: str, text: str) -> None:
        self.world.violation(rule, f"{self.host.name}: {text}")
