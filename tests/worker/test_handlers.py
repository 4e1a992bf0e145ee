"""Which functions can be handlers, and of which kind."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from scale0.errors import EncodingError, UsageError
from scale0.worker.handlers import Handler


def plain(a: int) -> int:
    return a


async def coroutine(a: int) -> int:
    return a


def generator(a: int) -> Iterator[int]:
    yield a


async def async_generator(a: int) -> AsyncIterator[int]:
    yield a


class Callable:
    """An object that can be called."""

    async def __call__(self, a: int) -> int:
        return a

    def method(self, a: int) -> Iterator[int]:
        yield a


@pytest.mark.parametrize(
    ("function", "is_async", "is_stream"),
    [
        (plain, False, False),
        (coroutine, True, False),
        (generator, False, True),
        (async_generator, True, True),
        (functools.partial(coroutine, 1), True, False),
        (functools.partial(functools.partial(generator), 1), False, True),
        (Callable(), True, False),
        (Callable().method, False, True),
        (lambda: 1, False, False),
    ],
)
def test_each_kind_of_function_is_told_apart(function: Any, is_async: bool, is_stream: bool) -> None:
    handler = Handler("work", function)
    assert (handler.is_async, handler.is_stream) == (is_async, is_stream)


def test_names_and_limits_are_checked() -> None:
    with pytest.raises(UsageError, match="1 to 128 bytes"):
        Handler("", plain)
    with pytest.raises(UsageError, match="1 to 128 bytes"):
        Handler("ü" * 65, plain)
    with pytest.raises(UsageError, match="belong to the broker"):
        Handler("mmi.service", plain)
    with pytest.raises(UsageError, match="max_attempts of 'work' is 0"):
        Handler("work", plain, max_attempts=0)
    with pytest.raises(UsageError, match="not a function"):
        Handler("work", 3)  # type: ignore[arg-type]


def test_annotations_that_cannot_be_used_are_refused_at_once() -> None:
    def odd(a: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(EncodingError, match="annotations of work"):
        Handler("work", odd)
