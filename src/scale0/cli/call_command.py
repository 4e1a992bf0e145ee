"""`scale0 call SERVICE [JSON]`: one task from the shell, JSON in, JSON out.

A JSON array holds the positional arguments, an object the keyword arguments, and anything else is the one argument; so
a function of one list is called with `[[1, 2]]`. `--raw` sends and prints bytes as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

import msgspec

from scale0.cli import render
from scale0.cli.failures import Exit
from scale0.errors import UsageError

if TYPE_CHECKING:
    from scale0.client import Client

STDIN = "-"


class Call(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    service: str
    argument: str | None = None
    timeout_s: float = 60.0
    priority: int = 1
    is_streaming: bool = False
    is_raw: bool = False


def read_arguments(argument: str | None) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments from a JSON text."""
    if argument is None or not argument.strip():
        return [], {}
    try:
        value = json.loads(argument)
    except json.JSONDecodeError as error:
        what = f"the argument is not JSON: {error.msg} at character {error.pos + 1}"
        if not argument.lstrip().startswith(("[", "{", '"')):  # else it is meant as JSON, and has a slip further on
            what += f"\ntext needs its quotes: '{json.dumps(argument.strip(), ensure_ascii=False)}'"
        raise UsageError(what) from error
    except RecursionError as error:
        raise UsageError("the argument is nested too deeply") from error
    match value:
        case list():
            return value, {}
        case dict():
            return [], value
        case _:
            return [value], {}


def prepare(call: Call, stdin: BinaryIO) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, checked before a broker is asked for: a typing error is told at once."""
    if call.is_raw:
        return [stdin.read() if call.argument in {None, STDIN} else str(call.argument).encode()], {}
    return read_arguments(stdin.read().decode("utf-8", "replace") if call.argument == STDIN else call.argument)


def run(client: Client, call: Call, args: list[Any], kwargs: dict[str, Any], stdout: TextIO) -> Exit:
    """Send the task and print its reply, or its parts as they come."""
    options: dict[str, Any] = {
        "timeout": call.timeout_s,
        "priority": call.priority,
        "returns": bytes if call.is_raw else Any,
    }
    if clash := options.keys() & kwargs.keys():
        # The library's own names for these: they can only be passed by position.
        raise UsageError(f"an argument cannot be named {', '.join(sorted(clash))}; pass it by position, in an array")
    if call.is_streaming:
        return _print_all(client.stream(call.service, *args, **options, **kwargs), call, stdout)
    return _print_all([client.call(call.service, *args, **options, **kwargs)], call, stdout)


def _print_all(results: Iterable[Any], call: Call, stdout: TextIO) -> Exit:
    for result in results:
        if call.is_raw:
            stdout.flush()
            binary = getattr(stdout, "buffer", stdout)
            binary.write(result)
            binary.flush()
        else:
            write_json(result, stdout, is_line=call.is_streaming)
    return Exit.GOOD


def write_json(value: Any, file: TextIO, *, is_line: bool = False) -> None:
    """`value` as JSON: indented for people, one line for programs; what a terminal would obey is escaped."""
    is_terminal = file.isatty()
    plain = msgspec.to_builtins(value, str_keys=True)
    if is_terminal and not is_line:
        text = json.dumps(plain, ensure_ascii=False, indent=2)
    else:
        text = json.dumps(plain, ensure_ascii=False, separators=(", ", ": "))
    shown = "\n".join(render.safe(line) for line in text.split("\n")) if is_terminal else text
    encoding = getattr(file, "encoding", None) or "utf-8"
    file.write(shown.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    file.flush()


def default_stdin() -> BinaryIO:
    return sys.stdin.buffer
