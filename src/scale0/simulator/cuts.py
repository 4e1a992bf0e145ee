"""Cuts between two, in one direction or in both.

Nothing is lost at once, for TCP keeps trying: what was sent arrives when they can reach one another again, in order,
unless the connection has broken meanwhile. New connections need both directions.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scale0.simulator.network import Connection, Network

BREAK_SHARE = 0.5  # of the connections across a cut that break over it, during it or soon after


class Cuts:
    """All cuts of a network. Brokers and participants are known by their names."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.world = network.world
        self._random = network.world.random_for("cuts")
        self.until_s: dict[tuple[str, str], float] = {}  # by sender and receiver; empty if nobody was ever cut off
        self._over_s = 0.0  # when the last of them ends
        self._held: dict[Connection, None] = {}  # connections in which something waits

    def cut(self, sender: str, receiver: str, seconds: float, *, breaks: bool = True) -> None:
        """What `sender` says does not reach `receiver` for a while; connections may break over it."""
        self.until_s[sender, receiver] = until_s = self.world.schedule.now + seconds
        self._over_s = max(self._over_s, until_s)
        self.world.schedule.after(seconds, self._release)
        for connection in self.network.connections() if breaks else ():
            is_across = (sender, receiver) in (connection.ends(True), connection.ends(False))
            if is_across and self._random.random() < BREAK_SHARE:
                self.world.schedule.after(self._random.random() * seconds * 1.5, self._break, connection)

    def _break(self, connection: Connection) -> None:
        """It breaks over a cut; what was healed meanwhile does not."""
        if not self.world.is_healed:
            self.network.break_(connection)

    def part(self, one: str, other: str, seconds: float, *, breaks: bool = True) -> None:
        """Neither hears the other."""
        self.cut(one, other, seconds, breaks=breaks)
        self.cut(other, one, seconds, breaks=breaks)

    def end(self) -> None:
        """Everybody can reach everybody again."""
        self.until_s.clear()
        self._release()

    def is_cut(self, sender: str, receiver: str) -> bool:
        return self.until_s.get((sender, receiver), 0.0) > self.world.schedule.now

    def are_apart(self, one: str, other: str) -> bool:
        """A handshake needs both directions."""
        return self.is_cut(one, other) or self.is_cut(other, one)

    def holds(self, connection: Connection, is_up: bool, frames: list[bytes]) -> bool:
        """Whether a message that arrives now has to wait: for the end of a cut, or behind what waits already."""
        if not connection.held and self._over_s <= self.world.schedule.now:
            return False
        waits = bool(connection.held) and any(direction == is_up for direction, _ in connection.held)
        if waits or self.is_cut(*connection.ends(is_up)):
            connection.held.append((is_up, frames))
            self._held[connection] = None
            return True
        return False

    def _release(self) -> None:
        """What waits for a cut that is over arrives now."""
        for connection in list(self._held):
            waiting, connection.held = connection.held, deque()
            for is_up, frames in waiting:
                (self.network.arrive_up if is_up else self.network.arrive_down)(connection, frames)
            if not connection.held:
                self._held.pop(connection, None)
