"""The link of a client or worker to its broker: finding one, keeping it, and noticing when it is gone.

    idle ── start ──▶ connecting ── CONFIG, CONFIGACK ──▶ up ── silence, DISCONNECT, a broken link ──▶ paused
                        │    ▲ ▲                          │                                             │ ▲
      refused, silence  │    │ └───── FORCENEGOTIATE ─────┘          connecting ◀──── after a jitter ───┘ │
                        ▼    │ CHANGEBROKER                                                               │
                      asking (NEEDBROKER, at the next known broker) ─────────── none is left ─────────────┘

`rounds.py` has the way from broker to broker; here is what is heard and said on one link. A move to another broker,
which CHANGEBROKER asks for, or which `seek` has asked for, happens when the user has put its things in order: until
then the link stays up. Rule 31: an epoch lower than the highest
that was seen of its pair is never obeyed.

The link keeps no tasks. Its user, the session, hears through `LinkUser` when it is up, down or over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from scale0.core.endpoints import named_in
from scale0.core.held_config import SavedConfig
from scale0.core.link_settings import Effects, LinkSettings, LinkUser, Phase, Random
from scale0.core.participant import Connected, Keep, Note, Transmit
from scale0.core.rounds import HOPS_MAX, TRYING, Rounds
from scale0.protocol import limits
from scale0.protocol.codes import Code
from scale0.protocol.messages import (
    ChangeBroker,
    Config,
    ConfigAck,
    Disconnect,
    Error,
    ForceNegotiate,
    Message,
    Pong,
    ReadyOk,
)

RETRY_MS_MAX: Final = 600_000  # no standby is waited for any longer
_UP: Final = Phase.UP

__all__ = ["Effects", "Link", "LinkSettings", "LinkUser", "Phase", "Random"]


class Link(Rounds):
    """One participant's connection to the network of brokers. Verbs append to `out` what is to be done."""

    def __init__(self, settings: LinkSettings, random: Random, user: LinkUser) -> None:
        super().__init__(settings, random, user)
        self.pair = ""  # of the broker that this link leads to, or led to last; empty: it has no partner
        self._takes_bundles = False  # that broker takes several messages in one
        self._kept: SavedConfig = settings.saved
        self._ticked_s = 0.0
        self._calm_at_s = math.inf  # a link that is still up then counts as good

    @property
    def epoch(self) -> int:
        """The highest that was seen of the pair that this link leads to."""
        return self.epochs.get(self.pair, 0)

    @property
    def place(self) -> str:
        """Whose state this link leads to: a pair's, or that of the broker at this endpoint."""
        return self.pair or self.endpoint

    @property
    def config(self) -> bytes:
        return self.held.data

    @property
    def config_version(self) -> bytes:
        return self.held.version

    # --- verbs ----------------------------------------------------------------------------------------------------

    def start(self, now: float, wall_s: float, out: Effects) -> None:
        assert self.phase is Phase.IDLE, "a link starts once"
        self._started_s = self._ticked_s = now
        self.heartbeat.clock.set_wall(now, wall_s)
        if self.held.is_damaged:
            out.append(Note("the config that was saved cannot be read; it is ignored"))
        self._begin_round(now, out)

    def receive(self, message: Message, now: float, out: Effects) -> None:
        """Whatever is not about a task. A message that makes no sense in this phase is ignored."""
        self.heartbeat.heard_at_s = now
        handle = _HANDLERS.get(type(message))
        if handle is not None and self.phase in _LISTENING:
            handle(self, message, now, out)

    def tick(self, now: float, wall_s: float, out: Effects) -> None:
        self.heartbeat.clock.set_wall(now, wall_s)
        stood_still_s, self._ticked_s = now - self._ticked_s, now
        if self.phase is _UP:
            if self.heartbeat.is_silent(now):
                self._silent(stood_still_s, now, out)
            else:
                self._tick_up(now, out)
        elif self.phase is Phase.PAUSED:
            if now >= self._until_s:
                self._begin_round(now, out)
        elif self.phase in TRYING:
            self._tick_attempt(now, out)

    def next_deadline(self) -> float:
        if self.phase is _UP:
            return min(self.heartbeat.next_s(), self.held.fetch_at_s, self._sought_until_s)
        if self.phase in TRYING:
            return min(self._until_s, self._resend_at_s)
        return self._until_s if self.phase is Phase.PAUSED else math.inf

    def agree(self, message: ReadyOk, now: float, out: Effects) -> bool:
        """Take what READYOK says holds. False: it came from an epoch that is over, and the link is down."""
        if self._has_old_epoch(message.epoch, now, out):
            return False
        self.heartbeat.agree(message.heartbeat_interval_ms, now)
        return True

    def seek(self, message: Error, now: float, out: Effects) -> bool:
        """This broker takes no tasks (301, 503): go where it says, or ask it where. False: there is nowhere to go."""
        assert self.phase is Phase.UP, "a link that is not up is on its way already"
        if self._target is not None or self._sought_until_s < math.inf:
            return True
        self._look_for_peace(now)
        if self._hops >= HOPS_MAX:
            return False
        target = named_in(message)
        if target.endpoints and self.endpoint not in target.endpoints:
            self._aim(target, now, out)
        elif message.code == Code.MOVED or len(self.endpoints.known) > 1:
            out.append(Note(f"the broker at {self.endpoint} says {target.reason}; asking for another one"))
            self._sought_until_s = now + self.settings.connect_timeout_s
            out.append(Transmit(self._need_broker_message()))
        else:
            return False
        return True

    def move(self, now: float, out: Effects) -> None:
        """Go where CHANGEBROKER said, or to any other broker; the user has put its things in order."""
        target = self._target
        if target is None or self.phase is not Phase.UP:
            return
        where = target.endpoints[0] if target.endpoints else "another broker"
        out.append(Note(f"moving to {where}: {target.reason or 'the broker asked for it'}", is_usual=True))
        out.append(Transmit(Disconnect(reason="moved to another broker")))
        if target.endpoints:
            self._go(target, now, out)
        else:
            self._next(target.reason, now, out)

    def redirect(self, message: Error, now: float, out: Effects) -> None:
        """301 for the session: go to the broker that `detail` names, or ask this one which to use."""
        self._look_for_peace(now)
        target = named_in(message)
        out.append(Note(f"the broker at {self.endpoint} says {target.reason}"))
        if target.endpoints:
            self._leave(now, out)
            self.endpoints.tried[self.endpoint] = target.reason
            self._go(target, now, out)
        elif self.phase is Phase.ASKING or self._hops >= HOPS_MAX:
            self._next(target.reason, now, out)
        else:
            self._hops += 1
            self._leave(now, out)
            self._speak(Phase.ASKING, now, out, is_first=True)

    def close(self, reason: str, out: Effects) -> None:
        """A clean leave, by our own will."""
        if self.phase in _LISTENING:
            out.append(Transmit(Disconnect(reason=reason)))
        self.phase = Phase.OVER

    # --- messages -------------------------------------------------------------------------------------------------

    def _taken(self, message: Config | ConfigAck, now: float, out: Effects) -> None:
        """CONFIG or CONFIGACK: the answer to CONNECT, or a push."""
        if self.phase is Phase.ASKING:
            return
        self.pair = message.pair
        self._takes_bundles = message.bundles
        known = self.epochs.get(self.pair, 0) if self.pair else 0
        if self._has_old_epoch(message.epoch, now, out):
            return
        if 0 < known < message.epoch:  # the pair has switched since: whoever follows it goes in no loop
            self._hops = 0
        self.heartbeat.adopt(message.heartbeat_interval_ms, message.liveness, now)
        is_news = self.held.take(message)
        if self.phase is Phase.CONNECTING:
            self._come_up(now, out)
        elif is_news:
            if isinstance(message, Config):
                out.append(Note("the broker sent a new config", is_usual=True))
            self._keep(out)

    def _pong(self, message: Pong, now: float, out: Effects) -> None:
        if self.phase is Phase.CONNECTING:  # anew, on the connection that it was up on: its epoch was seen all the same
            self._see(message.epoch)
        elif self.phase is Phase.UP and not self._has_old_epoch(message.epoch, now, out):
            self.heartbeat.clock.heard(message.echo_us, message.time_us, now)
            self.held.hear(message.config_version, now, self.heartbeat.interval_s)

    def _force_negotiate(self, message: ForceNegotiate, now: float, out: Effects) -> None:
        """The broker does not know us: CONNECT on the same connection. While one is under way it needs no second."""
        if self.phase is not Phase.CONNECTING:
            out.append(Note(f"the broker at {self.endpoint} asks for CONNECT: {message.reason}"))
            self._leave(now, out)
            self._speak(Phase.CONNECTING, now, out, is_first=True)

    def _change_broker(self, message: ChangeBroker, now: float, out: Effects) -> None:
        self._look_for_peace(now)
        if self.phase is not Phase.UP:
            self._go(message, now, out)
        elif message.endpoints and self.endpoint not in message.endpoints and self._hops < HOPS_MAX:
            self._aim(message, now, out)
        elif self._sought_until_s < math.inf:
            self._seek_elsewhere("it names no other broker", now, out)
        else:
            out.append(Note("CHANGEBROKER is ignored: it names no other broker, or the redirects form a loop"))

    def _disconnect(self, message: Disconnect, now: float, out: Effects) -> None:
        self._attempt_failed(f"it ended the session: {message.reason or 'no reason given'}", now, out)

    def _error(self, message: Error, now: float, out: Effects) -> None:
        """An ERROR that answers no task."""
        why = f"{message.code} {message.text}"
        if message.code == Code.MOVED:
            self.redirect(message, now, out)
        elif self.phase is Phase.ASKING:
            self._next(why, now, out)
        elif message.code in _REFUSALS and (message.fatal or self.phase is Phase.CONNECTING):
            self._refused(message, now, out)
        elif self.phase is Phase.CONNECTING and message.code == Code.NOT_ACCEPTING and _retry_ms(message):
            named = named_in(message)
            self.endpoints.learn(named.endpoints, named.public_key, named.identity)
            self._stand_by(_retry_ms(message) / 1000, why, now, out)
        elif message.fatal or self.phase is Phase.CONNECTING:
            self._attempt_failed(why, now, out)
        elif message.code == Code.CONFIG_DIFFERS:
            # Rule 24: CONNECT for a new config changes neither place nor tasks, so the link stays up.
            out.append(Transmit(self._connect_message(now)))
        elif message.code == Code.NOT_ACCEPTING and self._sought_until_s < math.inf:
            self._seek_elsewhere(why, now, out)
        else:
            out.append(Note(f"the broker at {self.endpoint} says {why}"))

    # --- while it is up -------------------------------------------------------------------------------------------

    def _come_up(self, now: float, out: Effects) -> None:
        self.phase = Phase.UP
        self._has_been_up = self._is_used = True
        self._why = ""
        self.endpoints.prefer(self.endpoint)
        self.endpoints.tried.clear()
        if not self.home:
            self.home = self.endpoints.identity_of(self.endpoint) or self.held.preferred_broker
            self.endpoints.identify(self.endpoint, self.home)
        self._calm_at_s = now + self.heartbeat.interval_s
        self.heartbeat.begin(now)
        self._patient_until_s = None
        out.append(Connected(self.endpoint, self.epoch, self._takes_bundles))
        self._keep(out)
        self._user.link_up(now, out)

    def _tick_up(self, now: float, out: Effects) -> None:
        if self.heartbeat.is_due(now):
            self._look_for_peace(now)
            out.append(Transmit(self.heartbeat.ping(self.held.version, self._user.link_oldest_unanswered(), now)))
        # Rule 23: any newer version heard is fetched.
        if self.held.must_fetch(now):
            out.append(Transmit(self._connect_message(now)))
        if now >= self._sought_until_s:
            self._seek_elsewhere("it named no other broker", now, out)

    def _look_for_peace(self, now: float) -> None:
        """An interval on a link that is up: what follows is of no row, neither of redirects nor of failures."""
        if self.phase is Phase.UP and now >= self._calm_at_s:
            self._backoff.reset()
            self._hops = 0

    def _aim(self, target: ChangeBroker, now: float, out: Effects) -> None:
        """Another broker is to be used, from when the user is ready."""
        self._sought_until_s = math.inf
        self._target = target
        if self._user.link_may_move(now, out):
            self.move(now, out)

    def _seek_elsewhere(self, why: str, now: float, out: Effects) -> None:
        """The broker that takes no tasks knows no other; those that we know are asked."""
        self._sought_until_s = math.inf
        if len(self.endpoints.known) > 1:
            self._aim(ChangeBroker(identity="", endpoints=[], reason=why), now, out)
        else:
            self._user.link_in_vain(now, out)

    def _keep(self, out: Effects) -> None:
        """Tell what the next process should know, if that has changed."""
        if self.settings.keeps_config:
            saved = self.held.to_save()
            if saved != self._kept:
                self._kept = saved
                out.append(Keep(saved))

    def _silent(self, stood_still_s: float, now: float, out: Effects) -> None:
        """Our own pause is not the broker's silence, but the broker may have given us up: CONNECT before all else."""
        if stood_still_s < self.heartbeat.silence_s:
            self._is_silent = True
            self.lose(f"it was silent for {now - self.heartbeat.heard_at_s:.3g} s", now, out)
        else:
            out.append(Note(f"this process stood still for {stood_still_s:.3g} s; connecting again"))
            self._leave(now, out)
            self._speak(Phase.CONNECTING, now, out, is_first=True)

    def _has_old_epoch(self, epoch: int, now: float, out: Effects) -> bool:
        """Workers and clients refuse an epoch lower than they have seen (rule 31)."""
        if not epoch or not self.pair or epoch >= self.epoch:  # those of brokers without a partner say nothing
            self._see(epoch)
            return False
        why = f"its epoch {epoch} is over: epoch {self.epoch} was seen"
        out.append(Note(f"refused the broker at {self.endpoint}: {why}"))
        self._next(why, now, out)
        return True

    def _see(self, epoch: int) -> None:
        """Of a pair the highest counts; what a broker without a partner says counts as it is."""
        if epoch > self.epoch or (epoch and not self.pair):
            self.epochs[self.pair] = min(epoch, limits.EPOCH_MAX)  # what CONNECT can name
            if len(self.epochs) > limits.EPOCHS_MAX:
                del self.epochs[next(iter(self.epochs))]


def _retry_ms(message: Error) -> int:
    """When a standby wants to be asked again; 0 if it says nothing of it."""
    told = message.detail.get("retry_ms")
    return min(told, RETRY_MS_MAX) if isinstance(told, int) and told > 0 else 0


_LISTENING: Final = (Phase.CONNECTING, Phase.ASKING, Phase.UP)
_REFUSALS: Final = (Code.NOT_AUTHENTICATED, Code.NOT_ALLOWED, Code.IDENTITY_IN_USE, Code.CLOCK_OFF)
_HANDLERS: Final[dict[type[Any], Callable[[Link, Any, float, Effects], None]]] = {
    Config: Link._taken,
    ConfigAck: Link._taken,
    Pong: Link._pong,
    ForceNegotiate: Link._force_negotiate,
    ChangeBroker: Link._change_broker,
    Disconnect: Link._disconnect,
    Error: Link._error,
}
