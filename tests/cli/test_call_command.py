"""`scale0 call` against a client that only records what it was asked."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from scale0.cli import call_command
from scale0.cli.call_command import Call
from scale0.errors import UsageError


class RecordingClient:
    """Answers with what it was called with."""

    def __init__(self, result: Any = None) -> None:
        self.result = result
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def call(self, service: str, *args: Any, **options: Any) -> Any:
        self.calls.append((service, args, options))
        return self.result

    def stream(self, service: str, *args: Any, **options: Any) -> Iterator[Any]:
        self.calls.append((service, args, options))
        yield from self.result


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def run(call: Call, result: Any = None, stdin: bytes = b"") -> tuple[str, RecordingClient]:
    client = RecordingClient(result)
    out = io.StringIO()
    args, kwargs = call_command.prepare(call, io.BytesIO(stdin))
    assert call_command.run(client, call, args, kwargs, out) == 0  # type: ignore[arg-type]
    return out.getvalue(), client


@pytest.mark.parametrize(
    ("text", "args", "kwargs"),
    [
        (None, [], {}),
        ("", [], {}),
        ("{}", [], {}),
        ('"Ada"', ["Ada"], {}),
        ("3", [3], {}),
        ("null", [None], {}),
        ("[1, 2]", [1, 2], {}),
        ("[[1, 2]]", [[1, 2]], {}),
        ('{"width": 80}', [], {"width": 80}),
    ],
)
def test_json_becomes_arguments(text: str | None, args: list[Any], kwargs: dict[str, Any]) -> None:
    assert call_command.read_arguments(text) == (args, kwargs)


@pytest.mark.parametrize("text", ["[1", '{"width": 80', '"Ada', " [1, ]\n"])
def test_a_slip_in_json_is_not_taken_for_text(text: str) -> None:
    with pytest.raises(UsageError, match="is not JSON") as caught:
        call_command.read_arguments(text)
    assert "quotes" not in str(caught.value)


def test_text_without_quotes_is_explained() -> None:
    with pytest.raises(UsageError, match="text needs its quotes: '\"Ada\"'"):
        call_command.read_arguments("Ada")


def test_a_call_passes_its_options_on() -> None:
    out, client = run(Call("greet", '"Ada"', timeout_s=2.0, priority=3), "hello Ada")
    [(service, args, options)] = client.calls
    assert (service, args) == ("greet", ("Ada",))
    assert (options["timeout"], options["priority"]) == (2.0, 3)
    assert json.loads(out) == "hello Ada"


def test_the_clients_own_options_are_no_keywords() -> None:
    with pytest.raises(UsageError, match="by position"):
        run(Call("greet", '{"timeout": 1}'))


def test_an_argument_comes_from_stdin() -> None:
    _out, client = run(Call("add", "-"), 3, stdin=b"[1, 2]")
    assert client.calls[0][1] == (1, 2)


def test_a_stream_is_a_line_a_part() -> None:
    out, _client = run(Call("count", "3", is_streaming=True), [0, {"a": 1}])
    assert out == '0\n{"a": 1}\n'


def test_raw_passes_bytes_untouched() -> None:
    client = RecordingClient(b"\x00\xff")
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="utf-8")
    call = Call("echo", is_raw=True)
    args, kwargs = call_command.prepare(call, io.BytesIO(b"\x01\xfe"))
    call_command.run(client, call, args, kwargs, out)  # type: ignore[arg-type]
    assert client.calls[0][1] == (b"\x01\xfe",)
    assert raw.getvalue() == b"\x00\xff"


def test_bytes_in_a_result_are_printable() -> None:
    out, _client = run(Call("thumbnail"), {"data": b"\x00"})
    assert json.loads(out) == {"data": "AA=="}


def test_a_terminal_gets_indented_json_that_it_does_not_obey() -> None:
    terminal = Terminal()
    call_command.write_json({"name": "\u202eevil\x9b"}, terminal)
    assert terminal.getvalue() == '{\n  "name": "\\u202eevil\\x9b"\n}\n'
