"""The demo's sum is computed: it fails whenever one figure is off."""

from __future__ import annotations

from collections import Counter

import pytest

from scale0.cli import demo_books


def row(
    accepted: int = 100, replied: int = 98, errored: int = 2, queued: int = 0, in_flight: int = 0
) -> dict[str, int]:
    return {"accepted": accepted, "replied": replied, "errored": errored, "queued": queued, "in_flight": in_flight}


def test_books_balance_when_both_sides_agree() -> None:
    books = demo_books.balance(100, 98, Counter({502: 2}), 0, row())
    assert books.are_balanced
    text = "\n".join(line.plain for line in demo_books.draw(books))
    assert "client      100      98      2    0 ✓ 100 = 98 + 2" in text
    assert "2 × 502: worker lost" in text
    assert text.splitlines()[-1].startswith("● every accepted task")


def test_tasks_refused_at_the_door_were_not_accepted() -> None:
    books = demo_books.balance(103, 98, Counter({502: 2, 429: 3}), 0, row())
    assert books.are_balanced
    assert (books.client.accepted, books.refused) == (100, 3)


@pytest.mark.parametrize(
    ("submitted", "replied", "errors", "wrong", "broker"),
    [
        (100, 97, {502: 2}, 0, row()),  # the client waits for one
        (100, 98, {502: 2}, 1, row()),  # a reply that answers something else
        (100, 98, {502: 2}, 0, row(in_flight=1)),  # the broker holds one
        (100, 98, {502: 2}, 0, row(accepted=101)),  # the broker's own sum is off
        (100, 98, {502: 2}, 0, row(accepted=101, replied=99)),  # each side balances, and they differ
        (100, 98, {502: 2}, 0, row(replied=99, errored=1)),
        (0, 0, {}, 0, row(0, 0, 0)),  # nothing happened
    ],
)
def test_books_do_not_balance_when_a_figure_is_off(
    submitted: int, replied: int, errors: dict[int, int], wrong: int, broker: dict[str, int]
) -> None:
    books = demo_books.balance(submitted, replied, Counter(errors), wrong, broker)
    assert not books.are_balanced
    assert "✗" in "\n".join(line.plain for line in demo_books.draw(books))
