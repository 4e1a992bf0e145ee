"""`scale0 user`: its commands and options; `user_command.py` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scale0.cli.options import AsJson, leave

if TYPE_CHECKING:
    from scale0.cli.render import Page

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
Who may manage brokers, and how far: view looks, operate acts, admin changes the network.

\b
  [bold]scale0 user add ann --role operate[/bold]   asks for a password
  [bold]scale0 user passwd ann[/bold]               another one; sessions end
  [bold]scale0 user role ann admin[/bold]
  [bold]scale0 user list[/bold]
""",
)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users",
        metavar="FILE",
        envvar="SCALE0_USERS",
        help="The file of users; as management.users of the broker has it.",
        show_default="users.json in the config directory",
    ),
]
Services = Annotated[
    list[str] | None,
    typer.Option("--services", metavar="GLOB", help="Services that test tasks may go to; several times for several."),
]


@app.command()
def add(
    name: Name,
    role: Annotated[str, typer.Option(metavar="view|operate|admin")] = "view",
    services: Services = None,
    users: UsersFile = None,
) -> None:
    """A new user; the password is asked for, or is the first line of standard input."""
    from scale0.cli import user_command

    leave(user_command.add(_path(users), name, role, services or [], _page()))


@app.command()
def passwd(name: Name, users: UsersFile = None) -> None:
    """Another password for a user; sessions that began with the old one end."""
    from scale0.cli import user_command

    leave(user_command.change_password(_path(users), name, _page()))


@app.command()
def role(
    name: Name,
    to: Annotated[str, typer.Argument(metavar="view|operate|admin", show_default=False)],
    services: Services = None,
    users: UsersFile = None,
) -> None:
    """Another role for a user."""
    from scale0.cli import user_command

    leave(user_command.change_role(_path(users), name, to, services or [], _page()))


@app.command()
def remove(name: Name, users: UsersFile = None) -> None:
    """Remove a user; sessions end at once."""
    from scale0.cli import user_command

    leave(user_command.remove(_path(users), name, _page()))


@app.command("list")
def list_users(users: UsersFile = None, is_json: AsJson = False) -> None:
    """Who may manage, and how far?"""
    from scale0.cli import user_command

    leave(user_command.show(_path(users), _page(), is_json=is_json))


@app.command()
def token(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it is written; it must not be there yet.")],
) -> None:
    """Make a token for programs that scrape /metrics."""
    from scale0.cli import user_command

    leave(user_command.make_token(file, _page()))


def _path(users: Path | None) -> Path:
    from scale0.management.places import users_path

    return users if users is not None else users_path()


def _page() -> Page:
    from scale0.cli.render import Page

    return Page()
