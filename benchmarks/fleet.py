"""Many worker sessions in one process, over real sockets, to see how they come back when their broker does.

Usage: fleet.py PAGE ENDPOINT COUNT NUMBER INTERVAL_MS

These are the sessions of the worker library itself, with its reconnects, its backoff and its jitter; only the handlers
are missing. The page says how many have a broker now, and how many CONNECTs they have sent in all.
"""

from __future__ import annotations

import contextlib
import random
import select
import sys
import time
from pathlib import Path

from measure import COMPLETED, READY, RENEWED, STOP, Page
from scale0.core.link import LinkSettings
from scale0.core.participant import Note, Open, ParticipantEffect, Run, Transmit
from scale0.core.participant import Ready as Taken
from scale0.core.worker_session import WorkerSession
from scale0.errors import ProtocolError
from scale0.protocol import codec, dialects
from scale0.protocol.messages import Connect, ServiceOffer
from scale0.transport.dealer import Dealer


class Member:
    """One session, its socket, and whether a broker has taken its READY on this connection."""

    def __init__(self, fleet: Fleet, identity: str, interval_s: float) -> None:
        self.fleet = fleet
        self.is_ready = False
        self.dealer = Dealer()
        source = random.Random(identity)
        settings = LinkSettings(
            endpoints=[fleet.endpoint],
            identity=identity,
            nonce=source.randbytes(8),
            services=["echo"],
            heartbeat_interval_s=interval_s,
            retry_forever=True,
        )
        self.session = WorkerSession(settings, source, capacity=1, offers=[ServiceOffer("echo")])
        self.carry_out(self.session.start(time.monotonic(), time.time()))
        self.read()

    def carry_out(self, effects: list[ParticipantEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                if isinstance(effect.message, Connect):
                    self.fleet.connects += 1
                    self.is_ready = False
                self.dealer.send(codec.encode(dialects.WORKER, effect.message))
            elif isinstance(effect, Open):
                self.is_ready = False
                self.fleet.forget(self)
                self.dealer.open(effect.endpoint, effect.public_key)
                self.fleet.watch(self)
            elif isinstance(effect, Taken):
                self.is_ready = True
            elif isinstance(effect, Run):
                self.fleet.served += 1
                task = effect.task
                reply = self.session.reply(task.id, task.attempt, task.body, wait_us=0, work_us=0, now=time.monotonic())
                self.carry_out(reply)
            elif isinstance(effect, Note):
                self.fleet.last_note = effect.text

    def read(self) -> None:
        """Everything that has come, until nothing is left after the last send."""
        while self.dealer.is_open:
            for reason in self.dealer.failures():
                self.is_ready = False
                self.carry_out(self.session.link_failed(reason, time.monotonic()))
            messages = self.dealer.drain()
            if not messages:
                return
            for frames in messages:
                with contextlib.suppress(ProtocolError):
                    message = codec.decode(frames)[1]
                    self.carry_out(self.session.receive(message, time.monotonic()))  # type: ignore[arg-type]

    def tick(self, now: float) -> None:
        if self.session.next_deadline() <= now:
            self.carry_out(self.session.tick(now, time.time()))
            self.read()


class Fleet:
    def __init__(self, page: Page, endpoint: str, count: int, number: int, interval_ms: int) -> None:
        self.page = page
        self.endpoint = endpoint
        self.connects = self.served = 0
        self.last_note = ""
        self.epoll = select.epoll()
        self.by_file: dict[int, Member] = {}
        self.members = [Member(self, f"fleet{number}-{index}", interval_ms / 1000) for index in range(count)]

    def watch(self, member: Member) -> None:
        for file in (member.dealer.fileno, member.dealer.monitor_fileno):
            self.epoll.register(file, select.EPOLLIN)
            self.by_file[file] = member

    def forget(self, member: Member) -> None:
        if member.dealer.is_open:
            for file in (member.dealer.fileno, member.dealer.monitor_fileno):
                self.epoll.unregister(file)
                del self.by_file[file]

    def run(self) -> None:
        while not self.page.read(STOP):
            for file, _ in self.epoll.poll(0.02, 1024):
                if file in self.by_file:
                    self.by_file[file].read()
            now = time.monotonic()
            for member in self.members:
                member.tick(now)
            self.page.write(READY, sum(member.is_ready for member in self.members))
            self.page.write(RENEWED, self.connects)
            self.page.write(COMPLETED, self.served)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[3:]]
    Fleet(Page(Path(sys.argv[1])), sys.argv[2], *numbers).run()
