"""How the help of commands reads: prose fills the line, examples keep theirs.

With Rich markup Typer joins the lines of a docstring's first paragraph only: those after it break where the source
does, and where the terminal ends. A paragraph that begins with `\\b` is one of examples, and stays as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import typer

EXAMPLES: Final = "\b"


def join_lines(app: typer.Typer) -> None:
    """Let the prose of all commands below `app` fill the line."""
    for command in app.registered_commands:
        command.help = joined(command.help or _doc(command.callback))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            join_lines(group.typer_instance)


def joined(text: str) -> str:
    """The same paragraphs, each on one line; examples as they are."""
    return "\n\n".join(
        paragraph if paragraph.startswith(EXAMPLES) else " ".join(paragraph.split()) for paragraph in text.split("\n\n")
    )


def _doc(function: Callable[..., Any] | None) -> str:
    return inspect.getdoc(function) or ""
