"""The shape of a network: which brokers there are, in which groups, and how each is started.

*By document*: every broker is given the same one, which lists all of them. *By joining*: the first is started with a
document of its own, the others with nothing but addresses, and come into the document by themselves. A broker that is
*late* is not there at the beginning: a fault starts it, and it joins.
"""

from __future__ import annotations

from random import Random
from typing import Any, Literal

import msgspec

from scale0.core.settings import BrokerSettings
from scale0.protocol.network import ALL, BrokerEntry, Document, GroupEntry, PeerEntry, ServiceEntry

Table = Literal["push", "pull", "off"]
TABLES: tuple[Table, ...] = ("push", "push", "pull", "off")
Failback = Literal["manual", "automatic"]
FAILBACKS: tuple[Failback, ...] = ("manual", "automatic")


class BrokerShape(msgspec.Struct, frozen=True):
    """One broker."""

    number: int
    group: str = ""
    services: tuple[str, ...] = ()  # those that it manages; empty: all
    is_late: bool = False
    table: Table = "push"  # how it shares its heartbeat table with all others
    identity: str = ""  # if it is not to be called after its number
    fallback_broker: str = ""  # the name of its standby

    @property
    def name(self) -> str:
        return self.identity or f"broker{self.number}"

    @property
    def endpoint(self) -> str:
        return f"tcp://10.0.0.{self.number + 1}:5555"

    @property
    def publisher(self) -> str:
        return f"tcp://10.0.0.{self.number + 1}:5556"

    def entry(self, others: list[BrokerShape]) -> BrokerEntry:
        peers = [PeerEntry(identity=other.name, table=self.table) for other in others if other.name != self.name]
        return BrokerEntry(
            identity=self.name,
            group=self.group,
            services=list(self.services) or ALL,
            endpoints=[self.endpoint],
            config_pub=self.publisher,
            peers=peers if self.table != "push" else [],
            fallback_broker=self.fallback_broker,
        )


class Shape(msgspec.Struct, frozen=True):
    """One network."""

    brokers: tuple[BrokerShape, ...]
    joins: bool = True  # all but the first come by joining; else every one is listed in one document
    fallback: dict[str, str] = {}  # group → its fallback group
    config_brokers: tuple[str, ...] = ()
    join: Literal["open", "listed"] = "open"
    failback: Failback = "manual"
    failback_after_s: float = 2.0
    fallback_after_s: float = 0.5
    takeover_timeout_s: float | None = None  # None: three intervals
    given: Document | None = None  # what the operator has written; else it is made from the rest

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(broker.group for broker in self.brokers))

    @property
    def halves(self) -> list[tuple[str, ...]]:
        """The sets of services that some brokers manage, if not all manage all."""
        return [half for half in dict.fromkeys(broker.services for broker in self.brokers) if half]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each primary and its fallback, from the start."""
        return [(broker.name, broker.fallback_broker) for broker in self.brokers if broker.fallback_broker]

    @property
    def listed(self) -> list[BrokerShape]:
        """Those that are in the document from the start: all that are not late, or the first with its fallback."""
        early = [broker for broker in self.brokers if not broker.is_late]
        first = early[0]
        return [one for one in early if one.name in (first.name, first.fallback_broker)] if self.joins else early

    def document(self, settings: BrokerSettings, shared: dict[str, Any]) -> Document:
        """What the operator writes: all brokers that are there from the start, or the first alone."""
        if self.given is not None:
            return self.given
        listed = self.listed
        return Document(
            network="simulated",
            config_brokers=[name for name in self.config_brokers if name in {broker.name for broker in listed}],
            join=self.join,
            groups=[GroupEntry(name=group, fallback_groups=self._fallback(group)) for group in self.groups if group],
            brokers=[broker.entry(listed) for broker in listed],
            service=[
                ServiceEntry(
                    name=name, idempotent=told.idempotent, max_attempts=told.max_attempts, timeout_s=told.timeout_s
                )
                for name, told in settings.service.items()
            ],
            failback=self.failback,
            failback_after_s=self.failback_after_s,
            fallback_after_s=self.fallback_after_s,
            takeover_timeout_s=self.takeover_timeout_s,
            **shared,
        )

    def _fallback(self, group: str) -> list[str]:
        return [self.fallback[group]] if group in self.fallback else []


def one_group(random: Random, brokers: int, late: int) -> Shape:
    """Brokers that stand in for one another, and manage everything."""
    joins = random.random() < 0.6
    table = "push" if joins or late else random.choice(TABLES)
    members = [BrokerShape(number, "eu", table=table, is_late=number >= brokers) for number in range(brokers + late)]
    return _settled(random, members, joins)


def two_groups(random: Random, brokers: int, late: int) -> Shape:
    """The first group falls back on the second; sometimes also the other way round."""
    members = [BrokerShape(number, "eu" if number % 2 == 0 else "us") for number in range(brokers)]
    members += [BrokerShape(brokers + number, "eu", is_late=True) for number in range(late)]
    fallback = {"eu": "us", "us": "eu"} if random.random() < 0.4 else {"eu": "us"}
    return _settled(random, members, random.random() < 0.4, fallback)


def two_halves(random: Random, brokers: int, late: int, services: list[str]) -> Shape:
    """One group, in which some brokers manage only some services."""
    middle = len(services) // 2
    halves = (tuple(services[:middle]), tuple(services[middle:]), ())
    members = [BrokerShape(number, "eu", halves[number % 3], number >= brokers) for number in range(brokers + late)]
    return _settled(random, members, random.random() < 0.4)


def _settled(random: Random, members: list[BrokerShape], joins: bool, fallback: dict[str, str] | None = None) -> Shape:
    early = [member.name for member in members if not member.is_late]
    is_open = joins or random.random() < 0.5
    return Shape(
        brokers=tuple(members),
        joins=joins,
        fallback=fallback or {},
        config_brokers=tuple(random.sample(early, random.randint(1, len(early)))) if random.random() < 0.4 else (),
        join="open" if is_open else "listed",
        failback=random.choice(FAILBACKS),
        failback_after_s=random.choice((0.5, 2.0)),
        fallback_after_s=random.choice((0.1, 0.5, 1.0)),
    )
