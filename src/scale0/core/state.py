"""Everything that one broker knows, and the outbox for what it says.

The rule modules (`connections`, `routing`, `majordomo`, `turns`, `builtin`, `management`) are functions of this state;
none of them keeps any of its own. `now` is the time of the input that is being handled.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict

import msgspec

from scale0.core.config import ConfigKeeper
from scale0.core.effects import Alarm, Effect, Route, Send
from scale0.core.error_clients import ErrorClients
from scale0.core.hints import Held, Hints
from scale0.core.journal import Journal
from scale0.core.ledger import Ledger
from scale0.core.network import Network
from scale0.core.outcomes import DeadLetters, Outcomes
from scale0.core.own_tasks import BrokerTasks
from scale0.core.permissions import Access
from scale0.core.services import Services
from scale0.core.sessions import Session, Sessions
from scale0.core.settings import BrokerSettings, Limits
from scale0.core.snapshots import Snapshots
from scale0.core.star import Pair
from scale0.core.stream import Outgoing
from scale0.core.timers import Timetable
from scale0.core.vitals import Vitals
from scale0.core.workers import Worker
from scale0.protocol.codec import AnyMessage
from scale0.protocol.messages import Error
from scale0.protocol.network import ConfigRecord, Document

TURN_RESOLUTION_S = 0.05


class State:
    """One broker's tables."""

    def __init__(
        self,
        settings: BrokerSettings,
        now: float,
        wall_s: float,
        epoch: int,
        mode: str,
        *,
        nonce: bytes = bytes(8),
        was_serving: bool = False,
        records: list[ConfigRecord] | None = None,
        seeds: list[str] | None = None,
        seed_key: str = "",
        document: Document | None = None,
        boot: str = "",
    ) -> None:
        self.local = settings  # as its process was started
        self.settings = settings
        self.limits = settings.limits
        self.now = self.started_s = now
        self.woke_s = -math.inf  # when the copy of a partner became our state
        self.wall_offset_s = wall_s - now
        self.former_clocks_s: list[float] = []  # how far our clock was behind the one it is, before each of its jumps
        self.clocks = (0, 0)  # off, of measured
        self.clocks_counted_s = now - 1.0
        self.epoch = epoch
        self.was_serving = was_serving  # as the active one of its pair, when its last process ended
        self.mode = mode  # joining, active, holding, draining, disabling, disabled, passive
        self.mode_since_s = now
        self.is_stopped = False  # draining is over
        self.has_settled = False  # unknown services no longer wait
        self.config = ConfigKeeper(settings, epoch, self.wall_us(), records or [], document)
        self.network = Network(settings.identity, nonce, seeds or [], now, seed_key)
        self.visited = msgspec.msgpack.encode([settings.identity])  # before the options of a forwarded task
        self.sessions = Sessions()
        self.services = Services(settings, now)
        self.ledger = Ledger()
        self.outcomes = Outcomes(self.limits)
        self.dead_letters = DeadLetters(self.limits)
        self.access = Access(settings.public_key) if settings.public_key else None  # if it asks for keys
        keys = self.access.keys if self.access is not None else None
        self.error_clients = ErrorClients(self.limits.error_clients, keys)
        self.strangers: OrderedDict[Route, float] = OrderedDict()
        self.pair: Pair | None = None  # if it has a fallback broker, or is one
        self.questions = 0  # that were put to a partner so far
        self.stream: Outgoing | None = None  # while its fallback follows
        self.elsewhere: Worker | None = None  # a copy's tasks that are with nobody who is known here
        self.dispatches = 0  # that the copy has seen
        self.doubt_at_s = math.inf  # without a tick before, the other one of the pair may serve by then
        self.turns: Timetable[str, Session] = Timetable(TURN_RESOLUTION_S)
        self.majordomo_beats: Timetable[str, Session] = Timetable(TURN_RESOLUTION_S)
        self.majordomo_made = 0
        self.counters: Counter[str] = Counter()
        self.own = BrokerTasks(settings.identity, nonce, now)
        self.vitals = Vitals(now)
        self.snapshots = Snapshots()
        self.journal = Journal(boot) if boot else None  # if somebody records
        self.hints = Hints()
        self.damped: dict[str, Held] = {}  # workers that are asked last, by identity
        self.effects: list[Effect] = []

    def set_limits(self, limits: Limits) -> None:
        """Limits hold at once; what is over a lower one goes as it is used up."""
        self.limits = limits
        self.outcomes.limits = limits
        self.dead_letters.limits = limits
        self.error_clients.count_max = limits.error_clients

    # --- time -----------------------------------------------------------------------------------------------------

    def wall_us(self) -> int:
        """UTC in µs, for messages and listings; never for decisions."""
        return int((self.now + self.wall_offset_s) * 1e6)

    def allowed_silence_s(self, session: Session) -> float:
        """How long it may say nothing.

        Rule 17: silence for `liveness` intervals means gone. Majordomo's intervals are not negotiated, so its
        participants get twice that.
        """
        allowed_s = session.interval_s * self.settings.liveness
        return 2 * allowed_s if session.dialect.majordomo else allowed_s

    @property
    def is_settling(self) -> bool:
        """Soon after its start a broker does not know yet who is there (rule 4)."""
        return self.now < self.settled_at_s

    @property
    def settled_at_s(self) -> float:
        return self.started_s + self.settings.liveness * self.settings.default_heartbeat_interval_s

    # --- what it says ---------------------------------------------------------------------------------------------

    def post(self, route: Route, session: Session, message: AnyMessage) -> None:
        """Send to where the session is now."""
        self.effects.append(Send(route, session.dialect, message))

    def refuse(self, session: Session, code: int, text: str, **extra: object) -> None:
        """Answer with ERROR, whatever was asked."""
        self.counters[f"refused_{int(code)}"] += 1
        session.turn = None
        error = Error(code=int(code), text=text, **extra)  # type: ignore[arg-type]
        self.effects.append(Send(session.route, session.dialect, error))

    def alarm(self, name: str, text: str) -> None:
        self.counters[f"alarm_{name}"] += 1
        if self.journal is not None:
            self.journal.note(self.now, "alarm", name, "", None, {"text": text})
        self.effects.append(Alarm(name, text))

    def take_effects(self) -> list[Effect]:
        effects = self.effects
        self.effects = []
        return effects
