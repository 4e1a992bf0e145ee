"""A broker and its fallback broker as real processes: who serves, who follows, and waiting until it is so.

Both join one another as brokers of a group; then a change of the document makes one the fallback of the other. From
there on either may be killed, stopped or cut off. A pair is *whole* when one serves, the other follows it, and the copy
knows everybody who is there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.integration.mixed_load import MixedLoad
from tests.integration.networks import PATIENCE, BrokerNetwork, BrokerProcess, Keys, document, until

PRIMARY, FALLBACK = "a", "b"
INTERVAL_S = 0.2
# Nobody is missed because the machine is busy, and a copy is trusted for as long as a takeover may take there.
PATIENT: Final = {"liveness": PATIENCE, "takeover_timeout": 2.0}
CALM: Final = {**PATIENT, "takeover_timeout": 60.0}  # and nobody takes over by itself
CUT_S = 300.0  # a cut that only `heal` ends
GROUP = "eu"


class PairNetwork(BrokerNetwork):
    """A network whose brokers `PRIMARY` and `FALLBACK` are a pair."""

    def marry(self) -> None:
        """Make one the fallback of the other. From now on both know where the other is, also after a restart."""
        entries = [self._entry(broker) for broker in self.brokers.values()]
        self[PRIMARY].apply({**self.keys, "brokers": entries})
        for broker in self.brokers.values():
            broker.seeds = []
        self.await_whole()

    def _entry(self, broker: BrokerProcess) -> Keys:
        entry: Keys = {"identity": broker.identity, "group": GROUP, "endpoints": [broker.endpoint]}
        return {**entry, "fallback_broker": FALLBACK} if broker.identity == PRIMARY else entry

    @property
    def pair(self) -> list[BrokerProcess]:
        return [self[PRIMARY], self[FALLBACK]]

    @property
    def addresses(self) -> list[str]:
        """Of the pair, the primary's first."""
        return [broker.endpoint for broker in self.pair]

    def other(self, broker: BrokerProcess) -> BrokerProcess:
        return next(other for other in self.pair if other is not broker)

    def serving(self) -> BrokerProcess:
        """The one that serves, when it is known which."""
        found: list[BrokerProcess] = []

        def is_one() -> bool:
            found[:] = [broker for broker in self.pair if broker.is_running and broker.own()["state"] == "active"]
            return len(found) == 1

        until(is_one, "one of the pair serves")
        return found[0]

    def await_whole(self, *, at: BrokerProcess | None = None) -> BrokerProcess:
        """Until one serves, `at` if it is named, and the other follows. The one that serves."""
        missing = ["nobody was asked"]

        def is_whole() -> bool:
            missing[0] = "nobody answers"
            missing[0] = self._pair_missing(at)
            return not missing[0]

        try:
            until(is_whole, "the pair is whole")
        except AssertionError as error:
            said = {broker.identity: broker.said[-6:] for broker in self.pair}
            raise AssertionError(f"{error}: {missing[0]}; {said}") from None
        return self.serving()

    def _pair_missing(self, at: BrokerProcess | None) -> str:
        views = {broker: broker.sees() for broker in self.pair}
        rows = {broker: view[broker.identity] for broker, view in views.items()}
        states = {broker.identity: row["state"] for broker, row in rows.items()}
        if sorted(states.values()) != ["active", "passive"]:
            return f"they are {states}"
        active, passive = sorted(self.pair, key=lambda broker: str(rows[broker]["state"]))
        if at is not None and active is not at:
            return f"{active.identity} serves"
        links = [views[active][passive.identity]["link"], views[passive][active.identity]["link"]]
        if links != ["up", "up"]:
            return f"their links are {links}"
        if not is_followed(active):
            return f"{passive.identity} does not follow"
        here, copied = _known(active), _known(passive)
        return "" if here == copied else f"{active.identity} has {here}, the copy {copied}"

    def part(self) -> None:
        """Nothing passes between the two; everybody else reaches both."""
        for broker in self.pair:
            broker.manage("partition", peer=self.other(broker).identity, for_s=CUT_S, lost="both")

    def heal(self) -> None:
        for broker in self.pair:
            broker.manage("heal")


def _known(broker: BrokerProcess) -> tuple[int, int]:
    """How many workers and clients are here, or in the copy."""
    row = broker.rows("brokers")[0]
    return row["workers"], row["clients"]


def is_followed(broker: BrokerProcess) -> bool:
    """Whether a fallback has the copy of everything here, by what this broker itself says."""
    return bool(broker.own()["fallback"] == "in sync")


def epoch_of(broker: BrokerProcess) -> int:
    return int(broker.own()["epoch"])


def kept_epoch(broker: BrokerProcess) -> tuple[int, bool]:
    """What its state file says: the epoch, and whether it served."""
    kept = json.loads((broker.state_dir / "broker-state.json").read_text())
    return kept["epoch"], kept["is_serving"]


@contextlib.contextmanager
def pair(directory: Path, *more: str, **keys: Any) -> Iterator[PairNetwork]:
    """A pair, and `more` brokers of its group. `keys` are of the document."""
    made = PairNetwork(directory, document(**{"default_heartbeat_interval": INTERVAL_S, **PATIENT, **keys}))
    try:
        made.add(PRIMARY, FALLBACK, *more)
        made.await_complete()
        made.marry()
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def pair_under_load(directory: Path, **keys: Any) -> Iterator[tuple[PairNetwork, MixedLoad]]:
    """A pair that serves the workers and clients of a `MixedLoad`, all of which know both addresses."""
    with pair(directory, **keys) as brokers:
        load = MixedLoad(brokers.addresses)
        with load.workers(), load:
            load.await_replies()
            brokers.await_whole()
            yield brokers, load
