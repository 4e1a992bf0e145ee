"""Many worker sessions in one process, over real sockets: how they come back, move, and get a new config.

Usage: fleet.py PAGE ENDPOINT[,ENDPOINT…] COUNT NUMBER INTERVAL_MS

These are the sessions of the worker library itself, with its reconnects, its backoff and its jitter; only the handlers
are missing. Each begins at one of the endpoints, in turn, and goes where brokers send it. The page says how many have a
broker now, how many CONNECTs they have sent in all, and how a new config reached them.
"""

from __future__ import annotations

import contextlib
import random
import select
import sys
import time
from pathlib import Path

from measure import COMPLETED, CONFIGACKS, CONFIGS, NEWEST, REACHED, REACHED_US, READY, RENEWED, STOP, Page
from scale0.core.link import LinkSettings, Phase
from scale0.core.participant import Note, Open, ParticipantEffect, Run, Transmit
from scale0.core.worker_session import WorkerSession
from scale0.errors import ProtocolError
from scale0.protocol import codec, dialects
from scale0.protocol.messages import NO_VERSION, Config, ConfigAck, Connect, Message, ServiceOffer
from scale0.transport.dealer import Dealer


class Member:
    """One session and its socket."""

    def __init__(self, fleet: Fleet, endpoint: str, identity: str, interval_s: float) -> None:
        self.fleet = fleet
        self.dealer = Dealer()
        source = random.Random(identity)
        settings = LinkSettings(
            endpoints=[endpoint],
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
                self.fleet.connects += isinstance(effect.message, Connect)
                self.dealer.send(codec.encode(dialects.WORKER, effect.message))
            elif isinstance(effect, Open):
                self.fleet.forget(self)
                self.dealer.open(effect.endpoint, effect.public_key)
                self.fleet.watch(self)
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
                self.carry_out(self.session.link_failed(reason, time.monotonic()))
            messages = self.dealer.drain()
            if not messages:
                return
            for frames in messages:
                with contextlib.suppress(ProtocolError):
                    self.receive(codec.decode(frames)[1])  # type: ignore[arg-type]

    def receive(self, message: Message) -> None:
        link = self.session.link
        had, was_up = link.config_version, link.phase is Phase.UP
        self.carry_out(self.session.receive(message, time.monotonic()))
        if isinstance(message, Config | ConfigAck):
            self.fleet.heard_config(message, is_push=was_up, is_other=link.config_version != had)

    def tick(self, now: float) -> None:
        if self.session.next_deadline() <= now:
            self.carry_out(self.session.tick(now, time.time()))
            self.read()


class Fleet:
    def __init__(self, page: Page, endpoints: list[str], count: int, number: int, interval_ms: int) -> None:
        self.page = page
        self.newest = NO_VERSION  # of all configs that came
        self.connects = self.served = 0
        self.last_note = ""
        self.epoll = select.epoll()
        self.by_file: dict[int, Member] = {}
        self.members = [
            Member(self, endpoints[index % len(endpoints)], f"fleet{number}-{index}", interval_ms / 1000)
            for index in range(count)
        ]

    def watch(self, member: Member) -> None:
        for file in (member.dealer.fileno, member.dealer.monitor_fileno):
            self.epoll.register(file, select.EPOLLIN)
            self.by_file[file] = member

    def forget(self, member: Member) -> None:
        if member.dealer.is_open:
            for file in (member.dealer.fileno, member.dealer.monitor_fileno):
                self.epoll.unregister(file)
                del self.by_file[file]

    def heard_config(self, message: Config | ConfigAck, *, is_push: bool, is_other: bool) -> None:
        """A member was told a version; whether nobody had asked, and whether it had another one before."""
        page, version = self.page, message.config_version
        if is_push:
            slot = CONFIGS if isinstance(message, Config) else CONFIGACKS
            page.write(slot, page.read(slot) + 1)
        if version > self.newest:
            self.newest = version
            page.write(REACHED, 0)
            page.write(NEWEST, int.from_bytes(version[:8], "big"))
        if is_other and version == self.newest:
            page.write(REACHED_US, time.monotonic_ns() // 1000)
            page.write(REACHED, page.read(REACHED) + 1)

    def run(self) -> None:
        while not self.page.read(STOP):
            for file, _ in self.epoll.poll(0.02, 1024):
                if file in self.by_file:
                    self.by_file[file].read()
            now = time.monotonic()
            for member in self.members:
                member.tick(now)
            self.page.write(READY, sum(member.session.is_ready for member in self.members))
            self.page.write(RENEWED, self.connects)
            self.page.write(COMPLETED, self.served)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[3:]]
    Fleet(Page(Path(sys.argv[1])), sys.argv[2].split(","), *numbers).run()
