"""A link's way from broker to broker: which one is tried, for how long, and what follows (rules 26 and 27).

A round begins at the preferred broker, with CONNECT. If that one is of no use, every other known broker is asked with
NEEDBROKER for one to use, each once; the answer becomes the preferred broker. A round in vain is followed by a pause.
After a loss by silence the others are asked first.
A start-up that has gone on for `connect_timeout_s` and is in vain fails; whoever has been up once, or has
`retry_forever`, goes on for ever with exponential backoff and full jitter, so that a broker's return is no storm.

Rule 31: the fallback broker of the preferred one holds the same state. So it is tried first after a loss, with CONNECT;
if it says that it waits for the other's silence, the two are tried in turn for a while, before anybody else is asked.

Where CHANGEBROKER pointed is tried first, even if the link broke before the move. `home` is the broker where this
process was first up, and CONNECT names it at every other one, so that it can be sent back: after a loss or a drain it
stays the same; after a move for balance, or back home, the new broker is home.
"""

from __future__ import annotations

import math
from typing import Final

from scale0.core.backoff import Backoff
from scale0.core.endpoints import Endpoints, fit_identity
from scale0.core.heartbeat import Heartbeat
from scale0.core.held_config import HeldConfig
from scale0.core.link_settings import KEY_REFUSED, Effects, LinkSettings, LinkUser, Phase, Random
from scale0.core.participant import Failed, Note, Open, Transmit
from scale0.errors import Scale0Error, SessionRefused, Unreachable
from scale0.protocol.codes import Code
from scale0.protocol.messages import ChangeBroker, Connect, Error, Message, NeedBroker

RESEND_S: Final = 1.0  # CONNECT is repeated: the first may have left on a connection that broke
RETRY_S: Final = 0.1  # after a full pipe
HOPS_MAX: Final = 4  # redirects with neither an interval of peace nor a pair's switch between; more would be a loop
PATIENCE: Final = 4  # times the wait that a standby asks for first; then others are asked too
LOSS_PAUSE_INTERVALS: Final = 0.25  # at most, before the partner of a lost broker is tried
ROUNDING_S: Final = 1e-6  # sums of the same times differ by less

TRYING: Final = (Phase.CONNECTING, Phase.ASKING)
_HOMING: Final = ("balance", "failback")  # how the reasons begin that make the new broker home


class Rounds:
    """The part of a link that finds a broker. Verbs append to `out` what is to be done."""

    def __init__(self, settings: LinkSettings, random: Random, user: LinkUser) -> None:
        self.settings = settings
        self.phase = Phase.IDLE
        self.endpoint = ""  # where the socket is connected to, or was last
        self.error: Scale0Error | None = None  # why it is over, if not by its own will
        self.home = ""  # the identity of the broker where this process was first up
        self.heartbeat = Heartbeat(settings, random)
        self.endpoints = Endpoints(settings.endpoints, settings.public_keys, settings.saved.endpoints)
        self.held = HeldConfig(settings.saved, self.endpoints)
        self._user = user
        self._backoff = Backoff(random)
        self._why = ""  # what went wrong in this attempt, while it is still waited for
        self._has_been_up = False
        self._started_s = 0.0
        self._until_s = math.inf  # of this attempt, or of this pause
        self._resend_at_s = math.inf
        self._hops = 0
        self._is_shut = False  # the handshake failed for good: another attempt needs another socket
        self._is_used = False  # the socket was up: what the broker sent there before may be unread
        self._keys_tried: set[str] = set()  # endpoints where both keys were tried in this round
        self._serial = 0  # of the last CONNECT
        self.epochs: dict[str, int] = {}  # the highest that was seen of each pair of brokers
        self._is_lost = False  # the preferred broker was lost just now: its partner comes first
        self._is_silent = False  # it was lost by its silence: others come first
        self._retry_at_s = math.inf  # when a standby wants to be asked again at the latest
        self._patient_until_s: float | None = None  # how long only the pair is tried
        self._target: ChangeBroker | None = None  # while up: where to go when the user is ready
        self._sought_until_s = math.inf  # while up: how long the answer to NEEDBROKER is waited for

    # --- verbs ----------------------------------------------------------------------------------------------------

    def failed(self, reason: str, now: float, out: Effects) -> None:
        """The socket's monitor saw the connection refused, its handshake fail, or its end."""
        if self.phase is Phase.UP or self.phase in TRYING:
            self._attempt_failed(reason, now, out)

    def send_failed(self, message: Message, now: float) -> None:
        """The pipe was full. A heartbeat comes again by itself; the question that we wait for is asked again soon."""
        if isinstance(message, Connect | NeedBroker) and self.phase in TRYING:
            self._resend_at_s = now + RETRY_S

    def lose(self, why: str, now: float, out: Effects, *, is_gone: bool = True) -> None:
        """The broker is gone, or wants us no more: come back after a jittered pause, to the same one first."""
        out.append(Note(f"lost the broker at {self.endpoint}: {why}; reconnecting"))
        self._leave(now, out)
        self._why = why
        self._is_lost = is_gone  # who was refused would be refused by its partner, too
        self._retry_at_s = math.inf
        has_partner = is_gone and bool(self.endpoints.partners_of(self.endpoints.preferred))
        self._pause(now, LOSS_PAUSE_INTERVALS * self.heartbeat.interval_s if has_partner else math.inf)

    def trouble(self) -> str:
        """Why no broker is there, for the outcome of a task that none has seen."""
        if self._target is not None or self._sought_until_s < math.inf:
            return f"{self.endpoint}: it is being left for another broker"
        troubles = "; ".join(f"{endpoint}: {why}" for endpoint, why in self.troubles().items())
        return troubles or "the client was not started"

    def troubles(self) -> dict[str, str]:
        """Which addresses were asked in this round, and why none is any good so far."""
        reasons = dict(self.endpoints.tried)
        if self.endpoint:
            reasons[self.endpoint] = self._why or reasons.get(self.endpoint) or "no answer"
        return reasons

    # --- one attempt ----------------------------------------------------------------------------------------------

    def _begin_round(self, now: float, out: Effects) -> None:
        self.endpoints.tried.clear()
        self._keys_tried.clear()
        if now >= self._retry_at_s:
            self._retry_at_s = math.inf
        pair = self._pair()
        is_lost, is_silent = self._is_lost, self._is_silent
        self._is_lost = self._is_silent = False
        if is_silent and len(pair) == 1 and len(self.endpoints.known) > 1:
            # One that accepts connections and says nothing would be waited for: whoever else is there is asked first.
            self.endpoints.tried[pair[0]] = "it was silent"
            self._open(self.endpoints.known[1], Phase.ASKING, now, out)
        else:
            self._open(pair[-1] if is_lost else pair[0], Phase.CONNECTING, now, out)

    def _pair(self) -> list[str]:
        """The preferred broker, and its partner if it has one."""
        preferred = self.endpoints.preferred
        return [preferred, *self.endpoints.partners_of(preferred)]

    def _open(self, endpoint: str, phase: Phase, now: float, out: Effects) -> None:
        if self.phase is not Phase.OVER:
            self.endpoint = endpoint
            self._is_shut = self._is_used = False
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
            if self._retry_at_s < math.inf:  # a standby wants to be asked again: the other is not waited for so long
                self._until_s = min(self._until_s, max(self._retry_at_s, now + RETRY_S))
        if phase is Phase.CONNECTING:
            self._resend_at_s = now + RESEND_S
            out.append(Transmit(self._connect_message(now)))
        else:
            self._resend_at_s = math.inf
            out.append(Transmit(self._need_broker_message()))

    def _connect_message(self, now: float) -> Connect:
        settings, user = self.settings, self._user
        self._serial += 1
        return Connect(
            identity=settings.identity,
            nonce=settings.nonce,
            services=user.link_services(),
            config_type=settings.config_type,
            config_version=self.held.version,
            in_flight=user.link_in_flight(),
            covers_ms=0 if self._is_used else user.link_covers_ms(now),  # it may read a TASK after this
            home="" if self.endpoints.identity_of(self.endpoint) == self.home else fit_identity(self.home),
            process=settings.process,
            epochs={pair: epoch for pair, epoch in self.epochs.items() if pair},
            serial=self._serial,
            bundles=True,
        )

    def _need_broker_message(self) -> NeedBroker:
        tried = list(self.endpoints.tried) if self.phase is not Phase.UP else [self.endpoint]
        return NeedBroker(identity=self.settings.identity, services=self._user.link_services(), tried=tried)

    def _tick_attempt(self, now: float, out: Effects) -> None:
        if now >= self._until_s:
            self._next(self._why or f"no answer within {self.settings.connect_timeout_s:.3g} s", now, out)
        elif now >= self._resend_at_s:
            if self._is_shut:  # it may be allowed by now
                self._is_shut = False
                out.append(Open(self.endpoint, self.endpoints.public_key(self.endpoint)))
            self._speak(self.phase, now, out)

    def _attempt_failed(self, why: str, now: float, out: Effects) -> None:
        """On to the next broker. If there is only this one, its time is waited for: it may come up meanwhile."""
        if self.phase is Phase.UP:
            self.lose(why, now, out)
        elif self._try_other_key(now, out):
            return
        elif len(self.endpoints.known) > 1:
            self._next(why, now, out)
        else:
            self._why = why
            self._is_shut = why.startswith(KEY_REFUSED)

    def _try_other_key(self, now: float, out: Effects) -> bool:
        """A broker whose key is being rotated has two for a while: a handshake that fails is tried with the other."""
        if self.endpoint in self._keys_tried or not self.endpoints.flip_key(self.endpoint):
            return False
        self._keys_tried.add(self.endpoint)
        self._open(self.endpoint, self.phase, now, out)
        return True

    # --- and the next ---------------------------------------------------------------------------------------------

    def _next(self, why: str, now: float, out: Effects) -> None:
        """This broker is of no use in this round: ask the next one, or end the round."""
        self._leave(now, out)
        self.endpoints.tried[self.endpoint] = why
        other = next((one for one in self._pair() if one not in self.endpoints.tried), None)
        if other is not None:
            self._open(other, Phase.CONNECTING, now, out)
            return
        if self._retry_at_s < math.inf and self._patient_until_s is not None and now < self._patient_until_s:
            self._wait_for_standby(now)
            return
        endpoint = self.endpoints.next_untried()
        waited_s = now - self._started_s
        left_s = self.settings.connect_timeout_s - waited_s
        if endpoint is not None:
            self._open(endpoint, Phase.ASKING, now, out)
        elif self._has_been_up or self.settings.retry_forever:
            self._pause(now)
            self._user.link_in_vain(now, out)
        elif left_s > ROUNDING_S:
            self._pause(now, at_most_s=left_s)
        else:
            self._end(Unreachable(dict(self.endpoints.tried), waited_s), now, out)

    def _stand_by(self, retry_s: float, why: str, now: float, out: Effects) -> None:
        """A standby does not serve yet, and says when to ask again; meanwhile the other one of the pair is tried."""
        self._retry_at_s = now + retry_s
        if self._patient_until_s is None:
            self._patient_until_s = now + PATIENCE * retry_s
        self._next(why, now, out)

    def _wait_for_standby(self, now: float) -> None:
        self.phase = Phase.PAUSED
        self._is_lost = True  # the standby first
        # It has named the latest time: it serves sooner if the other comes back without its state.
        self._until_s = max(min(self._retry_at_s, now + self.heartbeat.interval_s), now + RETRY_S)

    def _go(self, target: ChangeBroker, now: float, out: Effects) -> None:
        """Redirected: the answer becomes the preferred broker."""
        self._leave(now, out)
        self._hops += 1
        if self._hops > HOPS_MAX:
            self._next(f"more than {HOPS_MAX} redirects in a row", now, out)
            return
        endpoints = target.endpoints
        self.endpoints.learn(endpoints, target.public_key, target.identity)
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
            self.lose(f"{message.code} {message.text}", now, out, is_gone=False)
        elif message.code == Code.IDENTITY_IN_USE and left_s > ROUNDING_S:
            # A predecessor that was killed counts as alive for one more interval: its successor waits that long.
            self._pause(now, at_most_s=left_s)
        else:
            self._end(SessionRefused(self.endpoint, message.code, message.text), now, out)

    def _leave(self, now: float, out: Effects) -> None:
        """If the link was up, it no longer is, and a new round begins: where we were to move to, if anywhere."""
        if self.phase is Phase.UP:
            self.phase = Phase.PAUSED
            self._sought_until_s = math.inf
            self.held.leave()
            self.endpoints.tried.clear()
            target, self._target = self._target, None
            if target is not None and target.endpoints:
                self.endpoints.learn(target.endpoints, target.public_key, target.identity)
                self.endpoints.prefer(target.endpoints[0])
                if target.reason.startswith(_HOMING):
                    self.home = target.identity
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
