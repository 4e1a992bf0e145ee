"""How Python values become bodies: msgpack by the handler's annotations, and `bytes` untouched. Never pickle.

A broker never looks into a body. Clients and workers agree on this:

| what | body frames | `options` of the TASK |
|---|---|---|
| positional arguments | one: a msgpack array of them | `{"encoding": "msgpack"}` |
| with keyword arguments | one: a msgpack map `{"args": […], "kwargs": {…}}` | `{"encoding": "msgpack"}` |
| exactly one argument, of type bytes | one: these bytes, untouched | `{"encoding": "raw"}` |
| a result | one: msgpack | |
| a result of type bytes | two: an empty frame, then these bytes, untouched | |
| a handler's exception (status `failed`) | one: a msgpack map `{type, message, traceback}` | |

A TASK without that option comes from elsewhere (Majordomo, another language). Then the annotations decide: a handler
whose first parameter is `bytes`, and that needs no other, gets the body as it is; any other has it read as msgpack. And
a `bytes` result goes back as one frame without the empty one ahead, since the asker does not know the mark. The other
way round, a client takes the reply of such a worker as it is with `returns=bytes`. Replies of `scale0.*` services are
JSON, whoever asks.

Reading is strict: a string is not a number. What does not fit raises `EncodingError` and names the parameter.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scale0.errors import EncodingError, PayloadTooLarge, RemoteError
from scale0.protocol import limits
from scale0.protocol.messages import Body

ENCODED: Final = msgspec.msgpack.encode({"encoding": "msgpack"})
RAW: Final = msgspec.msgpack.encode({"encoding": "raw"})
_KNOWN: Final = {ENCODED: "msgpack", RAW: "raw"}  # what our own clients say need not be read each time
JSON_SERVICES: Final = "scale0."

_Decoder = msgspec.msgpack.Decoder[Any] | msgspec.json.Decoder[Any]
_encode = msgspec.msgpack.Encoder().encode
_decode_any = msgspec.msgpack.Decoder().decode
_BAD = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_BYTES_LIKE = (bytes, bytearray, memoryview)
_ARRAY: Final = 0x90  # the first byte of a msgpack array of up to 15, with the length in its low half


class Failure(msgspec.Struct):
    """What a handler raised, as a `failed` reply carries it."""

    type: str
    message: str
    traceback: str = ""


# --- the client's side --------------------------------------------------------------------------------------------


def encode_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Body, bytes]:
    """The body and the options of a TASK with these arguments."""
    try:
        if kwargs:
            frame = _encode({"args": args, "kwargs": kwargs})
        elif len(args) == 1 and isinstance(args[0], _BYTES_LIKE):
            return (_sized(bytes(args[0])),), RAW
        else:
            frame = _encode(args)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        raise EncodingError(f"the arguments cannot be encoded: {error}") from None
    return (_sized(frame),), ENCODED


def decode_result(body: Body, returns: Any = Any, service: str = "") -> Any:
    """The value in a reply, of type `returns`. `returns=bytes` takes a body of one unmarked frame as it is."""
    if len(body) == 1:
        if returns is Any and not service.startswith(JSON_SERVICES):
            try:
                return _decode_any(body[0])  # by far the most common
            except _BAD:
                pass  # the longer way says what is wrong
        if returns is bytes:
            return body[0]
        if service.startswith(JSON_SERVICES):
            return _checked(_json_decoder(returns), body[0], "the reply")
        return _checked(_decoder(returns), body[0], "the reply", "; returns=bytes takes the body as it is")
    if len(body) == 2 and not body[0]:
        if returns is Any or returns is bytes:
            return body[1]
        raise EncodingError(f"the reply: Expected `{_name(returns)}`, got `bytes`")
    if returns is bytes:
        return b"".join(body)
    raise EncodingError(f"the reply has {len(body)} frames; returns=bytes takes them joined")


def decode_failure(body: Body, service: str = "", task_id: str = "") -> RemoteError:
    """The exception for a `failed` reply, whatever its body says."""
    try:
        failure = msgspec.msgpack.decode(body[0], type=Failure)
    except (*_BAD, IndexError):
        text = b" ".join(body)[:500].decode(errors="replace")
        return RemoteError("Error", text or "the handler failed and did not say why", "", service, task_id)
    return RemoteError(failure.type, failure.message, failure.traceback, service, task_id)


# --- the worker's side --------------------------------------------------------------------------------------------


def encode_failure(kind: str, message: str, traceback: str = "") -> Body:
    """The body of a `failed` reply; texts are cut so that it always fits."""
    return (_encode(Failure(*(_utf8(text)[:100_000] for text in (kind, message, traceback)))),)


class Signature:
    """A handler's annotations, made ready to read arguments and to check results."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self.name = name or getattr(function, "__name__", repr(function))
        try:
            signature = inspect.signature(function, eval_str=True)
            self._parameters = [_Parameter(each) for each in signature.parameters.values()]
            self._result_type = _result_type(signature.return_annotation)
            self._check = _decoder(self._result_type)
        except (TypeError, ValueError, NameError, AttributeError) as error:
            raise EncodingError(f"the annotations of {self.name} cannot be used: {error}") from None
        ordered = [each for each in self._parameters if each.is_positional]
        required = sum(not each.has_default for each in ordered)
        self._takes_raw = ordered[:1] != [] and ordered[0].type is bytes and required <= 1
        # One decoder for each number of arguments, by the first byte of the array; the rest goes the longer way.
        self._quick: dict[int, msgspec.msgpack.Decoder[Any]] = {}
        if not any(each.is_required_keyword for each in self._parameters):
            for count in range(required, min(len(ordered), 15) + 1):
                types = tuple(each.type for each in ordered[:count])
                self._quick[_ARRAY + count] = _decoder(tuple[types] if types else tuple[()])  # type: ignore[valid-type]

    def decode_arguments(self, body: Body, options: bytes = b"") -> tuple[typing.Sequence[Any], dict[str, Any]]:
        """The handler's arguments. Raises `EncodingError` that names the parameter."""
        if len(body) != 1:
            if body and any(body):
                raise EncodingError(f"{self.name} takes a body of one frame, not {len(body)}")
            body = (b"\x90",)
        frame = body[0]
        if options == RAW or (options != ENCODED and self._is_raw(options)):
            return ((frame,) if self._takes_raw else self._raw_argument(frame)), {}
        quick = self._quick.get(frame[0] if frame else 0)
        if quick is not None:
            try:
                return quick.decode(frame), {}
            except _BAD:
                pass  # the longer way finds the parameter to name
        return self._bind(*_arguments(frame or b"\x90", self.name))

    def _is_raw(self, options: bytes) -> bool:
        """Whether a body is one argument as it stands: its sender says so, or says nothing and bytes are wanted."""
        encoding = _encoding(options)
        return encoding == "raw" or (encoding is None and self._takes_raw)

    def encode_result(self, value: Any, options: bytes = b"") -> Body:
        """The body for a handler's result, or for one part of it; `options` are those of its TASK."""
        if isinstance(value, _BYTES_LIKE):
            self._expect(bytes, value)
            raw = _sized(bytes(value))
            return (raw,) if _encoding(options) is None else (b"", raw)
        try:
            frame = _sized(_encode(value))
        except (TypeError, OverflowError, ValueError, RecursionError) as error:
            raise EncodingError(f"the result of {self.name} cannot be encoded: {error}") from None
        if type(value) is not self._result_type and self._result_type is not Any:
            _checked(self._check, frame, f"the result of {self.name}")
        return (frame,)

    def _expect(self, kind: type, value: Any) -> None:
        if self._result_type not in (kind, Any, type(value)):
            _checked(self._check, _encode(value), f"the result of {self.name}")

    def _raw_argument(self, frame: bytes) -> tuple[Any, ...]:
        """The body as the one argument of a handler that may want no bytes, and says so then."""
        args, _ = self._bind([msgspec.Raw(_encode(frame))], {})
        return tuple(args)

    def _bind(self, args: list[msgspec.Raw], kwargs: dict[str, msgspec.Raw]) -> tuple[list[Any], dict[str, Any]]:
        """Give each argument to its parameter, as Python would, with each mistake named."""
        values: list[Any] = []
        named: dict[str, Any] = {}
        position = 0
        for parameter in self._parameters:
            where = f"parameter {parameter.name!r} of {self.name}"
            if parameter.kind is parameter.VAR_POSITIONAL:
                values += [_checked(parameter.decoder, raw, where) for raw in args[position:]]
                position = len(args)
            elif parameter.kind is parameter.VAR_KEYWORD:
                named |= {name: _checked(parameter.decoder, raw, where) for name, raw in kwargs.items()}
                kwargs = {}
            elif parameter.is_positional and position < len(args):
                if parameter.name in kwargs:
                    raise EncodingError(f"{where} was given twice")
                values.append(_checked(parameter.decoder, args[position], where))
                position += 1
            elif parameter.name in kwargs and parameter.kind is not parameter.POSITIONAL_ONLY:
                named[parameter.name] = _checked(parameter.decoder, kwargs[parameter.name], where)
                kwargs = {name: raw for name, raw in kwargs.items() if name != parameter.name}
            elif not parameter.has_default:
                raise EncodingError(f"{where} is missing")
        if position < len(args):
            plural = "" if position == 1 else "s"
            raise EncodingError(f"{self.name} takes {position} positional argument{plural}, not {len(args)}")
        if kwargs:
            raise EncodingError(f"{self.name} has no parameter {', '.join(map(repr, kwargs))}")
        return values, named


class _Parameter:
    POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
    VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
    VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD

    def __init__(self, parameter: inspect.Parameter) -> None:
        self.name = parameter.name
        self.kind = parameter.kind
        self.type = Any if parameter.annotation is parameter.empty else parameter.annotation
        self.decoder = _decoder(self.type)
        self.is_positional = self.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        self.has_default = parameter.default is not parameter.empty
        self.is_required_keyword = self.kind is parameter.KEYWORD_ONLY and not self.has_default


class _Call(msgspec.Struct):
    """Arguments when some were given by keyword."""

    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}


_decode_array = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_call = msgspec.msgpack.Decoder(_Call, strict=True).decode


def _arguments(frame: bytes, name: str) -> tuple[list[msgspec.Raw], dict[str, msgspec.Raw]]:
    try:
        if frame[0] >> 4 == 0x8 or frame[0] in (0xDE, 0xDF):
            call = _decode_call(frame)
            return call.args, call.kwargs
        return _decode_array(frame), {}
    except _BAD as error:
        raise EncodingError(f"the arguments for {name} are not a msgpack array or map: {error}") from None


def _result_type(annotation: Any) -> Any:
    """What one reply holds: a generator's annotation names what it yields."""
    if annotation is inspect.Signature.empty:
        return Any
    origin = typing.get_origin(annotation)
    if isinstance(origin, type) and issubclass(origin, (collections.abc.Iterator, collections.abc.AsyncIterator)):
        return typing.get_args(annotation)[0]
    if origin in (collections.abc.Iterable, collections.abc.AsyncIterable):
        return typing.get_args(annotation)[0]
    if annotation in (collections.abc.Iterator, collections.abc.AsyncIterator):
        return Any
    return annotation


def _encoding(options: bytes) -> str | None:
    """What the sender says of its body; None: it did not say."""
    if not options:
        return None
    if options in _KNOWN:
        return _KNOWN[options]
    try:
        return msgspec.msgpack.decode(options, type=_Options).encoding
    except _BAD:
        return None


class _Options(msgspec.Struct):
    encoding: str | None = None


@functools.lru_cache(maxsize=1024)
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


@functools.lru_cache(maxsize=1024)
def _json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _checked(
    decoder: msgspec.msgpack.Decoder[Any] | msgspec.json.Decoder[Any],
    data: bytes | msgspec.Raw,
    where: str,
    cure: str = "",
) -> Any:
    try:
        return decoder.decode(data)
    except _BAD as error:
        raise EncodingError(f"{where}: {error}{cure}") from None


def _sized(frame: bytes) -> bytes:
    if len(frame) > limits.FRAME_BYTES_MAX:
        raise PayloadTooLarge(len(frame), limits.FRAME_BYTES_MAX)
    return frame


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
