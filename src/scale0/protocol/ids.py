"""A task's id: nonce (8 bytes) + identity + sequence (8 bytes), unique over all processes that ever ran.

The client makes it, so that it can send the same task again under the same id; the broker looks it up under its sender
only, by comparing the prefix with the sender's session.
"""

from __future__ import annotations

from scale0.protocol.limits import NONCE_BYTES
from scale0.protocol.messages import TaskId


def id_prefix(identity: str, nonce: bytes) -> bytes:
    """What all ids of one process begin with."""
    return nonce + identity.encode()


def make_id(prefix: bytes, sequence: int) -> TaskId:
    return TaskId(prefix + sequence.to_bytes(8, "big"))


def identity_of(task_id: bytes) -> str:
    return task_id[NONCE_BYTES:-8].decode(errors="replace")


def sequence_of(task_id: bytes) -> int:
    return int.from_bytes(task_id[-8:], "big")


def show_id(task_id: bytes) -> str:
    """The id as people and listings write it: identity.nonce.sequence."""
    return f"{identity_of(task_id)}.{task_id[:NONCE_BYTES].hex()}.{sequence_of(task_id)}"
