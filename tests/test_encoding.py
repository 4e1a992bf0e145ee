"""Values in, bodies out, and back: by the annotations, strictly, and bytes untouched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.encoding import (
    ENCODED,
    RAW,
    Signature,
    decode_failure,
    decode_result,
    encode_arguments,
    encode_failure,
)
from scale0.errors import EncodingError, PayloadTooLarge
from scale0.protocol import limits

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class Point(msgspec.Struct):
    x: int
    y: int = 0


def greet(name: str) -> str:
    return f"hello {name}"


def move(point: Point, by: int = 1, *, twice: bool = False) -> Point:
    return Point(point.x + by * (1 + twice), point.y)


def anything(*values: Any, **named: Any) -> Any:
    return values, named


def upper(body: bytes) -> bytes:
    return body.upper()


def decode(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    positional, named = Signature(function).decode_arguments(*encode_arguments(args, kwargs))
    return list(positional), named


@given(st.lists(PLAIN, max_size=20), st.dictionaries(st.text(min_size=1), PLAIN, max_size=3))
def test_any_plain_arguments_come_back_as_they_were(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert decode(anything, *args, **kwargs) == (args, kwargs)


@given(PLAIN)
def test_any_plain_result_comes_back_as_it_was(value: Any) -> None:
    assert decode_result(Signature(anything).encode_result(value, ENCODED)) == value


@given(st.lists(st.binary(max_size=40), max_size=3).map(tuple), st.sampled_from([b"", RAW, ENCODED, b"\xc1"]))
def test_any_bytes_either_decode_or_raise_encoding_error(body: tuple[bytes, ...], options: bytes) -> None:
    for attempt in (lambda: Signature(move).decode_arguments(body, options), lambda: decode_result(body, int)):
        try:
            attempt()
        except EncodingError:
            continue
    decode_failure(body)


def test_arguments_take_the_types_of_the_annotations() -> None:
    assert decode(move, Point(1), 2) == ([Point(1), 2], {})
    assert decode(move, Point(1), twice=True) == ([Point(1)], {"twice": True})
    assert decode(move, point=Point(3, 4), by=5) == ([], {"point": Point(3, 4), "by": 5})


def test_common_calls_are_one_frame() -> None:
    assert encode_arguments(("Ada",), {}) == ((b"\x91\xa3Ada",), ENCODED)
    assert Signature(greet).encode_result("hello Ada", ENCODED) == (b"\xa9hello Ada",)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "says"),
    [
        (greet, (1,), {}, "parameter 'name' of greet: Expected `str`, got `int`"),
        (greet, (b"Ada",), {}, "parameter 'name' of greet: Expected `str`, got `bytes`"),
        (greet, (), {}, "parameter 'name' of greet is missing"),
        (greet, ("a", "b"), {}, "greet takes 1 positional argument, not 2"),
        (greet, ("a",), {"loud": True}, "greet has no parameter 'loud'"),
        (greet, ("a",), {"name": "b"}, "parameter 'name' of greet was given twice"),
        (move, ({"x": "1"},), {}, "parameter 'point' of move: Expected `int`, got `str` - at `$.x`"),
        (move, (Point(1), "2"), {}, "parameter 'by' of move: Expected `int`, got `str`"),
        (upper, ("text",), {}, "parameter 'body' of upper: Expected `bytes`, got `str`"),
    ],
)
def test_mismatch_names_the_parameter(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(EncodingError) as caught:
        decode(function, *args, **kwargs)
    assert says in str(caught.value)


def test_one_bytes_argument_is_the_body_itself() -> None:
    assert encode_arguments((b"\x00raw",), {}) == ((b"\x00raw",), RAW)
    assert decode(upper, b"\x00raw") == ([b"\x00raw"], {})
    assert decode(anything, bytearray(b"raw")) == ([b"raw"], {})


def test_bytes_result_travels_untouched_behind_an_empty_frame() -> None:
    body = Signature(upper).encode_result(b"RAW", RAW)
    assert body == (b"", b"RAW")
    assert decode_result(body) == decode_result(body, bytes) == b"RAW"


def test_foreign_asker_gets_and_gives_raw_bytes_without_marks() -> None:
    signature = Signature(upper)
    assert signature.decode_arguments((b"\x91\xa3Ada",)) == ((b"\x91\xa3Ada",), {})
    assert signature.encode_result(b"RAW") == (b"RAW",)
    assert decode_result((b"RAW",), bytes) == b"RAW"


def test_foreign_asker_may_send_msgpack_without_saying_so() -> None:
    assert Signature(greet).decode_arguments((b"\x91\xa3Ada",)) == (("Ada",), {})


def test_empty_body_means_no_arguments() -> None:
    assert Signature(anything).decode_arguments(()) == ((), {})
    assert Signature(anything).decode_arguments((b"",)) == ([], {})


def test_reply_that_is_not_msgpack_names_the_cure() -> None:
    with pytest.raises(EncodingError, match="returns=bytes takes the body as it is"):
        decode_result((b"hello",))


def test_replies_of_the_brokers_own_services_are_json() -> None:
    assert decode_result((b'{"rows": []}',), service="scale0.services") == {"rows": []}


def test_result_must_fit_the_annotation() -> None:
    def count() -> list[int]:
        return []

    assert Signature(count).encode_result([1, 2]) == (b"\x92\x01\x02",)
    with pytest.raises(EncodingError, match=r"the result of count: Expected `int`, got `str`"):
        Signature(count).encode_result([1, "2"])
    with pytest.raises(EncodingError, match="the result of greet: Expected `str`, got `bytes`"):
        Signature(greet).encode_result(b"hello", ENCODED)
    with pytest.raises(EncodingError, match="cannot be encoded"):
        Signature(anything).encode_result(object())


def test_generators_annotation_types_each_part() -> None:
    def count(to: int) -> Iterator[int]:
        yield from range(to)

    async def tick(to: int) -> AsyncIterator[int]:
        yield to

    for function in (count, tick):
        assert Signature(function).encode_result(3) == (b"\x03",)
        with pytest.raises(EncodingError):
            Signature(function).encode_result("3")


def test_what_cannot_be_encoded_is_refused_before_it_is_sent() -> None:
    for value in (object(), 1 << 70, "\ud800"):
        with pytest.raises(EncodingError, match="the arguments cannot be encoded"):
            encode_arguments((value,), {})
    with pytest.raises(PayloadTooLarge):
        encode_arguments((bytes(limits.FRAME_BYTES_MAX + 1),), {})


def test_unusable_annotations_are_refused_at_registration() -> None:
    def broken(value: list[int] | tuple[str, ...]) -> None:
        """Two arrays that no reader could tell apart."""

    with pytest.raises(EncodingError, match="the annotations of broken cannot be used"):
        Signature(broken)


def test_failure_carries_type_message_and_traceback() -> None:
    error = decode_failure(encode_failure("ValueError", "bad \ud800", "Traceback …"), "greet", "c.1")
    assert (error.remote_type, error.text, error.remote_traceback) == ("ValueError", "bad ?", "Traceback …")
    assert (error.service, error.task_id, str(error)) == ("greet", "c.1", "ValueError: bad ?")
    assert decode_failure((b"plain words",)).text == "plain words"
