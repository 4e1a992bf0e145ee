"""A task's id: made by the client, shown to people, read back."""

from __future__ import annotations

from hypothesis import given

from scale0.protocol import limits
from scale0.protocol.ids import id_prefix, make_id, sequence_of, show_id
from tests.protocol import strategies


@given(identity=strategies.name, nonce=strategies.nonce, sequence=strategies.U64)
def test_id_holds_nonce_identity_and_sequence(identity: str, nonce: bytes, sequence: int) -> None:
    task_id = make_id(id_prefix(identity, nonce), sequence)
    assert task_id == nonce + identity.encode() + sequence.to_bytes(8, "big")
    assert task_id.startswith(id_prefix(identity, nonce))
    assert sequence_of(task_id) == sequence
    assert limits.ID_BYTES_MIN <= len(task_id) <= limits.ID_BYTES_MAX


def test_id_is_shown_as_identity_nonce_and_sequence() -> None:
    assert show_id(make_id(id_prefix("web-1", bytes(range(8))), 42)) == "web-1.0001020304050607.42"


def test_id_that_is_no_text_is_shown_all_the_same() -> None:
    assert show_id(bytes(8) + b"\xff" + bytes(8)) == "\ufffd.0000000000000000.0"


def test_sequences_sort_as_numbers() -> None:
    prefix = id_prefix("c", bytes(8))
    ids = [make_id(prefix, sequence) for sequence in (0, 1, 255, 256, 65_536, 2**40)]
    assert ids == sorted(ids)
