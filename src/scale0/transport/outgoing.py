"""The sending half of the broker's loop: carries out the effects of a burst, in order.

All frames of a message are made before its first is handed over, so a message is never left half sent. A send can fail
at its first frame only, and a failed send is an input of the core (rule 10): what comes of it follows.

What a burst has for one connection leaves as bundles, if whoever is there takes them (`protocol.bundles`). Order holds
on each connection, and around every effect that is not a send: what must be on disk first is.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import zmq

from scale0.core.effects import Effect, Route, Send
from scale0.protocol.bundles import bundle, runs
from scale0.protocol.codec import encode
from scale0.transport.sockets import MORE_NOBLOCK, NOBLOCK, Port
from scale0.transport.unread import TRACKED_BYTES_MIN, Unread, size_of


class Burst:
    """What is to leave on one connection: the sends, and beside each its frames."""

    __slots__ = ("messages", "sends")

    def __init__(self) -> None:
        self.sends: list[Send] = []
        self.messages: list[list[bytes]] = []


class Outgoing:
    """Sends through the ports that were added.

    `takes_bundles` says who takes bundles, `on_rare` gets every effect that is not a `Send`, `on_failed` each send that
    failed, with its error's number, and says what follows; `on_bug` hears what could not be encoded.
    """

    def __init__(
        self,
        takes_bundles: Callable[[Route], bool],
        on_rare: Callable[[Effect], None],
        on_failed: Callable[[Send, int | None, float], list[Effect]],
        on_bug: Callable[[str], object],
    ) -> None:
        self.sent = 0  # messages, each of a bundle's counted
        self.unread = Unread()
        self._takes_bundles, self._on_rare, self._on_failed, self._on_bug = takes_bundles, on_rare, on_failed, on_bug
        self._senders: list[Callable[..., Any]] = [_no_socket] * 256  # by a route's first byte

    def add_port(self, port: Port) -> None:
        self._senders[port.index] = port.send

    def carry_out(self, effects: list[Effect], now: float) -> list[Effect]:
        """Send what the core asks for; returns what comes of failed sends."""
        follow_ups: list[Effect] = []
        bursts: dict[Route, Burst] = {}
        for effect in effects:
            if type(effect) is not Send:
                self._send_bursts(bursts, follow_ups, now)
                self._on_rare(effect)
                continue
            try:
                frames = encode(effect.dialect, effect.message)
            except Exception:
                self._on_bug(f"encoding {type(effect.message).__name__}")
                continue
            burst = bursts.get(effect.route)
            if burst is None:
                burst = bursts[effect.route] = Burst()
            burst.sends.append(effect)
            burst.messages.append(frames)
        self._send_bursts(bursts, follow_ups, now)
        return follow_ups

    def _send_bursts(self, bursts: dict[Route, Burst], follow_ups: list[Effect], now: float) -> None:
        """Send all of them, and forget them."""
        for route, burst in bursts.items():
            sends, messages = burst.sends, burst.messages
            if len(sends) > 1 and self._takes_bundles(route):
                self._send_bundles(sends, messages, follow_ups, now)
            else:
                for send, frames in zip(sends, messages, strict=True):
                    self._send(send, frames, follow_ups, now)
        bursts.clear()

    def _send_bundles(
        self, sends: list[Send], messages: list[list[bytes]], follow_ups: list[Effect], now: float
    ) -> None:
        begin = 0
        for run in runs(messages):
            end = begin + len(run)
            if end == begin + 1:
                self._send(sends[begin], messages[begin], follow_ups, now)
            else:
                self._send_bundle(sends[begin:end], [frames[0] for frames in run], follow_ups, now)
            begin = end

    def _send_bundle(self, sends: list[Send], frames: list[bytes], follow_ups: list[Effect], now: float) -> None:
        route = sends[0].route
        send = self._senders[route[0]]
        try:
            send(route[1:], MORE_NOBLOCK)
        except zmq.ZMQError as error:
            for each in sends:
                follow_ups += self._on_failed(each, error.errno, now)
            return
        send(bundle(frames), NOBLOCK)
        self.sent += len(sends)

    def _send(self, effect: Send, frames: list[bytes], follow_ups: list[Effect], now: float) -> None:
        route = effect.route
        size = size_of(frames) if len(frames) > 1 else 0
        if size >= TRACKED_BYTES_MIN and not self.unread.has_room(route, size):
            follow_ups += self._on_failed(effect, errno.EAGAIN, now)
            return
        send = self._senders[route[0]]
        try:
            send(route[1:], MORE_NOBLOCK)
        except zmq.ZMQError as error:
            follow_ups += self._on_failed(effect, error.errno, now)
            return
        self.sent += 1
        if size >= TRACKED_BYTES_MIN:
            self._send_tracked(route, send, frames, size)
            return
        last = frames.pop()
        for frame in frames:
            send(frame, MORE_NOBLOCK)
        send(last, NOBLOCK)

    def _send_tracked(self, route: Route, send: Callable[..., Any], frames: list[bytes], size: int) -> None:
        """Hand over a large message without copying it, and keep an eye on when it is let go."""
        last = frames.pop()
        trackers = [send(frame, MORE_NOBLOCK, False, True) for frame in frames]
        trackers.append(send(last, NOBLOCK, False, True))
        self.unread.add(route, size, trackers)


def _no_socket(*_: Any) -> Any:
    """The sender of routes whose socket is not open: nobody can be reached there."""
    raise zmq.ZMQError(errno.EHOSTUNREACH)
