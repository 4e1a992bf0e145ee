"""`scale0 keys`: make keys, say what each may do, take it back, and replace one by another without a pause.

Secrets stay in their files: nothing here prints one, and none is taken from the command line. Everything works on files
of this machine; a broker that runs notices within a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from scale0.cli.options import AsJson, leave

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
Keys: who may connect, serve and call. A broker with a key encrypts everything, and admits allowed keys only.

\b
  [bold]scale0 keys new broker --kind peer[/bold]                    a broker's key
  [bold]scale0 broker --key broker[/bold]                            which it uses
  [bold]scale0 keys new pay --kind worker[/bold]                     a worker's
  [bold]scale0 keys allow KEY --kind worker --serve 'pay.*'[/bold]   may do so much
  [bold]scale0 keys revoke pay[/bold]                                ends its sessions
""",
)

Kind = Literal["worker", "client", "peer", "any"]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The key's name, or the path of its file.")]
Which = Annotated[str, typer.Argument(metavar="KEY", help="A public key; or a name, of a key file or in the list.")]
Allowed = Annotated[
    Path | None,
    typer.Option(
        "--allowed",
        dir_okay=False,
        help="The broker's list.",
        show_default="$XDG_CONFIG_HOME/scale0/allowed.json",
    ),
]
Keep = Annotated[str, typer.Option("--keep", metavar="TIME", help="How long the old key is good beside the new one.")]
Globs = list[str] | None


@app.command()
def new(
    name: Name,
    kind: Annotated[Kind, typer.Option(help="Whose it is: a worker's, a client's, a broker's (peer), or either's.")] = (
        "any"
    ),
) -> None:
    """Make a key. Its file is for this user alone; the public key is printed, and what to do with it."""
    from scale0.cli import keys_command

    leave(keys_command.new(name, kind))


@app.command()
def show(name: Name, is_json: AsJson = False) -> None:
    """The public key of a key file."""
    from scale0.cli import keys_command

    leave(keys_command.show(name, is_json))


@app.command()
def allow(
    key: Which,
    name: Annotated[str | None, typer.Option(help="What the list calls it; two keys with one name have one owner.")] = (
        None
    ),
    kind: Annotated[
        Kind | None,
        typer.Option(help="worker, client, peer (a broker), or any: worker and client.", show_default="any"),
    ] = None,
    serve: Annotated[Globs, typer.Option(metavar="SERVICE", help="It may serve these, as pay or 'pay.*'.")] = None,
    call: Annotated[Globs, typer.Option(metavar="SERVICE", help="It may call these.")] = None,
    identity: Annotated[Globs, typer.Option(metavar="NAME", help="It may call itself so.")] = None,
    manage: Annotated[bool | None, typer.Option("--manage/--no-manage", help="It may bring commands.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="It ends then: 30d, or 2026-12-31T12:00Z.")] = None,
    instead_of: Annotated[
        str | None, typer.Option(metavar="KEY", help="It follows that one, and may do the same.")
    ] = None,
    keep: Keep = "24h",
    allowed: Allowed = None,
) -> None:
    """Allow a key, or change what it may do. Without limits it may do all that its kind does; again, it may more.

    \b
      scale0 keys allow KEY --kind worker --serve pay --serve 'pay.*'
      scale0 keys allow KEY --kind client --call pay --until 30d
      scale0 keys allow NEW --instead-of OLD --keep 24h
    """
    from scale0.cli import keys_command

    wish = keys_command.Wish(name, kind, serve, call, identity, manage, until)
    if instead_of is not None:
        leave(keys_command.succeed(key, instead_of, keep, allowed))
    else:
        leave(keys_command.allow(key, wish, allowed))


@app.command()
def revoke(key: Which, allowed: Allowed = None) -> None:
    """Take a key off the list. Its sessions end within two seconds, and its next handshake fails."""
    from scale0.cli import keys_command

    leave(keys_command.revoke(key, allowed))


@app.command(name="list")
def list_(allowed: Allowed = None, is_json: AsJson = False) -> None:
    """Which keys are allowed, and for what?"""
    from scale0.cli import keys_command

    leave(keys_command.show_list(allowed, is_json))


@app.command()
def rotate(name: Name, keep: Keep = "24h", allowed: Allowed = None) -> None:
    """Replace a key by a new one, without a pause: both are good for a while.

    A worker's or client's: it has the new one after its restart. A broker's: the network hears of the next one at once,
    and the broker has it when it is restarted after that time.
    """
    from scale0.cli import keys_command

    leave(keys_command.rotate(name, keep, allowed))
