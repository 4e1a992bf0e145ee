"""Majordomo 0.1 and 0.2 clients and workers, as RFC 7 and RFC 18 describe them, scripted in a few lines each.

They know nothing of Scale0: a worker holds one task, heartbeats, and comes back on a new socket after DISCONNECT or
silence; a client that hears nothing gives up and asks anew on a new socket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scale0.protocol import codec, dialects
from scale0.protocol.dialects import Dialect
from scale0.protocol.majordomo import MdpDisconnect, MdpHeartbeat, MdpReady, MdpReply, MdpRequest
from scale0.simulator.network import Socket
from scale0.simulator.process import Process, behaviour_of

if TYPE_CHECKING:
    from scale0.simulator.world import World

LIVENESS = 4


class MajordomoClient(Process):
    def __init__(self, world: World, name: str, version: int) -> None:
        super().__init__(world, name, name)
        self.dialect = dialects.MDP1_CLIENT if version == 1 else dialects.MDP2_CLIENT
        self.version = version
        self.asked: dict[bytes, str] = {}  # token → service

    def start(self) -> None:
        self.socket = self.world.network.open(self, self.world.endpoints_for(self.random, self.name)[0])

    def submit(self, service: str, behaviour: bytes) -> None:
        if self.socket is None or len(self.asked) >= (1 if self.version == 1 else 4):
            return
        token = self.world.new_token()
        self.asked[token] = service
        self.socket.send(codec.encode(self.dialect, MdpRequest(service, (token, behaviour))))
        self.after(self.world.profile.timeout_max_s * 1.5, self._give_up, token)

    def deliver(self, socket: Socket, frames: list[bytes]) -> None:
        if socket is not self.socket:
            return
        frames = frames[2:] if self.version == 1 else frames[1:]
        is_final = True
        if self.version == 2:
            is_final = frames[0] == b"\x03"
            frames = frames[1:]
        service, token = frames[0].decode(), frames[1]
        if self.asked.get(token) != service:
            self.world.violation("I2", f"{self.label} got {frames!r}, which it does not wait for")
        if is_final:
            del self.asked[token]
            self.world.promises.outcomes["majordomo"] += 1

    def _give_up(self, token: bytes) -> None:
        """RFC 7 has no errors: silence means that the request is lost, and a REQ socket must be replaced."""
        if token in self.asked:
            self.asked.clear()
            if self.socket is not None:
                self.socket.close()
            self.start()


class MajordomoWorker(Process):
    def __init__(self, world: World, name: str, version: int, service: str) -> None:
        super().__init__(world, name, name)
        self.dialect: Dialect = dialects.MDP1_WORKER if version == 1 else dialects.MDP2_WORKER
        self.version = version
        self.service = service
        self.is_leaving = False
        self._heard_s = 0.0

    def start(self) -> None:
        self._register()
        self.after(self._interval_s(), self._beat)

    def deliver(self, socket: Socket, frames: list[bytes]) -> None:
        if socket is not self.socket:
            return
        self._heard_s = self.now
        frames = frames[2:] if self.version == 1 else frames[1:]
        command = frames[0]
        if command == b"\x02":
            address, empty, body = frames[1], frames[2], frames[3:]
            assert empty == b""
            self.world.promises.started(self.label, self.service, body[0])
            delay_s = self.random.random() * (1.0 if behaviour_of(body) == b"slow" else 0.05)
            self.after(delay_s, self._reply, socket, address, body, 0)
        elif command == (b"\x05" if self.version == 1 else b"\x06"):
            self._register()

    def leave(self) -> None:
        if not self.is_leaving:
            self.is_leaving = True
            self._say(MdpDisconnect())
            self.leave_for_good()

    def _interval_s(self) -> float:
        return self.world.profile.interval_s

    def _register(self) -> None:
        if self.socket is not None:
            self.socket.close()
        self.socket = self.world.network.open(self, self.world.endpoints_for(self.random, self.name)[0])
        self._heard_s = self.now
        self._say(MdpReady(self.service))

    def _beat(self) -> None:
        if self.now - self._heard_s > LIVENESS * self._interval_s():
            self._register()
        else:
            self._say(MdpHeartbeat())
        self.after(self._interval_s(), self._beat)

    def _reply(self, socket: Socket, address: bytes, body: list[bytes], part: int) -> None:
        if socket is not self.socket:
            return
        answer = (body[0], self.label.encode(), b"0")
        if self.version == 2 and behaviour_of(body) == b"stream" and part < 2:
            self._say(MdpReply(address, answer, final=False))
            self.after(self.random.random() * 0.1, self._reply, socket, address, body, part + 1)
        else:
            self._say(MdpReply(address, answer))

    def _say(self, message: MdpReady | MdpReply | MdpHeartbeat | MdpDisconnect) -> None:
        if self.socket is not None:
            self.socket.send(codec.encode(self.dialect, message))
