"""Of all that can be typed, only what was typed is made.

Typer makes every command with all of its options before it looks at what the user wants, which is a fifth of the time
that a broker needs to start. `narrowed` leaves out what the words on the command line pass by. Where a word is an
option, or names nothing, all of that group stays: help lists it, and a mistyped word is compared with every name.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import typer
from typer.models import CommandInfo, TyperInfo


def narrowed(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """`app` with only the command that `words` name, or the group, narrowed likewise."""
    if not words:
        return app
    commands = [one for one in app.registered_commands if _typed_name(one) == words[0]]
    groups = [one for one in app.registered_groups if one.name == words[0]]
    if not commands and not groups:
        return app
    narrow = copy.copy(app)
    narrow.registered_commands = commands
    narrow.registered_groups = [_narrowed_group(one, words[1:]) for one in groups]
    return narrow


def _narrowed_group(group: TyperInfo, words: Sequence[str]) -> TyperInfo:
    assert group.typer_instance is not None
    narrow = copy.copy(group)
    narrow.typer_instance = narrowed(group.typer_instance, words)
    return narrow


def _typed_name(command: CommandInfo) -> str:
    """As Typer names a command that was given no name: after its function."""
    assert command.callback is not None
    return command.name or command.callback.__name__.lower().replace("_", "-")
