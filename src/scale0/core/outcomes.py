"""Settled outcomes, kept to answer resends; and dead letters, kept for people.

Rule 8: an outcome is kept until its client says, by `oldest_unanswered` or by `behind`, that it has it. When the caps
are reached the oldest is forgotten, and a resend of it is answered by 502, outcome unknown: never by running it again.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

import msgspec

from scale0.core.sessions import Session
from scale0.core.settings import Limits
from scale0.protocol.limits import INLINE_BYTES_MAX
from scale0.protocol.messages import Error, Task, TaskReply

SMALL_BYTES = 1024  # smaller outcomes are limited by their number alone


class Outcomes:
    """Outcomes of all clients; each stands in its session's `kept`, and large ones are weighed in `heavy` too."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.count = 0
        self.bytes = 0  # of the large ones
        self.evictions = 0  # how often the caps were reached

    def keep(self, session: Session, sequence: int, outcome: TaskReply | Error, size: int = 0) -> None:
        if sequence < session.floor:  # its client has said that it will not ask
            return
        session.kept[sequence] = outcome
        self.count += 1
        if size > SMALL_BYTES:
            # A body that came inside its header frame is held twice: by itself, and in what is passed on.
            weight = 2 * size if size <= INLINE_BYTES_MAX else size
            session.heavy[sequence] = weight
            self.bytes += weight
        if self.count > self.limits.outcomes or self.bytes > self.limits.outcomes_bytes:
            self._evict(session)

    def forget_below(self, session: Session, oldest: int) -> None:
        """The client has every outcome below `oldest`."""
        kept = session.kept
        floor = session.floor
        session.floor = oldest
        # A client may skip far ahead: then what is kept is the shorter list to look through.
        known = range(floor, oldest) if oldest - floor <= len(kept) else sorted(kept)
        before = len(kept)
        for sequence in known:
            if sequence < oldest:
                kept.pop(sequence, None)
        self.count -= before - len(kept)
        if session.heavy:
            self._lighten(session)

    def forget_all(self, session: Session) -> None:
        self._drop(session, len(session.kept))

    def clear(self) -> None:
        """The sessions that kept them are gone."""
        self.count = self.bytes = self.evictions = 0

    def _evict(self, session: Session) -> None:
        """Whoever brings the caps to overflow loses its oldest; an eighth at once, so that it costs little each."""
        self.evictions += 1
        while session.kept and (self.count > self.limits.outcomes or self.bytes > self.limits.outcomes_bytes):
            self._drop(session, len(session.kept) // 8 + 1)

    def _drop(self, session: Session, count: int) -> None:
        for sequence in list(islice(session.kept, count)):
            del session.kept[sequence]
            self.count -= 1
        self._lighten(session)

    def _lighten(self, session: Session) -> None:
        """What is no longer kept weighs nothing."""
        for sequence in [sequence for sequence in session.heavy if sequence not in session.kept]:
            self.bytes -= session.heavy.pop(sequence)


class DeadLetter(msgspec.Struct, eq=False):
    """A task that failed its last attempt."""

    task: Task
    client: str
    code: int
    text: str
    attempts: int
    died_us: int
    size: int
    retries: int = 0  # by people, since then


class DeadLetters:
    """The newest dead letters, within their caps."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.letters: deque[DeadLetter] = deque()
        self.bytes = 0
        self.total = 0

    def add(self, letter: DeadLetter) -> None:
        self.letters.append(letter)
        self.bytes += letter.size
        self.total += 1
        while len(self.letters) > self.limits.dead_letters or self.bytes > self.limits.dead_letter_bytes:
            self.bytes -= self.letters.popleft().size

    def remove(self, letter: DeadLetter) -> None:
        """One that was tried again with success, if it is still here."""
        if letter in self.letters:
            self.letters.remove(letter)
            self.bytes -= letter.size

    def clear(self) -> int:
        cleared = len(self.letters)
        self.letters.clear()
        self.bytes = 0
        return cleared
