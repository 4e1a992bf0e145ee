"""What may be submitted."""

from __future__ import annotations

import pytest

from scale0.core.open_task import check_name, check_terms, remaining_ms_of, size_of
from scale0.errors import PayloadTooLarge, UsageError
from scale0.protocol.limits import FRAME_BYTES_MAX, FRAMES_MAX, REMAINING_MS_MAX

MEBI = 1024 * 1024


@pytest.mark.parametrize(("body", "size"), [((), 0), ((b"",), 0), ((b"abc",), 3), ((b"ab", b"", b"c"), 3)])
def test_a_body_has_the_size_of_its_frames(body: tuple[bytes, ...], size: int) -> None:
    assert size_of(body) == size


@pytest.mark.parametrize(
    "body",
    [(bytes(FRAME_BYTES_MAX + 1),), (b"", bytes(FRAME_BYTES_MAX + 1)), (bytes(8 * MEBI), bytes(8 * MEBI))],
)
def test_a_body_over_a_limit_is_refused(body: tuple[bytes, ...]) -> None:
    with pytest.raises(PayloadTooLarge):
        size_of(body)


@pytest.mark.parametrize(
    ("priority", "options", "told"),
    [(4, b"", "a priority is 0 to 3, not 4"), (0, bytes(4097), "options have at most 4,096 bytes, not 4,097")],
)
def test_terms_that_no_broker_takes_are_refused_by_what_is_wrong_with_them(
    priority: int, options: bytes, told: str
) -> None:
    with pytest.raises(UsageError, match=f"^{told}$"):
        check_terms(priority, [((b"",), options)])


def test_a_body_of_too_many_frames_is_refused() -> None:
    assert size_of((b"x",) * (FRAMES_MAX - 1)) == FRAMES_MAX - 1
    with pytest.raises(UsageError):
        size_of((b"x",) * FRAMES_MAX)


@pytest.mark.parametrize("name", ["", "x" * 129, "é" * 65])
def test_a_name_that_no_broker_would_take_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_name(name)


@pytest.mark.parametrize("name", ["x", "x" * 128, "é" * 64])
def test_a_name_of_up_to_128_bytes_is_taken(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("remaining_s", "remaining_ms"),
    [(-1.0, 1), (0.0, 1), (0.0004, 1), (0.0015, 1), (2.5, 2500), (1e9, REMAINING_MS_MAX)],
)
def test_time_left_travels_in_ms_within_its_limits(remaining_s: float, remaining_ms: int) -> None:
    assert remaining_ms_of(remaining_s) == remaining_ms
