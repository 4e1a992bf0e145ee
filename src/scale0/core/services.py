"""Services: who offers them, who waits for them, and whether their tasks may be repeated.

A service becomes known when a worker announces it, or by the config. It stays known when its last worker leaves: its
tasks then wait until their deadlines (rule 16). A name that nobody announced is kept only while tasks wait.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scale0.core.meters import Meter, Tally
from scale0.core.queues import Queue
from scale0.core.settings import BrokerSettings
from scale0.protocol import limits
from scale0.protocol.messages import PeerService, ServiceOffer

if TYPE_CHECKING:
    from scale0.core.workers import Worker

RESERVED = ("scale0.", "mmi.")
NEAR_NAMES_AMONG = 200


@dataclass(slots=True, eq=False, kw_only=True)
class Service:
    """One service."""

    name: str
    timeout_s: float
    queue: Queue
    meter: Meter
    lru: OrderedDict[Worker, None]
    workers: dict[Worker, ServiceOffer] = field(default_factory=dict)
    afar: dict[Worker, PeerService] = field(default_factory=dict)  # peers as workers, with their word
    afar_lru: OrderedDict[Worker, None] = field(default_factory=OrderedDict)  # those with room
    terms: Counter[tuple[bool, int]] = field(default_factory=Counter)  # what its workers declare: how many each
    has_terms: bool = False  # somebody has said whether its tasks may be repeated
    is_announced: bool = False
    idempotent: bool = False
    max_attempts: int = 1
    own_idempotent: bool = False  # by the config and our own workers alone: what peers are told
    own_max_attempts: int = 1
    name_no: int = 0  # of its name, in the journal
    room_s: float = -math.inf  # when its slots were last counted, for listings
    capacity: int = 0
    free: int = 0


class Services:
    """All services by name."""

    def __init__(self, settings: BrokerSettings, now: float) -> None:
        self._settings = settings
        self.by_name: dict[str, Service] = {}
        self.tally = Tally()
        for name in settings.service:
            self.add(name, now).is_announced = True

    def reconfigure(self, settings: BrokerSettings, now: float) -> None:
        """New settings: terms and timeouts of every service are settled again."""
        self._settings = settings
        for name in settings.service:
            if name not in self.by_name:
                self.add(name, now).is_announced = True
        for service in self.by_name.values():
            service.timeout_s = settings.timeout_s(service.name)
            self.settle_terms(service)

    def clear(self) -> None:
        """Forget who offers and who waits; names stay known where the config has them."""
        for service in self.by_name.values():
            service.workers.clear()
            service.lru.clear()
            service.afar.clear()
            service.afar_lru.clear()
            service.terms.clear()
            service.queue = Queue(self._settings.ageing_s)
            service.is_announced = service.name in self._settings.service
            service.has_terms = service.idempotent = service.own_idempotent = False
            self.settle_terms(service)
        for name in [name for name, service in self.by_name.items() if not service.is_announced]:
            del self.by_name[name]

    def get(self, name: str) -> Service | None:
        return self.by_name.get(name)

    def add(self, name: str, now: float) -> Service:
        service = self.by_name[name] = Service(
            name=name,
            timeout_s=self._settings.timeout_s(name),
            queue=Queue(self._settings.ageing_s),
            meter=Meter(now, self.tally),
            lru=OrderedDict(),
        )
        self.settle_terms(service)
        return service

    def has_room(self, more: int = 1, sparing: Container[str] = ()) -> bool:
        """Whether `more` names fit in; idle ones are forgotten for them, but for those in `sparing`."""
        while len(self.by_name) + more > self._settings.limits.services:
            if not self._forget_an_idle_one(sparing):
                return False
        return True

    def manages(self, name: str) -> bool:
        """Whether this broker is told to manage the service (rule 29): a list, or all."""
        return self._settings.services is None or name in self._settings.services

    def settle_terms(self, service: Service) -> None:
        """Whether its tasks may be repeated, and how often.

        Rule 15: declared in READY or in the config; the config wins; workers that disagree make it not idempotent.
        The last worker's word holds when all are gone, so that what it lost can be repeated.
        """
        terms = {*service.terms, *((word.idempotent, word.max_attempts) for word in service.afar.values())}
        if service.terms:
            service.own_idempotent = all(idempotent for idempotent, _ in service.terms)
            service.own_max_attempts = min(max_attempts for _, max_attempts in service.terms)
        if terms:
            service.has_terms = True
            service.idempotent = all(idempotent for idempotent, _ in terms)
            service.max_attempts = min(max_attempts for _, max_attempts in terms)
        told = self._settings.service.get(service.name)
        if told and told.idempotent is not None:
            service.has_terms = True
            service.idempotent = told.idempotent
            service.own_idempotent = told.idempotent
        if told and told.max_attempts is not None:
            service.max_attempts = service.own_max_attempts = told.max_attempts
        service.max_attempts = max(1, min(service.max_attempts, 100)) if service.idempotent else 1

    def hear_afar(self, service: Service, worker: Worker, word: PeerService) -> bool:
        """A peer has workers of this service. True: it is the first word on whether its tasks may be repeated."""
        had_terms, before = service.has_terms, service.afar.get(worker)
        service.is_announced = True
        service.afar[worker] = word
        if before is None or (before.idempotent, before.max_attempts) != (word.idempotent, word.max_attempts):
            self.settle_terms(service)
        return not had_terms

    def forget_afar(self, service: Service, worker: Worker) -> None:
        if service.afar.pop(worker, None) is not None:
            self.settle_terms(service)

    def forget_if_idle(self, service: Service) -> None:
        """A name that nobody announced goes when nobody waits for it any more."""
        if not service.is_announced and not service.queue.count:
            self.by_name.pop(service.name, None)

    def near(self, name: str) -> list[str]:
        """Known names that look like `name`, for "did you mean"."""
        candidates = [known for known in self.by_name if known[:1] == name[:1]][:NEAR_NAMES_AMONG]
        candidates += [known for known in self.by_name if known[:1] != name[:1]][: NEAR_NAMES_AMONG - len(candidates)]
        return get_close_matches(name, candidates, n=3)

    def _forget_an_idle_one(self, sparing: Container[str]) -> bool:
        """Forget a service that has neither workers nor tasks; the config's stay."""
        for name, service in self.by_name.items():
            is_idle = not service.workers and not service.afar and not service.queue.count
            if is_idle and name not in self._settings.service and name not in sparing:
                del self.by_name[name]
                return True
        return False


def why_unfit(name: str) -> str | None:
    """Why a worker may not offer this name; None if it may."""
    if not 0 < len(name.encode()) <= limits.SERVICE_BYTES_MAX:
        return f"a service name has 1 to {limits.SERVICE_BYTES_MAX} bytes"
    # Rule 34: `scale0.*` and `mmi.*` are reserved; the broker itself serves them.
    if name.startswith(RESERVED):
        return "names that begin with scale0. or mmi. are the broker's own"
    if not name.isprintable():
        return "a service name has printable characters only"
    return None
