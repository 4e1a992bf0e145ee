"""Somebody who means no good, or knows no better: garbage, commands out of place, ids and replies of others.

Whatever it sends, the broker must live on, and no client may get what a nuisance made up ("forged").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scale0.protocol import codec, dialects, ids
from scale0.protocol.dialects import Dialect
from scale0.protocol.majordomo import MdpHeartbeat, MdpReady, MdpReply
from scale0.protocol.messages import (
    Cancel,
    ConfigVersion,
    Connect,
    Disconnect,
    ManagementReq,
    NeedBroker,
    Ping,
    Pong,
    Ready,
    ReadyOk,
    ServiceOffer,
    Task,
    TaskId,
    TaskReply,
)
from scale0.simulator.network import Socket
from scale0.simulator.process import Process
from scale0.simulator.profiles import MANAGER, PASSWORD

if TYPE_CHECKING:
    from scale0.simulator.world import World

GAP_S = 0.25
FORGED = (b"forged", b"forged", b"0")
OLD_VERSION = ConfigVersion(0, 1, b"\x01" * 8).pack()  # older than any: whoever names it has missed a push


class Nuisance(Process):
    """One run of it speaks one dialect, and comes back as another when it is thrown out."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name, f"{name}.{world.random_for(name).random():.3f}")
        self.dialect: Dialect = self.random.choice(
            (
                dialects.CLIENT,
                dialects.WORKER,
                dialects.PEER,
                dialects.REQ_CLIENT,
                dialects.REQ_WORKER,
                dialects.MDP1_WORKER,
                dialects.MDP2_WORKER,
            )
        )

    def start(self) -> None:
        self.socket = self.world.network.open(self, self.world.endpoints_for(self.random, self.name)[0])
        if self.random.random() < 0.7 and self.dialect.is_native:
            self._say(Connect(identity=self.identity, nonce=self.nonce))
        self.after(GAP_S, self._annoy)

    def deliver(self, socket: Socket, frames: list[bytes]) -> None:
        """It never listens."""

    def _annoy(self) -> None:
        if self.world.is_healed:
            self.crash()
            return
        self.world.count("fault", "nuisance")
        if self.random.random() < 0.4:
            self._garbage()
        elif self.dialect.is_native:
            self._say(self._out_of_place())
        else:
            token = self.random.randbytes(8)
            self._say(self.random.choice((MdpHeartbeat(), MdpReply(token, FORGED), MdpReady("mmi.evil"))))
        if self.random.random() < 0.1 and self.socket is not None:
            self.socket.close()
            self.start()
        else:
            self.after(self.random.random() * GAP_S * 2, self._annoy)

    def _out_of_place(self) -> codec.AnyMessage:
        choices: list[codec.AnyMessage] = [
            Ping(int(self.wall_s * 1e6)),
            Pong(0, 0),
            ReadyOk(heartbeat_interval_ms=1, time_us=0, capacity=1),
            Cancel(id=self._id_of_another()),
            TaskReply(self._id_of_another(), FORGED, self.random.randint(1, 2)),
            Task(self._id_of_another(), "once", (self.world.new_token(), b"ok"), 1000),
            Task(self._own_id(), "no.such.service", (self.world.new_token(), b"ok"), 1000),
            Task(self._own_id(), "scale0.services", (), 1000),
            Task(self._own_id(), "once", (self.world.new_token(), b"ok"), 0),
            Ready(services=[ServiceOffer("scale0.evil"), ServiceOffer("mmi.evil")], capacity=4),
            Ready(services=[], capacity=0),
            NeedBroker(identity=self.identity, services=["once"]),
            ManagementReq(auth_id="root", auth_password="guess", seq=1, command="disable"),
            ManagementReq(
                auth_id=MANAGER, auth_password=PASSWORD, seq=2, command="list", arguments={"what": "workers"}
            ),
            Ping(int(self.wall_s * 1e6), config_version=OLD_VERSION),
            Connect(identity=self.identity, nonce=self.random.randbytes(8)),
            Disconnect(reason="bored"),
        ]
        return self.random.choice(choices)

    def _garbage(self) -> None:
        header = self.dialect.header
        frames = self.random.choice(
            (
                [b""],
                [b"", b""],
                [b"GET / HTTP/1.1"],
                [header],
                [header + b"\x08" + self.random.randbytes(20)],
                [header + b"\xff"],
                [header + b"\x01" + self.random.randbytes(12)],
                [b"x"] * 40,
            )
        )
        if self.socket is not None:
            self.socket.send(list(frames))

    def _own_id(self) -> TaskId:
        return ids.make_id(ids.id_prefix(self.identity, self.nonce), self.random.randint(1, 50))

    def _id_of_another(self) -> TaskId:
        open_ids = list(self.world.promises.open)
        return TaskId(self.random.choice(open_ids)) if open_ids else self._own_id()

    def _say(self, message: codec.AnyMessage) -> None:
        if self.socket is not None:
            self.socket.send(codec.encode(self.dialect, message))
