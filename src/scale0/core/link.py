"""The link of a client or worker to its broker: finding one, keeping it, and noticing when it is gone.

    idle ── start ──▶ connecting ── CONFIG, CONFIGACK ──▶ up ── silence, DISCONNECT, a broken link ──▶ paused
                        │    ▲ ▲                          │                                             │ ▲
      refused, silence  │    │ └───── FORCENEGOTIATE ─────┘          connecting ◀──── after a jitter ───┘ │
                        ▼    │ CHANGEBROKER                                                               │
                      asking (NEEDBROKER, at the next known broker) ─────────── none is left ─────────────┘

Rule 26: a start-up that has tried every known broker, for `connect_timeout_s` at least, fails; whoever has been up
once, or has `retry_forever`, goes on for ever with exponential backoff and full jitter, so that a broker's return is no
storm. Rule 27: after the preferred broker every other one is asked with NEEDBROKER for a broker to use; the answer
becomes the preferred one. Rule 31: an epoch lower than the highest that was seen is never obeyed.

The link keeps no tasks. Its user, the session, hears through `LinkUser` when it is up, down or over.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from scale0.core.backoff import Backoff
from scale0.core.endpoints import Endpoints, named_in
from scale0.core.heartbeat import Heartbeat
from scale0.core.link_settings import Effects, LinkSettings, LinkUser, Phase, Random
from scale0.core.participant import Connected, Failed, Note, Open, Transmit
from scale0.errors import Scale0Error, SessionRefused, Unreachable
from scale0.protocol.codes import Code
from scale0.protocol.messages import (
    ChangeBroker,
    Config,
    ConfigAck,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    Message,
    NeedBroker,
    Pong,
    ReadyOk,
)

__all__ = ["Effects", "Link", "LinkSettings", "LinkUser", "Phase", "Random"]

RESEND_S: Final = 1.0  # CONNECT is repeated: the first may have left on a connection that broke
RETRY_S: Final = 0.1  # after a full pipe
HOPS_MAX: Final = 4  # redirects without an interval of peace between them; more would be a loop
ROUNDING_S: Final = 1e-6  # sums of the same times differ by less


class Link:
    """One participant's connection to the network of brokers. Verbs append to `out` what is to be done."""

    def __init__(self, settings: LinkSettings, random: Random, user: LinkUser) -> None:
        self.settings = settings
        self.phase = Phase.IDLE
        self.endpoint = ""  # where the socket is connected to, or was last
        self.error: Scale0Error | None = None  # why it is over, if not by its own will
        self.config = settings.saved_config
        self.config_version = settings.saved_config_version
        self.epoch = 0  # the highest seen
        self.heartbeat = Heartbeat(settings, random)
        self.endpoints = Endpoints(settings.endpoints, settings.public_keys)
        self.endpoints.learn_config(settings.config_type, settings.saved_config)
        self._backoff = Backoff(random)
        self._user = user
        self._why = ""  # what went wrong in this attempt, while it is still waited for
        self._has_been_up = False
        self._started_s = 0.0
        self._ticked_s = 0.0
        self._until_s = math.inf  # of this attempt, or of this pause
        self._resend_at_s = math.inf
        self._calm_at_s = math.inf  # a link that is still up then counts as good
        self._hops = 0
        self._target: ChangeBroker | None = None  # where to go when the user is ready

    # --- verbs ----------------------------------------------------------------------------------------------------

    def start(self, now: float, wall_s: float, out: Effects) -> None:
        assert self.phase is Phase.IDLE, "a link starts once"
        self._started_s = self._ticked_s = now
        self.heartbeat.clock.set_wall(now, wall_s)
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
        if self.phase is Phase.UP:
            if self.heartbeat.is_silent(now):
                self._silent(stood_still_s, now, out)
            elif self.heartbeat.is_due(now):
                self._ping(now, out)
        elif self.phase is Phase.PAUSED:
            if now >= self._until_s:
                self._begin_round(now, out)
        elif self.phase in _TRYING:
            if now >= self._until_s:
                self._next(self._why or f"no answer within {self.settings.connect_timeout_s:.3g} s", now, out)
            elif now >= self._resend_at_s:
                self._speak(self.phase, now, out)

    def next_deadline(self) -> float:
        if self.phase is Phase.UP:
            return self.heartbeat.next_s()
        if self.phase in _TRYING:
            return min(self._until_s, self._resend_at_s)
        return self._until_s if self.phase is Phase.PAUSED else math.inf

    def failed(self, reason: str, now: float, out: Effects) -> None:
        """The socket's monitor saw the connection refused, its handshake fail, or its end."""
        if self.phase in _LISTENING:
            self._attempt_failed(reason, now, out)

    def send_failed(self, message: Message, now: float) -> None:
        """The pipe was full. A heartbeat comes again by itself; the question that we wait for is asked again soon."""
        if isinstance(message, Connect | NeedBroker) and self.phase in _TRYING:
            self._resend_at_s = now + RETRY_S

    def agree(self, message: ReadyOk, now: float, out: Effects) -> bool:
        """Take what READYOK says holds. False: it came from an epoch that is over, and the link is down."""
        if self._has_old_epoch(message.epoch, now, out):
            return False
        self.heartbeat.agree(message.heartbeat_interval_ms, now)
        return True

    def move(self, now: float, out: Effects) -> None:
        """Go where CHANGEBROKER said; the user has put its things in order."""
        target = self._target
        if target is not None and self.phase is Phase.UP:
            out.append(Note(f"moving to {target.endpoints[0]}: {target.reason or 'the broker asked for it'}"))
            out.append(Transmit(Disconnect(reason="moved to another broker")))
            self._go(target.endpoints, target.public_key, now, out)

    def lose(self, why: str, now: float, out: Effects) -> None:
        """The broker is gone, or wants us no more: come back after a jittered pause, to the same one first."""
        out.append(Note(f"lost the broker at {self.endpoint}: {why}; reconnecting"))
        self._leave(now, out)
        self._why = why
        self._pause(now)

    def redirect(self, message: Error, now: float, out: Effects) -> None:
        """301: go to the broker that `detail` names, or ask this one which to use."""
        endpoints, public_key = named_in(message.detail)
        why = f"{message.code} {message.text}"
        out.append(Note(f"the broker at {self.endpoint} says {why}"))
        if endpoints:
            self._leave(now, out)
            self.endpoints.tried[self.endpoint] = why
            self._go(endpoints, public_key, now, out)
        elif self.phase is Phase.ASKING or self._hops >= HOPS_MAX:
            self._next(why, now, out)
        else:
            self._hops += 1
            self._leave(now, out)
            self._speak(Phase.ASKING, now, out, is_first=True)

    def close(self, reason: str, out: Effects) -> None:
        """A clean leave, by our own will."""
        if self.phase in _LISTENING:
            out.append(Transmit(Disconnect(reason=reason)))
        self.phase = Phase.OVER

    def trouble(self) -> str:
        """Why no broker is there, for the outcome of a task that none has seen."""
        reasons = dict(self.endpoints.tried)
        if self.endpoint:
            reasons[self.endpoint] = self._why or reasons.get(self.endpoint) or "no answer"
        return "; ".join(f"{endpoint}: {why}" for endpoint, why in reasons.items()) or "the client was not started"

    # --- messages -------------------------------------------------------------------------------------------------

    def _taken(self, message: Config | ConfigAck, now: float, out: Effects) -> None:
        """CONFIG or CONFIGACK: the answer to CONNECT, or a push."""
        if self.phase is Phase.ASKING or self._has_old_epoch(message.epoch, now, out):
            return
        self.heartbeat.adopt(message.heartbeat_interval_ms, message.liveness, now)
        if message.config_version >= self.config_version:  # a version never goes back
            if isinstance(message, Config):
                if self.phase is Phase.UP and message.config_version > self.config_version:
                    out.append(Note("the broker sent a new config"))
                self.config = message.config
                self.endpoints.learn_config(message.config_type, message.config)
            self.config_version = message.config_version
        if self.phase is Phase.CONNECTING:
            self._come_up(now, out)

    def _pong(self, message: Pong, now: float, out: Effects) -> None:
        if self.phase is Phase.UP and not self._has_old_epoch(message.epoch, now, out):
            self.heartbeat.clock.heard(message.echo_us, message.time_us, now)

    def _force_negotiate(self, message: ForceNegotiate, now: float, out: Effects) -> None:
        """The broker does not know us: CONNECT on the same connection. While one is under way it needs no second."""
        if self.phase is not Phase.CONNECTING:
            out.append(Note(f"the broker at {self.endpoint} asks for CONNECT: {message.reason}"))
            self._leave(now, out)
            self._speak(Phase.CONNECTING, now, out, is_first=True)

    def _change_broker(self, message: ChangeBroker, now: float, out: Effects) -> None:
        if self.phase is not Phase.UP:
            self._go(message.endpoints, message.public_key, now, out)
        elif not message.endpoints or self.endpoint in message.endpoints or self._hops >= HOPS_MAX:
            out.append(Note("CHANGEBROKER is ignored: it names no other broker, or the redirects form a loop"))
        else:
            self._target = message
            if self._user.link_may_move(now, out):
                self.move(now, out)

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
        elif message.fatal or self.phase is Phase.CONNECTING:
            self._attempt_failed(why, now, out)
        elif message.code == Code.CONFIG_DIFFERS:
            # Rule 24: CONNECT for a new config changes neither place nor tasks, so the link stays up.
            out.append(Transmit(self._connect_message()))
        else:
            out.append(Note(f"the broker at {self.endpoint} says {why}"))

    # --- from broker to broker ------------------------------------------------------------------------------------

    def _begin_round(self, now: float, out: Effects) -> None:
        self.endpoints.tried.clear()
        self._open(self.endpoints.preferred, Phase.CONNECTING, now, out)

    def _open(self, endpoint: str, phase: Phase, now: float, out: Effects) -> None:
        if self.phase is not Phase.OVER:
            self.endpoint = endpoint
            self.heartbeat.end()
            out.append(Open(endpoint, self.endpoints.public_key(endpoint)))
            self._speak(phase, now, out, is_first=True)

    def _speak(self, phase: Phase, now: float, out: Effects, *, is_first: bool = False) -> None:
        """Send CONNECT or NEEDBROKER on the open socket, for the first time in this attempt or once more."""
        if self.phase is Phase.OVER:
            return
        self.phase = phase
        if is_first:
            self._why = ""
            self._until_s = now + self.settings.connect_timeout_s
        if phase is Phase.CONNECTING:
            self._resend_at_s = now + RESEND_S
            out.append(Transmit(self._connect_message()))
        else:
            self._resend_at_s = math.inf
            services, tried = self._user.link_services(), list(self.endpoints.tried)
            out.append(Transmit(NeedBroker(identity=self.settings.identity, services=services, tried=tried)))

    def _connect_message(self) -> Connect:
        settings, user = self.settings, self._user
        return Connect(
            identity=settings.identity,
            nonce=settings.nonce,
            services=user.link_services(),
            config_type=settings.config_type,
            config_version=self.config_version,
            in_flight=user.link_in_flight(),
        )

    def _attempt_failed(self, why: str, now: float, out: Effects) -> None:
        """On to the next broker. If there is only this one, its time is waited for: it may come up meanwhile."""
        if self.phase is Phase.UP:
            self.lose(why, now, out)
        elif len(self.endpoints.known) > 1:
            self._next(why, now, out)
        else:
            self._why = why

    def _next(self, why: str, now: float, out: Effects) -> None:
        """This broker is of no use in this round: ask the next one, or end the round."""
        self._leave(now, out)
        self.endpoints.tried[self.endpoint] = why
        endpoint = self.endpoints.next_untried()
        waited_s = now - self._started_s
        left_s = self.settings.connect_timeout_s - waited_s
        if endpoint is not None:
            self._open(endpoint, Phase.ASKING, now, out)
        elif self._has_been_up or self.settings.retry_forever:
            self._pause(now)
        elif left_s > ROUNDING_S:
            self._pause(now, at_most_s=left_s)
        else:
            self._end(Unreachable(dict(self.endpoints.tried), waited_s), now, out)

    def _go(self, endpoints: list[str], public_key: str, now: float, out: Effects) -> None:
        """Redirected: the answer becomes the preferred broker."""
        self._leave(now, out)
        self._hops += 1
        if self._hops > HOPS_MAX:
            self._next(f"more than {HOPS_MAX} redirects in a row", now, out)
            return
        self.endpoints.learn(endpoints, public_key)
        fresh = [endpoint for endpoint in endpoints if endpoint not in self.endpoints.tried]
        if self.endpoint in fresh or not endpoints:  # the one that was asked takes us itself
            self._speak(Phase.CONNECTING, now, out, is_first=True)
        elif fresh:
            self.endpoints.prefer(fresh[0])
            self._open(fresh[0], Phase.CONNECTING, now, out)
        else:
            self._next("it names only brokers that were tried", now, out)

    def _refused(self, message: Error, now: float, out: Effects) -> None:
        """Credentials are refused for good. A clock or an identity in use may heal while others depend on us."""
        may_heal = message.code in (Code.CLOCK_OFF, Code.IDENTITY_IN_USE)
        left_s = self._started_s + self.settings.connect_timeout_s - now
        if may_heal and (self._has_been_up or self.settings.retry_forever):
            self.lose(f"{message.code} {message.text}", now, out)
        elif message.code == Code.IDENTITY_IN_USE and left_s > ROUNDING_S:
            # A predecessor that was killed counts as alive for one more interval: its successor waits that long.
            self._pause(now, at_most_s=left_s)
        else:
            self._end(SessionRefused(self.endpoint, message.code, message.text), now, out)

    def _leave(self, now: float, out: Effects) -> None:
        """If the link was up, it no longer is, and a new round begins."""
        if self.phase is Phase.UP:
            self.phase = Phase.PAUSED
            self._target = None
            self.endpoints.tried.clear()
            self._user.link_down(now, out)

    def _pause(self, now: float, at_most_s: float = math.inf) -> None:
        if self.phase is not Phase.OVER:
            self._hops = 0
            self.phase = Phase.PAUSED
            self._until_s = now + min(self._backoff.pause_s(), at_most_s)

    def _end(self, error: Scale0Error, now: float, out: Effects) -> None:
        self.phase = Phase.OVER
        self.error = error
        self._user.link_over(error, now, out)
        out.append(Failed(error))

    # --- while it is up -------------------------------------------------------------------------------------------

    def _come_up(self, now: float, out: Effects) -> None:
        self.phase = Phase.UP
        self._has_been_up = True
        self._why = ""
        self.endpoints.prefer(self.endpoint)
        self.endpoints.tried.clear()
        self._calm_at_s = now + self.heartbeat.interval_s
        self.heartbeat.begin(now)
        out.append(Connected(self.endpoint, self.epoch))
        self._user.link_up(now, out)

    def _ping(self, now: float, out: Effects) -> None:
        if now >= self._calm_at_s:
            self._backoff.reset()
            self._hops = 0
        out.append(Transmit(self.heartbeat.ping(self.config_version, self._user.link_oldest_unanswered(), now)))

    def _silent(self, stood_still_s: float, now: float, out: Effects) -> None:
        """Our own pause is not the broker's silence, but the broker may have given us up: CONNECT before all else."""
        if stood_still_s < self.heartbeat.silence_s:
            self.lose(f"it was silent for {now - self.heartbeat.heard_at_s:.3g} s", now, out)
        else:
            out.append(Note(f"this process stood still for {stood_still_s:.3g} s; connecting again"))
            self._leave(now, out)
            self._speak(Phase.CONNECTING, now, out, is_first=True)

    def _has_old_epoch(self, epoch: int, now: float, out: Effects) -> bool:
        """Workers and clients refuse an epoch lower than they have seen (rule 31)."""
        if not epoch or epoch >= self.epoch:
            self.epoch = max(epoch, self.epoch)
            return False
        why = f"its epoch {epoch} is over: epoch {self.epoch} was seen"
        out.append(Note(f"refused the broker at {self.endpoint}: {why}"))
        self._next(why, now, out)
        return True


_LISTENING: Final = (Phase.CONNECTING, Phase.ASKING, Phase.UP)
_TRYING: Final = (Phase.CONNECTING, Phase.ASKING)
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
