"""I9 and rule 31: of a pair of brokers one serves, and who is in doubt waits.

Judged from outside, over all lives of all brokers: never two active brokers in one epoch; an epoch is kept on the disk
before it is named to anybody; no participant obeys a lower epoch than it has seen; one that follows serves nobody, and
takes over when its partner has been silent and somebody asks; one that is in doubt or gives way dispatches nothing; one
that stood still dispatches nothing before its partner has answered a question that was put after that, or has been
silent for takeover_timeout.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, get_args

from scale0.core.effects import Route, Send
from scale0.core.star import TABLE, Star
from scale0.core.stream import Accepted, unpacked
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import PEER
from scale0.protocol.majordomo import MdpMessage, MdpTask
from scale0.protocol.messages import (
    Config,
    ConfigAck,
    Connect,
    ManagementReq,
    NeedBroker,
    PeerStatus,
    Pong,
    ReadyOk,
    Stream,
    Task,
    TaskReply,
)
from scale0.simulator.checks_copy import difference
from scale0.simulator.checks_split import ACTIVE, Splits, is_active
from scale0.simulator.coverage_table import star_name

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.world import World

ROUNDING_S = 1e-6
COMPARE_EVERY = 24  # steps of an active broker whose copy is complete
NAMES_AN_EPOCH = (Config, ConfigAck, Pong, ReadyOk, PeerStatus)
SERVES = (Config, ConfigAck, Pong, ReadyOk, Task, TaskReply, MdpTask)
DISPATCHES = (Task, MdpTask)
ASKS = frozenset((Connect, NeedBroker, ManagementReq, *get_args(MdpMessage)))
WAITS = (Star.PRIMARY, Star.BACKUP, Star.PASSIVE)
_COUNTED = {f"star_{own.name}_{event.name}_{verdict.name}": star_name(own, event, verdict)
            for (own, event), verdict in TABLE.items()}  # fmt: skip


class StarChecks:
    """All pairs of a world; a pair is known by its primary's name."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_any = world.shape is not None  # whether there may be a pair at all
        self.splits = Splits(world)
        self._active_in: dict[tuple[str, int], tuple[str, int]] = {}  # pair and epoch → broker and its incarnation
        self._stars: dict[str, Star] = {}  # by broker, as it was seen last
        self._doubted_s: dict[str, float] = {}  # by broker: when its last doubt was over
        self._has_served: set[str] = set()  # brokers that are, or were since they last waited
        self._steps: dict[str, int] = {}
        self._asked: dict[tuple[str, int], dict[int, float]] = {}  # by broker's incarnation: challenges, and when
        self._stood_still: dict[str, tuple[float, float]] = {}  # by broker: it went on then, and has to ask until then
        self._heard_s: dict[tuple[str, str], float] = {}  # by broker and peer
        self._told_s: dict[str, float] = {}  # by broker: when it last told its partner what it is
        self._said: dict[tuple[str, str], str] = {}  # by broker and peer: its state
        self._asked_s: dict[str, float] = {}  # by broker: when a participant last wanted to be served
        self._ordered_s: dict[str, float] = {}  # by broker: when an operator last spoke
        self._holds_s: dict[str, float] = {}  # by broker that waits to hand over, or for a word: since when
        self.left_behind: set[bytes] = set()  # tasks with a peer when a broker had waited for them long enough

    # --- what brokers say and hear ----------------------------------------------------------------------------------

    def sent(self, host: BrokerHost, send: Send) -> None:
        state, message = host.broker.state, send.message
        pair = state.pair
        if pair is None:
            return
        if isinstance(message, NAMES_AN_EPOCH):
            if message.epoch > host.epoch:
                self._fail("I9", f"{host.name} names epoch {message.epoch}, and has kept {host.epoch}")
            if isinstance(message, PeerStatus):
                self._tells(host, message)
            elif pair.star is ACTIVE:
                self._claim(host, message.epoch)
        if send.dialect is not PEER and state.mode == "passive" and pair.star in WAITS and isinstance(message, SERVES):
            what = f"{type(message).__name__} to a {send.dialect.name}"
            self._fail("I9", f"{host.name} is {pair.star.value}, and sent {what}")
        if isinstance(message, DISPATCHES):
            self._dispatches(host, message.body[0] if message.body else b"")

    def _tells(self, host: BrokerHost, message: PeerStatus) -> None:
        if message.star:  # which only the partner is told
            self._told_s[host.name] = host.now
        if message.ask:
            self._asked.setdefault((host.name, host.incarnation), {}).setdefault(message.ask, host.now)

    def _dispatches(self, host: BrokerHost, token: bytes) -> None:
        state = host.broker.state
        pair = state.pair
        assert pair is not None, "only one of a pair is looked at"
        if state.mode in ("passive", "holding") or (state.mode == "active" and pair.star is not ACTIVE):
            self._fail("I9", f"{host.name} is {pair.star.value} and {state.mode}, and dispatched {token!r}")
        if state.epoch > host.epoch:
            self._fail("I9", f"{host.name} dispatched in epoch {state.epoch}, and has kept {host.epoch}")
        went_on_s, until_s = self._stood_still.get(host.name, (0.0, 0.0))
        if host.now < until_s:
            stood = f"went on {host.now - went_on_s:.3f} s ago"
            self._fail("rule 31", f"{host.name} {stood} and dispatched {token!r} before it heard {pair.partner}")

    def left(self, host: BrokerHost, message: AnyMessage) -> None:
        """It was sent, and its pipe took it: only then is a task given out."""
        if isinstance(message, DISPATCHES):
            self.splits.given_out(host, message.body[0] if message.body else b"")

    def asked(self, host: BrokerHost, message: AnyMessage) -> None:
        """A participant speaks to a broker; only who wants to be served may make a standby serve."""
        if type(message) in ASKS:
            self._asked_s[host.name] = host.schedule.now

    def ordered(self, host: BrokerHost) -> None:
        """An operator speaks to a broker."""
        self._ordered_s[host.name] = host.now

    def heard(self, host: BrokerHost, peer: str, route: Route, message: AnyMessage) -> None:
        """What the partner streams was asked of both. Its answer to our question ends the wait."""
        if isinstance(message, Stream):
            for change in unpacked(message.changes):
                if isinstance(change, Accepted):
                    host.checks.answers.inherited(change.id)
        if not isinstance(message, PeerStatus):
            return
        if route in host.broker.state.sessions.by_route:
            self._heard_s[host.name, peer] = host.schedule.now
            self._said[host.name, peer] = message.state
        if host.name not in self._stood_still:
            return
        pair = host.broker.state.pair
        if pair is None or peer != pair.partner:
            return
        went_on_s, _ = self._stood_still[host.name]
        asked_s = self._asked.get((host.name, host.incarnation), {}).get(message.echo, 0.0)
        if asked_s >= went_on_s:
            del self._stood_still[host.name]

    # --- what happens to brokers ------------------------------------------------------------------------------------

    def stepped(self, host: BrokerHost) -> None:
        """After each verb of a broker that is one of a pair, or was."""
        state = host.broker.state
        pair, before = state.pair, self._stars.get(host.name)
        now = pair.star if pair is not None else None
        if now is not before:
            self._changed(host, before, now)
        if state.mode == "holding":
            self._holds_s.setdefault(host.name, host.now)
        elif self._holds_s:
            self._holds_s.pop(host.name, None)
        if pair is None:
            return
        if state.mode != "passive" or pair.star not in WAITS:
            self._has_served.add(host.name)
        elif host.name in self._has_served:
            self._has_served.discard(host.name)
            host.knows_nothing_more()
        if state.mode == "active" and pair.star is not ACTIVE:
            self._fail("I9", f"{host.name} is {pair.star.value}, and its mode is active")
        if pair.star is ACTIVE and state.mode in ("active", "holding"):
            self._claim(host, state.epoch)
            self._look_at_copy(host)
        self.splits.look_at(host)

    def went_on(self, host: BrokerHost, paused_s: float) -> None:
        """It stood still; for takeover_timeout or longer means that its partner may serve by now.

        One that is linked counts from its last word, for so does its partner, if it heard that.
        """
        pair = host.broker.state.pair
        takeover_s = host.settings.takeover_s
        if pair is None or pair.star is not ACTIVE:
            return
        if paused_s > takeover_s:
            self.world.count("star moment", "active one stood still")
            self._stood_still[host.name] = (host.now, host.now + takeover_s)
            return
        partner = host.broker.state.network.peers.get(pair.partner)
        is_linked = partner is not None and partner.is_linked
        silent_s = host.now - self._told_s.get(host.name, 0.0) if is_linked else paused_s
        if silent_s < takeover_s - ROUNDING_S:
            self.splits.was_slow(host, host.now - paused_s)

    def has_doubted_since(self, host: BrokerHost, then_s: float) -> bool:
        """Whether it is in doubt, or was at any time since: what waited there may have run at its partner.

        What it decided then may reach an absent client much later.
        """
        pair = host.broker.state.pair
        is_in_doubt = Star.DOUBTFUL in (self._stars.get(host.name), pair.star if pair is not None else None)
        return is_in_doubt or self._doubted_s.get(host.name, -math.inf) >= then_s

    def ended(self, host: BrokerHost) -> None:
        """Its process is gone, or the run is over."""
        self._stood_still.pop(host.name, None)
        self._stars.pop(host.name, None)
        self._has_served.discard(host.name)
        for name, number in host.broker.state.counters.items():
            if name in _COUNTED:
                self.world.counts["star", _COUNTED[name]] += number
        if host.broker.state.pair is not None:
            self.splits.look_at(host)

    def _changed(self, host: BrokerHost, before: Star | None, now: Star | None) -> None:
        if before is Star.DOUBTFUL:
            self._doubted_s[host.name] = self.world.schedule.now
        if now is None:  # it has nobody to ask any more
            self._stars.pop(host.name, None)
            self._stood_still.pop(host.name, None)
            return
        self._stars[host.name] = now
        self.world.trace.event(host.now, host.name, f"is {now.value}, epoch {host.broker.state.epoch}")
        if now is ACTIVE and before in WAITS:
            self._serves(host, before)
        if now in WAITS:
            self._stood_still.pop(host.name, None)
            state = host.broker.state
            if before is None and state.mode == "passive" and not state.sessions.by_identity:
                host.knows_nothing_more()  # it served alone, until a document made it a standby
        if now is Star.YIELDING:
            host.checks.ended()  # what it holds is the other's to answer
            self._gave_way(host)

    def _gave_way(self, host: BrokerHost) -> None:
        """Rule 31: `grace_s` is waited for what is in flight. What a peer has for longer is lost with its origin."""
        state = host.broker.state
        if host.now - self._holds_s.get(host.name, host.now) >= state.settings.grace_s - ROUNDING_S:
            for peer in state.network.peers.values():
                self.left_behind.update(id_ for worker in peer.workers.values() for id_ in worker.slots)

    def _serves(self, host: BrokerHost, before: Star) -> None:
        """Rule 31: the partner has just spoken; or it has been silent for takeover_timeout, and somebody asks."""
        pair = host.broker.state.pair
        assert pair is not None, "only one of a pair takes over"
        self.world.count("star moment", f"{before.value} one serves")
        host.checks.paused(host.now)  # deadlines in its copy may have passed long ago: its next tick meets them
        heard_s = max(self._heard_s.get((host.name, pair.partner), 0.0), host.started_s)
        if heard_s == host.now or self._ordered_s.get(host.name) == host.now:
            return
        silence_s, takeover_s = host.now - heard_s, host.settings.takeover_s
        is_out = before is Star.PRIMARY and self._said.get((host.name, pair.partner)) == "disabled"
        if silence_s < takeover_s - ROUNDING_S and not is_out:
            self._fail("rule 31", f"{host.name} took over, and heard {pair.partner} {silence_s:.3f} s ago")
        if self._asked_s.get(host.name) != host.now:
            self._fail("rule 31", f"{host.name} took over, and nobody had asked it")

    def _claim(self, host: BrokerHost, epoch: int) -> None:
        """Each activation opens an epoch of its own: not even another life of the same broker may use it."""
        pair = host.broker.state.pair
        assert pair is not None, "only one of a pair is active in an epoch"
        own = (host.name, host.incarnation)
        owner = self._active_in.setdefault((pair.name, epoch), own)
        if owner != own:
            text = f"{host.name} is active in epoch {epoch}, and {owner[0]} was (its process {owner[1]})"
            self._fail("I9", f"{text}; this is process {host.incarnation}")

    def _host(self, name: str) -> BrokerHost | None:
        return self.world.host_named(name)

    def _look_at_copy(self, host: BrokerHost) -> None:
        self._steps[host.name] = self._steps.get(host.name, 0) + 1
        pair = host.broker.state.pair
        if pair is None or self._steps[host.name] % COMPARE_EVERY:
            return
        partner = self._host(pair.partner)
        if partner is not None and partner.is_running:
            self.must_be_equal(host, partner)

    def must_be_equal(self, host: BrokerHost, partner: BrokerHost) -> bool:
        """Where the copy is complete and nothing is under way it says what the original says. False: it is not."""
        state, copy = host.broker.state, partner.broker.state
        stream, following = state.stream, copy.pair
        if stream is None or not stream.is_in_sync or following is None or following.star is not Star.PASSIVE:
            return False
        if not following.is_whole or following.seq != stream.seq:
            return False
        self.world.count("star moment", "copy compared")
        if len(stream.held) > state.limits.accepted:
            self._fail("I10", f"{host.name} holds back {len(stream.held)} tasks for {partner.name}")
        told = difference(state, copy)
        if told:
            self._fail("copy", f"{partner.name} follows {host.name}, and {told}")
        return True

    def why_not_whole(self) -> str:
        """Of each pair one serves, and the other has a copy that says the same; else what is amiss."""
        for host in self.world.hosts:
            pair = host.broker.state.pair
            partner = self._host(pair.partner) if pair is not None and pair.is_primary else None
            if pair is None or partner is None:
                continue
            active = [one for one in (host, partner) if is_active(one)]
            if len(active) != 1:
                return f"{len(active)} of {host.name} and {partner.name} are active"
            if active[0].broker.state.mode == "holding":
                return f"{active[0].name} has not handed over yet"
            other = partner if active[0] is host else host
            if not is_standby(other):
                return f"{other.name} does not follow {active[0].name}"
            if not self.must_be_equal(active[0], other):
                return f"{other.name} has no complete copy of {active[0].name}"
        return ""

    def _fail(self, rule: str, text: str) -> None:
        self.world.violation(rule, text)


def is_standby(host: BrokerHost) -> bool:
    """Whether it follows its partner, and serves nobody."""
    pair = host.broker.state.pair
    return pair is not None and pair.star is Star.PASSIVE and host.broker.state.mode == "passive"
