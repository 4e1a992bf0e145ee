"""A network under load: its brokers behind cables and on small disks, recorders, workers, clients, and their books.

It is *whole* when every broker runs, sees every other one, and has the same config; when every worker and every client
is at a broker; and when replies come. Each fault begins when it is whole, and is over when it is whole again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from scale0.errors import Scale0Error
from tests.chaos import children
from tests.chaos.books import Books
from tests.chaos.cables import Cable
from tests.chaos.children import Child
from tests.chaos.disks import Disk
from tests.chaos.recorders import Recorders
from tests.chaos.services import TIMEOUT_S
from tests.chaos.topologies import Topology
from tests.chaos.vitals import Vitals
from tests.integration.networks import BrokerNetwork, BrokerProcess

LIMIT_S = 40.0  # for anything to come true; only a network that does not recover reaches it
LOOK_S = 0.01  # between two looks
FINISH_S = TIMEOUT_S + 30.0  # for a client to get its last outcomes
_pause = threading.Event()  # never set


def look_until(is_so: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> float:
    """Look until it is so. A broker that does not answer is looked at again.

    Returns when the last look began that saw it otherwise: so long, at least, it was not so. However slow the looking
    is, it is not counted as slowness of what is looked at.
    """
    end_s = time.monotonic() + limit_s
    otherwise_s = 0.0
    while True:
        trouble, began_s = "", time.monotonic()
        try:
            if is_so():
                return otherwise_s or began_s
        except Scale0Error as error:
            trouble = f" ({error})"
        otherwise_s = began_s
        assert time.monotonic() < end_s, f"not within {limit_s:g} s: {what}{trouble}"
        _pause.wait(LOOK_S)


class Stage:
    """One topology, running. `start` it, and always `end` it."""

    def __init__(self, topology: Topology, directory: Path, interval_s: float) -> None:
        self.topology = topology
        self._interval_s = interval_s
        self.logs = directory
        self.books = Books()
        self.cables = {identity: Cable() for identity in topology.brokers}
        endpoints = {identity: cable.endpoint for identity, cable in self.cables.items()}
        self.network = BrokerNetwork(directory, topology.document(endpoints, interval_s))
        self.disks: dict[str, Disk] = {}
        self.recorders = Recorders(directory)
        self.workers: dict[str, Child] = {}
        self.clients: dict[str, Child] = {}
        self.vitals: dict[str, Vitals] = {}
        self._changes = 0
        self._is_finished = False

    # --- beginning and end --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Everybody, brokers first; it is whole when this returns."""
        for identity, cable in self.cables.items():
            self.disks[identity] = Disk(self.logs / f"{identity}-state")
            options = self.recorders.options(identity)
            (broker,) = self.network.add(identity, seeds=(), options=options, command=children.with_its_parent())
            cable.lead_to(broker.endpoint)
        for broker in self.brokers:
            broker.seeds = []
        for home, shares in self.topology.workers.items():
            for number, share in enumerate(shares):
                identity = f"worker-{home}-{number}"
                self.workers[identity] = children.worker(identity, share, self.logs, self._interval_s, self._from(home))
        for home, kinds in self.topology.clients.items():
            for kind in kinds:
                identity = f"client-{kind}"
                at = self._from(home)
                self.clients[identity] = children.client(
                    kind, identity, self.logs, self._interval_s, at, self.books.read
                )
        for child in (*self.workers.values(), *self.clients.values()):
            child.start()
        lasting = [broker for broker in self.topology.brokers if broker not in self.topology.mortal]
        lasting += self.clients
        self.vitals = {identity: Vitals(f"{self.topology.name} {identity}") for identity in lasting}
        self.await_whole()
        self.sample()

    def finish(self) -> None:
        """Submit no more, wait for every outcome, and see that nothing of any task is left."""
        self._is_finished = True
        for client in self.clients.values():
            client.say("finish")
        for client in self.clients.values():
            code = client.await_end(FINISH_S)
            assert code == 0, f"{client.identity} ended with {code}"
        self.books.await_all()
        look_until(lambda: not self._held(), "nothing is queued or in flight at any broker")
        self._count()
        for broker in self.brokers:
            code = broker.stop()
            assert code == 0, f"{broker.identity} ended with {code}"
        self.recorders.await_end()

    def end(self) -> None:
        """Nothing of it runs any more, whatever happened: what fails to end keeps nothing else from ending."""
        with contextlib.ExitStack() as ends:  # the last first: processes, then what they use, then the books
            ends.callback(lambda: self.books.close(children.runs(self.logs), is_finished=self._is_finished))
            ends.callback(self._write_logs)
            for disk in self.disks.values():
                ends.callback(disk.end)
            ends.callback(self.recorders.end)
            for cable in self.cables.values():
                ends.callback(cable.end)
            for broker in self.brokers:
                ends.callback(broker.end)
            for child in (*self.workers.values(), *self.clients.values()):
                ends.callback(child.end)

    def _write_logs(self) -> None:
        for broker in self.brokers:
            (self.logs / f"{broker.identity}.log").write_text("".join(f"{line}\n" for line in broker.said))

    # --- who is where -------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[BrokerProcess]:
        return list(self.network.brokers.values())

    def others(self, identity: str) -> list[BrokerProcess]:
        return [broker for broker in self.brokers if broker.identity != identity]

    def places(self, without: Collection[str] = ()) -> dict[str, str]:
        """Each worker and client that is at a broker, and which. Brokers that do not answer must be left out."""
        found: dict[str, str] = {}
        for broker in self.network.running:
            if broker.identity in without:
                continue
            rows = [row for row in broker.rows("workers") if row["state"] != "negotiating"] + broker.rows("clients")
            found |= {row["identity"]: broker.identity for row in rows if not row["is_absent"]}
        ours = self.workers.keys() | self.clients.keys()
        return {identity: place for identity, place in found.items() if identity in ours}

    def place_of(self, identity: str) -> BrokerProcess:
        """The broker where it is; it may be on its way to one, for somebody's home is there again."""
        found: dict[str, str] = {}

        def is_there() -> bool:
            found.update(self.places())
            return identity in found

        look_until(is_there, f"{identity} is at a broker")
        return self.network[found[identity]]

    def standing_by(self) -> list[str]:
        """The brokers that serve nobody, because they are fallbacks of one that does."""
        return [broker.identity for broker in self.brokers if broker.own()["state"] == "passive"]

    def await_moved(self, movers: Collection[str], away_from: str) -> float:
        """Until all of these are at other brokers; when that was not yet so."""

        def have_moved() -> bool:
            return set(movers) <= self.places(without=[away_from]).keys()

        return look_until(have_moved, f"{', '.join(movers)} are at other brokers than {away_from}")

    # --- whole --------------------------------------------------------------------------------------------------------

    def await_whole(self) -> float:
        """Until it is whole; when it was not yet, replies aside."""
        missing = ["nobody answers"]

        def is_whole() -> bool:
            missing[0] = "nobody answers"
            missing[0] = self._missing()
            return not missing[0]

        try:
            whole_s = look_until(is_whole, "the network is whole")
        except AssertionError as error:
            raise AssertionError(f"{error}: {missing[0]}") from None
        self.books.await_replies(self.clients)
        return whole_s

    def _missing(self) -> str:
        """What keeps it from being whole."""
        processes: list[Child | BrokerProcess] = [*self.workers.values(), *self.clients.values(), *self.brokers]
        for process in processes:
            assert process.is_running, f"{process.identity} ended by itself; its log says why"
        versions, states = set(), []
        for asked in self.brokers:
            seen = asked.sees()
            states.append(seen[asked.identity]["state"])
            for other in self.brokers:
                row = seen.get(other.identity)
                if row is None or row["state"] not in ("active", "passive") or row["link"] not in ("self", "up"):
                    return f"to {asked.identity}, {other.identity} is {row and (row['state'], row['link'])}"
                versions.add(row["config_version"])
        if len(versions) > 1:
            return f"config versions differ: {versions}"
        if states.count("passive") != len(self.topology.fallbacks):
            return f"the brokers are {', '.join(states)}"
        lost = (self.workers.keys() | self.clients.keys()) - self.places().keys()
        return f"{', '.join(sorted(lost))} are at no broker" if lost else ""

    def _held(self) -> int:
        rows = [broker.rows("brokers")[0] for broker in self.brokers]
        return sum(int(row["queued"]) + int(row["in_flight"]) for row in rows)

    def change_config(self, at: BrokerProcess) -> str:
        """Any change of the document, so that every broker has something to write; its version."""
        self._changes += 1
        return at.apply({**self.network.keys, "default_timeout": 60 + self._changes % 100})

    def mend_cables(self) -> None:
        for cable in self.cables.values():
            cable.mend()

    def sample(self) -> None:
        """Look at the memory and the open files of all that last, and at what each broker has counted."""
        self.recorders.follow()
        self._count()
        for identity, vitals in self.vitals.items():
            client = self.clients.get(identity)
            vitals.sample(client.pid if client else self.network[identity].process.pid)

    def _count(self) -> None:
        for broker in self.brokers:
            self.recorders.sample(broker, is_one_of_a_pair=self.topology.is_pair)

    def bugs(self) -> list[str]:
        """What brokers said that none should ever say."""
        return [
            f"{broker.identity}: {line['event']}"
            for broker in self.brokers
            for line in list(broker.said)
            if "exception" in line or "Traceback" in line["event"]
        ]

    def _from(self, home: str) -> list[str]:
        """The addresses of all brokers, that of `home` first."""
        others = [identity for identity in self.cables if identity != home]
        return [self.cables[identity].endpoint for identity in (home, *others)]
