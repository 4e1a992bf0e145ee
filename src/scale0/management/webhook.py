"""Alarms go out as JSON, one POST each, to one address that the operator chose.

Nothing that the receiver does reaches the broker: `offer` never waits, a thread of its own delivers, in order, and
tries again with growing pauses. What waits is bounded; when there is too much, or it is too old, the oldest goes, and
is counted. A receiver has a few seconds in all, whether it hangs or drips; it cannot send us elsewhere, for redirects
are not followed and count as failures.

The address may hold a secret, as those of chat services do. So it travels encrypted or stays on this machine, and only
its host is ever logged. The message holds nothing but the alarm.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import random
import socket
import ssl
import threading
import time
from collections import deque
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0 import __version__
from scale0.errors import SettingsError
from scale0.management.alarms import Alarm

QUEUE_MAX: Final = 256
AGE_S_MAX: Final = 3600.0  # an alarm that could not be delivered for so long is old news
ATTEMPT_S: Final = 5.0  # from the connection's begin to the answer's status, in all
FIRST_PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 60.0
CLOSE_S: Final = 2.0
DONE: Final = range(200, 300)
LATE: Final = "the receiver did not answer in time"


class Message(msgspec.Struct, frozen=True):
    """What is posted. `id` is the same however often it is sent: a receiver may see it twice."""

    schema: str
    id: str
    network: str
    broker: str
    alarm: Alarm


def check_url(url: str) -> SplitResult:
    """The address in its parts. Raises `SettingsError` for one that is not to be used."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise SettingsError(f"management.webhook: {error}") from None
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise SettingsError("management.webhook: an address begins with https:// and has a host")
    if parts.username is not None or parts.password is not None:
        raise SettingsError("management.webhook: a name and password do not belong into an address; use a path")
    if parts.scheme == "http" and not _is_loopback(host):
        text = f"management.webhook: http://{host} would carry alarms unencrypted; use https, or http on this machine"
        raise SettingsError(text)
    return parts


class Webhook:
    """Delivers alarms to `url`. `offer` may be called from any thread; `close` gives up what has not been delivered."""

    def __init__(
        self,
        url: str,
        *,
        network: str,
        broker: str,
        log: FilteringBoundLogger,
        attempt_s: float = ATTEMPT_S,
        first_pause_s: float = FIRST_PAUSE_S,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._url = check_url(url)
        self._network = network
        self._broker = broker
        self._log = log.bind(webhook=self._url.hostname)
        self._attempt_s = attempt_s
        self._first_pause_s = first_pause_s
        self._context = context or (ssl.create_default_context() if self._url.scheme == "https" else None)
        self._waiting: deque[tuple[bytes, float]] = deque()  # messages, and until when they are worth a try
        self._change = threading.Condition()
        self._is_closed = False
        self.delivered = 0
        self.dropped = 0
        self.failures = 0
        """Attempts in a row that have failed."""
        self._thread = threading.Thread(target=self._run, name="scale0-webhook", daemon=True)
        self._thread.start()

    def offer(self, alarm: Alarm) -> None:
        """Deliver this, soon; returns at once."""
        made = f"{self._broker}/{alarm.name}/{alarm.subject}/{alarm.state}/{alarm.since_us}"
        message = Message("scale0.alarm/1", made, self._network, self._broker, alarm)
        with self._change:
            if self._is_closed:
                return
            if len(self._waiting) >= QUEUE_MAX:
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append((msgspec.json.encode(message), time.monotonic() + AGE_S_MAX))
            self._change.notify_all()

    def close(self) -> None:
        """Stop; an attempt that is under way has a moment to end."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        self._thread.join(CLOSE_S)

    # --- in its own thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (message := self._next()) is not None:
            problem = self._post(message[0])
            if problem is None:
                self._delivered(message)
            else:
                self._failed(message, problem)

    def _next(self) -> tuple[bytes, float] | None:
        """The oldest that waits, which stays in its place until it is delivered; None: closed."""
        with self._change:
            while not self._waiting and not self._is_closed:
                self._change.wait()
            return None if self._is_closed else self._waiting[0]

    def _delivered(self, message: tuple[bytes, float]) -> None:
        if self.failures:
            self._log.info("the webhook's receiver takes alarms again", after_failures=self.failures)
        self.delivered += 1
        self.failures = 0
        self._forget(message)

    def _failed(self, message: tuple[bytes, float], problem: str) -> None:
        with self._change:
            self.failures += 1
            self._change.notify_all()
        if self.failures == 1:  # the alarm `webhook_failing` tells the rest
            self._log.warning(
                f"an alarm could not be delivered: {problem}; it is tried again", waiting=len(self._waiting)
            )
        if time.monotonic() >= message[1]:
            self._forget(message, is_dropped=True)
        pause_s = min(PAUSE_S_MAX, self._first_pause_s * 2.0 ** min(self.failures - 1, 16))
        with self._change:
            self._change.wait_for(lambda: self._is_closed, pause_s * random.uniform(0.5, 1.0))

    def _forget(self, message: tuple[bytes, float], *, is_dropped: bool = False) -> None:
        with self._change:
            if self._waiting and self._waiting[0] is message:  # else it made room for a newer one meanwhile
                self._waiting.popleft()
                self.dropped += is_dropped

    def _post(self, body: bytes) -> str | None:
        """One attempt; what went wrong, or None."""
        connection = self._connect()
        is_cut = threading.Event()
        # A receiver that drips has no longer either.
        limit = threading.Timer(self._attempt_s, _cut, (connection, is_cut))
        limit.daemon = True
        limit.start()
        try:
            target = self._url.path or "/"
            if self._url.query:
                target += f"?{self._url.query}"
            headers = {"Content-Type": "application/json", "User-Agent": f"scale0/{__version__}"}
            connection.request("POST", target, body, {**headers, "Connection": "close"})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:  # cut while it was read, too
            return LATE if is_cut.is_set() else _why(error)
        finally:
            limit.cancel()
            connection.close()
        if is_cut.is_set():
            return LATE
        if status in DONE:
            return None
        elsewhere = ", and redirects are not followed" if 300 <= status < 400 else ""
        return f"the receiver answered {status}{elsewhere}"

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._context is not None:
            return http.client.HTTPSConnection(host, port, timeout=self._attempt_s, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=self._attempt_s)


def _cut(connection: http.client.HTTPConnection, is_cut: threading.Event) -> None:
    """End an attempt from another thread: whoever reads from the socket finds its end."""
    is_cut.set()
    taken = connection.sock
    if taken is not None:
        with contextlib.suppress(OSError):
            taken.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    """What went wrong, without the address."""
    if isinstance(error, TimeoutError):
        return LATE
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
