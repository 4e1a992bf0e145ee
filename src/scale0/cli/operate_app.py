"""Commands of operators that stand beside `scale0 ctl`: failback of a pair, the live view, and `manage`, the old name.

`scale0 manage COMMAND KEY=VALUE` is what scripts were written with before `scale0 ctl`; it does what it did, and is not
shown any more.
"""

from __future__ import annotations

from typing import Annotated

import typer

from scale0.cli import ctl_completion
from scale0.cli.ctl_reach import Reach, reaching
from scale0.cli.options import (
    DEFAULT_BROKER,
    AuthFile,
    BrokerAddress,
    Timeout,
    addresses,
    asking,
    keyed,
    leave,
)


@keyed
def manage(
    command: Annotated[
        str,
        typer.Argument(
            metavar="COMMAND",
            help="list, disable, enable, drain, balance, failback, handover, reload_config, …",
            autocompletion=ctl_completion.commands,
        ),
    ],
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Its arguments.")] = None,
    broker: BrokerAddress = DEFAULT_BROKER,
    auth_file: AuthFile = None,
    timeout: Timeout = 5.0,
) -> None:
    """The older form of scale0 ctl: a command by its name, its arguments as key=value, its result as JSON.

    \b
      scale0 manage drain
      scale0 manage list network
      scale0 manage failback broker=eu-1
    """
    from scale0.cli import manage_command

    leave(manage_command.run(addresses(broker), command, words or [], auth_file, timeout))


@keyed
def failback(
    primary: Annotated[
        str,
        typer.Argument(
            metavar="BROKER",
            show_default=False,
            help="The primary; not needed if there is one pair.",
            autocompletion=ctl_completion.names("network"),
        ),
    ] = "",
    broker: BrokerAddress = DEFAULT_BROKER,
    auth_file: AuthFile = None,
    timeout: Timeout = 30.0,
) -> None:
    """Let the primary of a pair serve again: its fallback broker finishes what is in flight, and hands over.

    \b
      scale0 failback
      scale0 failback eu-1 --broker tcp://eu-2:5555    any broker of the network
    """
    from scale0.cli import failback_command, manage_command
    from scale0.cli.render import Page

    carry_out = manage_command.manager(auth_file)
    with asking(broker) as ask:
        leave(failback_command.run(primary, ask, carry_out, timeout, Page()))


def _top(
    reach: Reach,
    is_operating: Annotated[
        bool, typer.Option("--operate", help="Allow changes: kick, cancel, drain …; else it only looks.")
    ] = False,
    filter_words: Annotated[
        str, typer.Option("--filter", "-f", metavar="WORDS", help="Begin with this filter: 'state:full svc:render*'.")
    ] = "",
) -> None:
    """Watch it live: verdict, figures, services, workers. ? shows the keys; q leaves.

    \b
      scale0 top
      scale0 top --operate --url https://eu-1:8480
    """
    from scale0.cli import top

    leave(top.run(reach.door(), is_operating=is_operating, filter_words=filter_words))


top = keyed(reaching(_top))
