"""How the help of commands reads: prose fills the line, examples keep theirs, and a flag names no value.

With Rich markup Typer joins the lines of a docstring's first paragraph only: those after it break where the source
does, and where the terminal ends. A paragraph that begins with `\\b` is one of examples, and stays as it is. Of a flag
it says `<bool>`, as if `--json yes` could be written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

EXAMPLES: Final = "\b"


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return without_values(super().get_params(ctx))


def without_values(parameters: list[Any]) -> list[Any]:
    """The same, with flags that show no value; --help, which Typer makes itself, is one of them."""
    for parameter in parameters:
        if getattr(parameter, "is_bool_flag", False):
            parameter.metavar = ""
    return parameters


def tidy(app: typer.Typer) -> None:
    """Let the help of `app` and of all commands below it read so."""
    app.info.cls = app.info.cls or Group
    for command in app.registered_commands:
        command.cls = Command
        command.help = joined(command.help or _doc(command.callback))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            tidy(group.typer_instance)


def joined(text: str) -> str:
    """The same paragraphs, each on one line; examples as they are."""
    return "\n\n".join(
        paragraph if paragraph.startswith(EXAMPLES) else " ".join(paragraph.split()) for paragraph in text.split("\n\n")
    )


def _doc(function: Callable[..., Any] | None) -> str:
    return inspect.getdoc(function) or ""
