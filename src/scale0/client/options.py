"""What a client is told, checked once: addresses, identity, time limits."""

from __future__ import annotations

import math
import os
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from scale0.core.held_config import SavedConfig
from scale0.core.link import LinkSettings
from scale0.errors import UsageError
from scale0.protocol import limits
from scale0.transport.addresses import read_addresses
from scale0.transport.key_files import KeyPair, own_pair, server_keys
from scale0.transport.saved_config import check_path

DEFAULT_TIMEOUT_S: Final = 60.0
DEFAULT_IN_FLIGHT: Final = 500
GRACE_S: Final = 3.0  # beyond a task's deadline: the session's own grace, and room for a busy machine


class Repeats(msgspec.Struct, frozen=True):
    """Of a client that goes on with, or may be followed by, another process under the same ids."""

    nonce: bytes  # the same for all processes that ask the same
    is_later: bool = False  # an earlier one may have asked


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `Client` and `AsyncClient` take, with its default."""

    endpoints: list[str]
    identity: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    connect_timeout_s: float = 3.0
    retry_forever: bool = False
    save_config: Path | None = None  # the file that keeps the last config
    repeats: Repeats | None = None
    pair: KeyPair | None = None  # its own key
    public_keys: dict[str, str] = {}  # endpoint → the broker's; with any, everything is encrypted

    @classmethod
    def read(
        cls,
        addresses: tuple[str | Iterable[str], ...],
        *,
        save_config: Path | str | None = None,
        key: Path | str | None = None,
        server_key: str | None = None,
        **options: Any,
    ) -> ClientOptions:
        """Options with the addresses as `read_addresses` takes them, and keys as `key_files` does."""
        endpoints, pair = read_addresses(addresses), own_pair(key)
        made = cls(
            endpoints=endpoints,
            save_config=check_path(save_config),
            pair=pair,
            public_keys=server_keys(server_key, endpoints, is_needed=pair is not None),
            **options,
        )
        check_timeout(made.timeout_s)
        check_timeout(made.connect_timeout_s)
        made.link_settings(SavedConfig())
        return made

    def connect_limit_s(self, known: int) -> float:
        """The longest that a start-up may take: each known broker has its time, and may name another one."""
        return self.connect_timeout_s * (known + 4) + GRACE_S

    def link_settings(self, saved: SavedConfig) -> LinkSettings:
        """Settings of a new session. A nonce is fresh, unless ids are to repeat; a made identity is fresh too."""
        return LinkSettings(
            endpoints=self.endpoints,
            identity=self.identity if self.identity is not None else _made_identity(),
            nonce=os.urandom(limits.NONCE_BYTES) if self.repeats is None else self.repeats.nonce,
            connect_timeout_s=self.connect_timeout_s,
            retry_forever=self.retry_forever,
            saved=saved,
            keeps_config=self.save_config is not None,
            public_keys=self.public_keys,
        )


def check_timeout(timeout_s: float) -> float:
    """A time limit as callers give it, or an error that says what is allowed."""
    if not (isinstance(timeout_s, int | float) and 0 < timeout_s < math.inf):
        raise UsageError(f"a timeout is a number of seconds above 0, not {timeout_s!r}")
    if timeout_s * 1000 > limits.REMAINING_MS_MAX:
        raise UsageError(f"a timeout is at most {limits.REMAINING_MS_MAX // 1000:,} s, not {timeout_s!r}")
    return timeout_s


def _made_identity() -> str:
    host = socket.gethostname().split(".")[0][:40] or "host"
    return f"client-{host}-{os.getpid()}-{secrets.token_hex(4)}"
