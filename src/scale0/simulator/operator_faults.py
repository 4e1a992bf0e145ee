"""An operator at work: he sends workers away, cancels tasks, sends some of his own, and tries dead letters again.

Only some worlds have one, so that the seeds of all others make the worlds that they always made. What he does is no
fault, but nothing else may go wrong by it: tasks of the broker itself are in its books, clients hear 499 once, and a
worker that was sent away comes back with what it holds.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from scale0.protocol.ids import show_id
from scale0.simulator.host import BrokerHost

if TYPE_CHECKING:
    from scale0.simulator.world import World

OPERATOR = {
    "operator kicks a worker": 2,
    "operator cancels a task": 2,
    "operator sends a test task": 4,
    "operator tries a dead letter": 2,
    "operator looks at pieces": 1,
}
"""What he does, and how often; a method of `OperatorFaults` has its name."""
EVERY, PLACE = 12, 3  # of so many seeds, the one that leaves so much


class OperatorFaults:
    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self._random = random
        self._sent = 0

    def chosen(self) -> dict[str, int]:
        """What he does in this world, if it has an operator: by its seed, or because he was asked for."""
        wanted = self.world.profile.faults
        if wanted is not None:
            return {kind: weight for kind, weight in OPERATOR.items() if kind in wanted}
        is_one = self.world.seed % EVERY == PLACE and self.world.profile.kind == "rough"
        return OPERATOR if is_one else {}

    def operator_kicks_a_worker(self) -> None:
        for host in self._any():
            sessions = host.broker.state.sessions.by_identity.values()
            names = [session.identity for session in sessions if session.worker is not None]
            if names:
                host.manage("kick_worker", {"worker": self._random.choice(names), "reason": "to see what happens"})

    def operator_cancels_a_task(self) -> None:
        for host in self._any():
            ids = list(host.broker.state.ledger.entries)
            if ids:
                host.manage("cancel_task", {"task": show_id(self._random.choice(ids))})

    def operator_sends_a_test_task(self) -> None:
        for host in self._any():
            self._sent += 1
            service = self._random.choice(self.world.profile.services).name
            timeout_s = self._random.choice((0.1, 1.0, self.world.profile.timeout_max_s))
            body = f'"test {self._sent}"'  # by which its runs are told apart from those of any other
            host.manage("test_task", {"service": service, "body": body, "timeout_s": timeout_s})

    def operator_tries_a_dead_letter(self) -> None:
        """Of what may run again; of the rest the checks would say, rightly, that it ran twice."""
        for host in self._any():
            letters = host.broker.state.dead_letters.letters
            ids = [show_id(one.task.id) for one in letters if self.world.profile.is_idempotent(one.task.service)]
            if ids:
                host.manage("retry_dead_letter", {"task": self._random.choice(ids)})

    def operator_looks_at_pieces(self) -> None:
        for host in self._any():
            host.manage("snapshot", {"parts": ["overview", "services", "workers", "clients", "tasks"]})

    def _any(self) -> list[BrokerHost]:
        running = [host for host in self.world.hosts if host.is_running]
        return [self._random.choice(running)] if running else []
