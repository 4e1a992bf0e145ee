"""Any story of a small network: brokers die, links break, configs change; what was promised holds in the end."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scale0.errors import ProtocolError
from scale0.protocol.dialects import WORKER
from scale0.protocol.messages import Connect, Disconnect, Error, Ready, ServiceOffer, Status, Task, TaskId, TaskReply
from tests.core.mesh import WORKER_NONCE, Mesh, document_of, id_of

BROKERS = ("b1", "b2", "b3")
WORKERS = ("w1", "w2", "w3")
SERVICES = ("pure", "once")
CALM_S = 45.0  # longer than any deadline, and than a link takes to be found again

broker = st.sampled_from(BROKERS)
worker = st.sampled_from(WORKERS)
step = st.one_of(
    st.tuples(st.just("submit"), broker, st.sampled_from(SERVICES)),
    st.tuples(st.just("work"), worker, st.sampled_from(["reply", "reply", "fail", "return", "part"])),
    st.tuples(st.just("place"), worker, broker),
    st.tuples(st.just("leave"), worker),
    st.tuples(st.just("run"), st.sampled_from([0.05, 0.3, 3.0, 9.0])),
    st.tuples(st.sampled_from(["cut", "sever"]), broker, broker),
    st.tuples(st.just("heal")),
    st.tuples(st.sampled_from(["kill", "restart", "restart_unnoticed", "drain", "disable", "enable"]), broker),
    st.tuples(st.just("apply"), broker, st.integers(4, 9), st.booleans()),
)


class Story:
    """A network, its workers and what its clients were told."""

    def __init__(self, groups: tuple[str, ...] = ("", "", "")) -> None:
        self.mesh = Mesh()
        falls_back = [[other for other in dict.fromkeys(groups) if other != group] for group in groups]
        entries = [{"group": group, "fallback_groups": far} for group, far in zip(groups, falls_back, strict=True)]
        document = document_of(dict(zip(BROKERS, entries, strict=True)), fallback_after_s=0.5)
        self.nodes = {name: self.mesh.add(name, document=document) for name in BROKERS}
        self.places: dict[str, str] = {}  # worker → broker
        self.held: dict[str, list[Task]] = {name: [] for name in WORKERS}
        self.runs: Counter[TaskId] = Counter()  # of tasks of `once`
        self.sequences = dict.fromkeys(BROKERS, 0)
        self.accepted: dict[TaskId, tuple[str, int]] = {}  # id → broker and its life
        self.outcomes: Counter[TaskId] = Counter()
        for name, place in zip(WORKERS, BROKERS, strict=True):
            self.place(name, place)
        self.run(3.0)

    def tell(self, what: str, *how: Any) -> None:
        getattr(self, what)(*how)
        self.listen()
        self._end_stopped()

    # --- participants -----------------------------------------------------------------------------------------------

    def submit(self, place: str, service: str) -> None:
        node = self.nodes[place]
        if not node.is_up:
            return
        client = f"c-{place}"
        node.client(client)
        self.sequences[place] += 1
        task_id = id_of(client, self.sequences[place])
        node.submit(client, self.sequences[place], service, timeout_s=20.0)
        if task_id in node.state.ledger.entries:
            self.accepted[task_id] = (place, node.lives)

    def work(self, name: str, how: str) -> None:
        if self.places.get(name) is None or not self.held[name]:
            return
        task = self.held[name][0] if how == "part" else self.held[name].pop(0)
        message = TaskReply(task.id, (b"done",), task.attempt)
        if how == "part":
            message = TaskReply(task.id, (b"part",), task.attempt, final=False)
        elif how != "reply":
            message.status = Status.FAILED if how == "fail" else Status.RETURNED
            if how == "return":
                self.runs[task.id] -= 1
        self.nodes[self.places[name]].say(name, WORKER, message)

    def place(self, name: str, place: str) -> None:
        self.leave(name)
        if self.nodes[place].is_up and self.nodes[place].mode == "active":
            self.places[name] = place
            self.nodes[place].say(name, WORKER, Connect(identity=name, nonce=WORKER_NONCE, services=list(SERVICES)))
            offers = [ServiceOffer("pure", True, 10), ServiceOffer("once", False)]
            self.nodes[place].say(name, WORKER, Ready(services=offers, capacity=2))

    def leave(self, name: str) -> None:
        place = self.places.pop(name, None)
        if place is not None and self.nodes[place].is_up:
            self.nodes[place].say(name, WORKER, Disconnect())
        self.held[name] = []

    def listen(self) -> None:
        """What clients and workers got."""
        for node in self.nodes.values():
            for name in WORKERS:
                for task in node.heard(name, Task):
                    self.runs[task.id] += task.service == "once"
                    if self.places.get(name) == node.name:
                        self.held[name].append(task)
            for reply in node.heard(f"c-{node.name}", TaskReply):
                self.outcomes[reply.id] += reply.final
            for error in node.heard(f"c-{node.name}", Error):
                if error.id:
                    self.outcomes[TaskId(error.id)] += 1

    # --- brokers and links ------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.mesh.run(seconds)
        self._end_stopped()

    def _end_stopped(self) -> None:
        """A drained broker says goodbye, and its process ends."""
        for node in self.nodes.values():
            if node.is_up and node.is_stopped:
                node.do(node.broker.stop(self.mesh.now))
                self.mesh.settle()
                self.listen()
                self.kill(node.name)

    def cut(self, one: str, other: str) -> None:
        if one != other:
            self.mesh.cut(one, other)

    def sever(self, one: str, other: str) -> None:
        if one != other and self.nodes[one].is_up and self.nodes[other].is_up:
            self.mesh.sever(one, other)

    def heal(self) -> None:
        self.mesh.heal()

    def kill(self, place: str) -> None:
        if self.nodes[place].is_up:
            self._forget_workers(place)
            self.nodes[place].kill()

    def restart(self, place: str) -> None:
        self.kill(place)
        self.nodes[place].restart()

    def restart_unnoticed(self, place: str) -> None:
        if self.nodes[place].is_up:
            self._forget_workers(place)
            self.nodes[place].restart_unnoticed()

    def _forget_workers(self, place: str) -> None:
        for name in [name for name, home in self.places.items() if home == place]:
            del self.places[name]
            self.held[name] = []

    def drain(self, place: str) -> None:
        self._manage(place, "drain")

    def disable(self, place: str) -> None:
        self._manage(place, "disable")

    def enable(self, place: str) -> None:
        self._manage(place, "enable")

    def apply(self, place: str, liveness: int, is_forced: bool) -> None:
        document = f'{{"grace": {liveness}}}'
        self._manage(place, "config_apply", document=document, force=is_forced)

    def _manage(self, place: str, command: str, **arguments: Any) -> None:
        node = self.nodes[place]
        if node.is_up:
            with contextlib.suppress(ProtocolError):  # no sequencer, or it is disabled
                node.manage(command, **arguments)

    # --- the end ----------------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Whatever was broken is whole again, and everybody does what it should."""
        self.heal()
        for name, node in self.nodes.items():
            if not node.is_up:
                node.restart()
            self._manage(name, "enable")
        for _ in range(round(CALM_S)):
            self.run(1.0)
            for name, place in zip(WORKERS, BROKERS, strict=True):
                if self.places.get(name) is None or self._is_unknown(name):
                    self.place(name, place)
            self._answer_all()

    def _answer_all(self) -> None:
        self.listen()
        for name in WORKERS:
            while self.held[name]:
                self.tell("work", name, "reply")

    def _is_unknown(self, name: str) -> bool:
        return name not in self.nodes[self.places[name]].state.sessions.by_identity

    def check(self) -> None:
        lives = {name: node.lives for name, node in self.nodes.items()}
        for task_id, (place, life) in self.accepted.items():
            if lives[place] == life:  # whoever asked a broker that died asks another; nobody does so here
                assert self.outcomes[task_id] == 1, f"{self.outcomes[task_id]} outcomes of {task_id!r}"
        assert all(count <= 1 for count in self.runs.values()), f"ran twice: {self.runs}"
        assert len({node.version for node in self.nodes.values()}) == 1, "all have the same config"
        for one in BROKERS:
            assert self.nodes[one].mode == "active"
            assert self.nodes[one].state.ledger.entries == {}
            for other in BROKERS:
                if one != other:
                    assert self.mesh.links_between(one, other) == 1, f"{one} and {other} have one link"
                    assert self.nodes[one].peer(other).is_linked
        for node in self.nodes.values():
            for peer in node.state.network.peers.values():
                assert all(not worker.slots for worker in peer.workers.values()), "nothing is held for lost"
        self._check_service()

    def _check_service(self) -> None:
        """Each broker can have each service done."""
        for place in BROKERS:
            for service in SERVICES:
                self.tell("submit", place, service)
        for _ in range(10):
            self.run(0.3)
            self._answer_all()
        for task_id in [id_of(f"c-{p}", self.sequences[p] - n) for p in BROKERS for n in range(len(SERVICES))]:
            assert self.outcomes[task_id] == 1, f"{task_id!r} is not served"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(step, max_size=40), st.sampled_from([("", "", ""), ("eu", "eu", "us"), ("eu", "us", "ap")]))
def test_any_story_ends_well(steps: list[tuple[Any, ...]], groups: tuple[str, ...]) -> None:
    story = Story(groups)
    for what, *how in steps:
        story.tell(what, *how)
    story.calm_down()
    story.check()
