"""Which states lead to which: counted wherever something may have changed, so that the coverage table can say what a
run has exercised.

A verb of the core may pass through several states; what is counted is the change from before it to after it, which is
what others can see. A broker's mode, its links with peers and the states of its workers are looked at after its
effects were carried out, a participant's link after its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scale0.core.link_settings import Phase
from scale0.core.sessions import Session

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.world import World

DOWN, GONE = "down", "gone"
UNLINKED, DIALING, LINKED = "unlinked", "dialing", "linked"


class Transitions:
    """What was seen last of one run of one broker."""

    def __init__(self, world: World, host: BrokerHost) -> None:
        self.world = world
        self.host = host
        self._mode = DOWN
        self._links: dict[str, str] = {}
        self._workers: dict[Session, str] = {}

    def look(self) -> None:
        """After a verb."""
        state = self.host.broker.state
        if state.mode != self._mode:
            self.world.count("broker mode", f"{self._mode} → {state.mode}")
            self._mode = state.mode
        links = self._links
        for identity, peer in state.network.peers.items():
            before = links.get(identity, UNLINKED)
            if peer.is_linked:
                if before is LINKED:
                    continue
                now = LINKED
            else:
                now = UNLINKED if peer.dialing.route is None else DIALING
            if now is not before:
                self.world.count("peer link", f"{before} → {now}")
                links[identity] = now
        if len(self._workers) > state.sessions.workers:
            self._look_for_the_gone()

    def look_at(self, session: Session | None) -> None:
        """After a message from this worker, or to it."""
        if session is None or session.worker is None:
            return
        now, before = session.worker.state, self._workers.get(session, "new")
        if now != before:
            self.world.count("worker state", f"{before} → {now}")
            self._workers[session] = now

    def _look_for_the_gone(self) -> None:
        known = self.host.broker.state.sessions.by_identity
        for session in [session for session in self._workers if known.get(session.identity) is not session]:
            self.world.count("worker state", f"{self._workers.pop(session)} → {GONE}")


def phase_changed(world: World, before: Phase, now: Phase) -> None:
    """A participant's link."""
    world.count("participant's link", f"{before.value} → {now.value}")
