"""One MANAGEMENTREQ and its answer: the smallest possible client, for operators.

A manager needs neither services nor heartbeats, so it holds no session: it opens a DEALER, asks, and waits for the
answer with its sequence number. A broker that wants to know who speaks first answers FORCENEGOTIATE; then CONNECT goes
ahead and the request is sent once more. Every wait ends by the deadline and says what was waited for.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from pathlib import Path
from typing import Any, Final, Literal

import zmq

from scale0.errors import ProtocolError, SessionRefused, TaskRefused, Unreachable, task_error
from scale0.protocol import codec, limits
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import (
    Config,
    ConfigAck,
    Connect,
    Error,
    ForceNegotiate,
    ManagementRep,
    ManagementReq,
    Message,
)
from scale0.transport.dealer import Dealer
from scale0.transport.key_files import own_pair, server_keys

NO_ANSWER: Final = "it listens, and does not answer as a Scale0 broker"
POLL_MS: Final = 50  # how often the connection's failures are looked at while nothing comes


def manage(
    endpoint: str,
    command: str,
    arguments: dict[str, Any] | None = None,
    *,
    auth_id: str,
    auth_password: str,
    timeout_s: float = 5.0,
    brokers: list[str] | Literal["own", "all"] = "own",
    command_id: str = "",
    key: Path | str | None = None,
    server_key: str | None = None,
) -> Any:
    """Have the broker at `endpoint` carry out `command`, and return its result.

    With `brokers` others do so, too: all of its network, or these; the result has a row for each. `key` and
    `server_key` are for brokers that ask for keys, as in `Client`.
    """
    request = ManagementReq(
        auth_id=auth_id,
        auth_password=auth_password,
        seq=secrets.randbelow(2**31) + 1,
        command=command,
        arguments=arguments or {},
        brokers=brokers,
        command_id=command_id,
    )
    pair = own_pair(key)
    public_keys = server_keys(server_key, [endpoint], is_needed=pair is not None)
    dealer = Dealer(pair)
    dealer.open(endpoint, public_keys.get(endpoint, ""))
    try:
        return _Exchange(dealer, request, timeout_s).run()
    finally:
        dealer.close()


class _Exchange:
    """The conversation over one connection."""

    def __init__(self, dealer: Dealer, request: ManagementReq, timeout_s: float) -> None:
        self._dealer = dealer
        self._request = request
        self._timeout_s = timeout_s
        self._why = NO_ANSWER
        self._has_negotiated = False

    def run(self) -> Any:
        """The result, or the error that the broker or the network gave."""
        deadline_s = time.monotonic() + self._timeout_s
        self._send(self._request)
        while (left_s := deadline_s - time.monotonic()) > 0:
            self._dealer.socket.poll(min(math.ceil(left_s * 1_000), POLL_MS), zmq.POLLIN)
            for sentence in self._dealer.failures():
                self._why = sentence
            for frames in self._dealer.drain():
                _dialect, message = codec.decode(frames)
                if isinstance(message, ManagementRep) and message.seq == self._request.seq:
                    return message.result
                self._react(message)
        raise Unreachable({self._dealer.endpoint: self._why}, self._timeout_s)

    def _react(self, message: object) -> None:
        match message:
            case ForceNegotiate() if not self._has_negotiated:
                self._has_negotiated = True
                identity = f"manager-{os.getpid()}-{secrets.token_hex(3)}"
                self._send(Connect(identity=identity, nonce=secrets.token_bytes(limits.NONCE_BYTES)))
            case Config() | ConfigAck() if self._has_negotiated:
                self._send(self._request)
            case Error(seq=seq, code=code, text=text, fatal=fatal) if seq == self._request.seq or fatal:
                if code in {401, 403, 498}:
                    raise SessionRefused(self._dealer.endpoint, code, text)
                raise task_error(code, text) if code != 404 else TaskRefused(code, text)
            case Error(code=code, text=text):
                raise ProtocolError(code, text)
            case _:
                pass

    def _send(self, message: Message) -> None:
        self._dealer.send(codec.encode(CLIENT, message))
