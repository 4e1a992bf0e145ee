"""One cell: the recorded tasks of a service, through the broker's own rules, with so many workers, in virtual time.

The broker is the real one. Its workers and clients are real sessions; a task is accepted by `admission.submit` and
answered by `routing.reply`, so that queues, priorities, turns among clients, slots, limits and deadlines are those of
the product. Left out is what cannot change the answer and would cost as much again: bytes, sockets, heartbeats. Nobody
is lost, so nothing is repeated; bodies weigh nothing.

There are two short cuts. If workers are equal, what comes while there is room cannot wait: such times are passed over
(`scale0_pipeline.whatif.calm`), and the figures are the same. And a cell that has failed `HOPELESS` of all tasks is
known to be too small: it ends there, and its figures say "at least".
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scale0.core import admission, routing
from scale0.core.broker import Broker
from scale0.core.effects import Effect, Route, Send
from scale0.core.ledger import DEADLINE_RESOLUTION_S
from scale0.core.sessions import Session
from scale0.core.settings import BrokerSettings
from scale0.core.workers import Worker
from scale0.protocol.dialects import CLIENT, WORKER
from scale0.protocol.ids import make_id, sequence_of
from scale0.protocol.messages import Connect, Ready, ServiceOffer, Task, TaskId, TaskReply
from scale0_pipeline.whatif import policies, speeds
from scale0_pipeline.whatif.calm import SHORT, Calm
from scale0_pipeline.whatif.cells import DEFAULT_TIMEOUT_S, Cell
from scale0_pipeline.whatif.recorded import Recorded

HOPELESS: Final = 0.05
_NONCE: Final = bytes(8)
_BODY: Final = (b"",)
_NEVER: Final = -1.0


def replay(
    recorded: Recorded, workers: int, slots: int = 1, policy: str = "lru", timeout_s: float = DEFAULT_TIMEOUT_S
) -> Cell:
    """The cell of so many workers with so many slots each."""
    is_equal = len(recorded.about.speeds) == 1
    may_skip = is_equal and recorded.work_s.max(initial=0.0) < timeout_s
    if may_skip and recorded.about.peak <= workers * slots:
        return _never_waiting(recorded, workers, slots)
    run = _Replay(
        recorded, workers, slots, policy, timeout_s, calm=Calm(recorded, workers * slots) if may_skip else None
    )
    was_enabled = gc.isenabled()
    gc.disable()  # nothing here is cyclic, and looking for it would take a tenth of the time
    try:
        run.through()
    finally:
        if was_enabled:
            gc.enable()
    return run.cell()


class _Replay:
    """The world of one cell: the broker, and when its workers will be done."""

    def __init__(
        self, recorded: Recorded, workers: int, slots: int, policy: str, timeout_s: float, calm: Calm | None = None
    ) -> None:
        self.recorded, self.workers, self.slots, self.timeout_s = recorded, workers, slots, timeout_s
        self.calm = calm
        self.broker = Broker(BrokerSettings(default_timeout_s=timeout_s), now=0.0, wall_s=0.0)
        self.state = self.broker.state
        slow = speeds.draw(np.array(recorded.about.speeds), workers)
        self.crew = {route: (session, slow[n]) for n, (route, session) in enumerate(map(self._worker, range(workers)))}
        self.clients = [self._client(n) for n in range(int(recorded.client.max(initial=0)) + 1)]
        staff: list[Worker] = [session.worker for session, _ in self.crew.values() if session.worker is not None]
        self.choose = policies.named(policy, staff)
        self.work_s: list[float] = recorded.work_s.tolist()
        self.came_s: list[float] = recorded.came_s.tolist()
        self.client: list[int] = recorded.client.tolist()
        self.priority: list[int] = recorded.priority.tolist()
        count = len(self.work_s)
        self.sent_s = [_NEVER] * count
        self.ended_s = [_NEVER] * count
        self.under_way: list[tuple[float, int, Session, int, TaskId]] = []  # when done, which, at whom, attempt, id
        self.behind = 0  # under way, after they have waited
        self.late = 0
        self.busy_s = 0.0
        self.failed_max = int(count * HOPELESS) + 100
        self.is_cut = False
        self.look_s = 0.0  # when deadlines are looked at next
        self.now = 0.0

    def _worker(self, n: int) -> tuple[Route, Session]:
        route, offers = Route(f"w{n}".encode()), [ServiceOffer(self.recorded.about.service)]
        connect = Connect(identity=f"w{n}", nonce=_NONCE, services=[self.recorded.about.service])
        self.broker.receive(route, WORKER, connect, 0.0)
        self.broker.receive(route, WORKER, Ready(services=offers, capacity=self.slots), 0.0)
        return route, self.state.sessions.by_route[route]

    def _client(self, n: int) -> Session:
        route = Route(f"c{n}".encode())
        self.broker.receive(route, CLIENT, Connect(identity=f"c{n}", nonce=_NONCE), 0.0)
        session = self.state.sessions.by_route[route]
        session.floor = 1 << 62  # it has every outcome at once: none is kept for it
        return session

    def through(self) -> None:
        """All tasks, in the order in which they came; then until all is settled."""
        place = 0
        while place < len(self.came_s) and not self.is_cut:
            place = self._stretch(self._pass_over(place))
        self._drain()

    def _pass_over(self, place: int) -> int:
        """From a calm moment to the first task that will wait: whoever has gone by then is not replayed."""
        if self.calm is None:
            return place
        until = self.calm.until(place)
        there = self.calm.under_way(place, until).tolist()
        self.sent_s[place:until] = self.came_s[place:until]
        self.ended_s[place:until] = self.calm.ends_s[place:until].tolist()
        self.busy_s += sum(self.work_s[place:until])
        for sequence in there:  # these are, and begin as they did
            self.busy_s -= self.work_s[sequence]
            self.ended_s[sequence] = _NEVER
        self._offer(there)
        return until

    def _stretch(self, place: int) -> int:
        """Tasks from this one on, until it is calm for a while; which one is the next then."""
        queue, calm = self.state.services.by_name[self.recorded.about.service].queue, self.calm
        count = len(self.came_s)
        while place < count and not self.is_cut:
            until = count if calm is None else min(count, place + SHORT)
            self._offer(range(place, until))
            place = until
            if calm is not None and not self.behind and not queue.count and calm.until(place) > place + SHORT:
                break
        return place

    def _offer(self, sequences: Iterable[int]) -> None:
        """These tasks come, each at its time."""
        state, clients, choose, under_way = self.state, self.clients, self.choose, self.under_way
        came_s, who, priority = self.came_s, self.client, self.priority
        service, submit = self.recorded.about.service, admission.submit
        lru = state.services.by_name[service].lru
        timeout_ms = round(self.timeout_s * 1000)
        for sequence in sequences:
            now = came_s[sequence]
            if now >= self.look_s:
                self.look_s = now + DEADLINE_RESOLUTION_S
                if self._expire(now):
                    return
            if under_way and under_way[0][0] <= now:
                self._answer_until(now)
            client = clients[who[sequence]]
            task = Task(make_id(client.prefix, sequence), service, _BODY, timeout_ms, 0, priority[sequence])
            if choose is not None and len(lru) > 1:
                choose(lru)
            state.now = now
            submit(state, client, task, sequence)
            self._carry(now)

    def _answer_until(self, until_s: float) -> None:
        """Workers that are done by then say so, in the order in which they are."""
        state, under_way, ended_s, reply = self.state, self.under_way, self.ended_s, routing.reply
        while under_way and under_way[0][0] <= until_s:
            now, sequence, worker, attempt, task_id = heappop(under_way)
            if ended_s[sequence] == _NEVER:  # else its deadline was first
                ended_s[sequence] = now
            if self.sent_s[sequence] > self.came_s[sequence]:
                self.behind -= 1
            state.now = now
            reply(state, worker, TaskReply(task_id, _BODY, attempt))
            self._carry(now)

    def _carry(self, now: float) -> None:
        """What the broker sends: a TASK is begun at once; what goes to clients has arrived."""
        effects: list[Effect] = self.state.effects
        self.state.effects = []
        for effect in effects:
            if type(effect) is Send and type(effect.message) is Task:
                task = effect.message
                sequence = sequence_of(task.id)
                self.sent_s[sequence] = now
                if now > self.came_s[sequence]:
                    self.behind += 1
                worker, slow = self.crew[effect.route]
                lasts_s = self.work_s[sequence] * slow
                self.busy_s += lasts_s
                heappush(self.under_way, (now + lasts_s, sequence, worker, task.attempt, task.id))

    def _expire(self, now: float) -> bool:
        """Deadlines that have passed; True if the cell is hopeless by now."""
        state = self.state
        due = state.ledger.overdue(now)
        if due:
            self._answer_until(now)
            state.now = now
            for entry in due:
                if state.ledger.entries.get(entry.id) is entry:
                    self.ended_s[entry.sequence] = now
                    self.late += 1
                    routing.expire(state, entry)
            self._carry(now)
        self.is_cut = self.late + state.counters["refused_429"] > self.failed_max
        self.now = now
        return self.is_cut

    def _drain(self) -> None:
        """No more tasks come; what is left is answered or falls due."""
        ledger = self.state.ledger
        while ledger.entries and not self.is_cut:
            next_s = min(ledger.next_s(), self.under_way[0][0] if self.under_way else np.inf)
            self._answer_until(next_s)
            self._expire(next_s)

    def cell(self) -> Cell:
        came_s = self.recorded.came_s
        sent_s, ended_s = np.array(self.sent_s), np.array(self.ended_s)
        is_settled = ended_s != _NEVER
        began_s = np.where(sent_s == _NEVER, ended_s, sent_s)  # one that was never sent waited to its end
        latency_us = (ended_s - came_s)[is_settled] * 1e6
        queue_us = (began_s - came_s)[is_settled] * 1e6
        span_s = self.now if self.is_cut else self.recorded.about.window_s
        busy_s = self.busy_s - sum(done_s - self.now for done_s, *_ in self.under_way)  # those that a cut left
        return Cell(
            workers=self.workers,
            tasks=int(is_settled.sum()),
            p50_us=_quantile(latency_us, 0.5),
            p99_us=_quantile(latency_us, 0.99),
            queue_p99_us=_quantile(queue_us, 0.99),
            waited=int((queue_us > 0).sum()),
            late=self.late,
            refused=self.state.counters["refused_429"],
            utilisation=min(1.0, busy_s / (self.workers * self.slots * span_s)) if span_s > 0 else 0.0,
            worker_seconds=self.workers * self.recorded.about.window_s,
            is_cut=self.is_cut,
        )


def _never_waiting(recorded: Recorded, workers: int, slots: int) -> Cell:
    """As many slots as there were ever tasks: each is dispatched when it comes, whatever the policy."""
    work_us = recorded.work_s * 1e6
    return Cell(
        workers=workers,
        tasks=len(work_us),
        p50_us=_quantile(work_us, 0.5),
        p99_us=_quantile(work_us, 0.99),
        queue_p99_us=0.0,
        waited=0,
        late=0,
        refused=0,
        utilisation=min(1.0, recorded.erlangs / (workers * slots)),
        worker_seconds=workers * recorded.about.window_s,
        is_replayed=False,
    )


def _quantile(values: NDArray[np.float64], share: float) -> float:
    """In whole µs, as they were recorded."""
    return float(round(np.quantile(values, share, method="inverted_cdf"))) if len(values) else 0.0
