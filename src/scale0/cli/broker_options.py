"""The options of `scale0 broker`, each with what `--help` says of it; those of networks have a panel of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scale0.cli.options import DEFAULT_BROKER

NETWORK = "In a network of brokers"

Bind = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Where to listen; port 0 takes a free one.", show_default=DEFAULT_BROKER),
]
Backend = Annotated[str | None, typer.Option(metavar="ADDRESS", help="A port of their own for the workers.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="Its settings, or a network's: .toml, .json, .zpl or .xml."),
]
Identity = Annotated[str | None, typer.Option(help="What the broker calls itself.")]
StateDir = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        help="Where it keeps what must outlive a restart.",
        show_default="in a network, $XDG_STATE_HOME/scale0/brokers/IDENTITY",
    ),
]
NoState = Annotated[bool, typer.Option("--no-state", help="Keep nothing on disk.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log JSON lines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Log warnings and worse only.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more, and show tracebacks.")]
Insecure = Annotated[
    bool, typer.Option("--insecure-bind", help="Allow an address that other machines can reach, unencrypted.")
]

KEYS = "Where keys are asked for"

Key = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=KEYS, help="Its key: encrypts everything, and admits allowed keys only."
    ),
]
Allowed = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        rich_help_panel=KEYS,
        help="The keys that it allows, as scale0 keys allow writes them.",
        show_default="$XDG_CONFIG_HOME/scale0/allowed.json",
    ),
]
ServerKey = Annotated[
    str | None,
    typer.Option(metavar="KEY", rich_help_panel=KEYS, help="The public key of the broker that it joins by."),
]

TELEMETRY = "Recording what it does, for scale0 pipeline"

Telemetry = Annotated[
    bool,
    typer.Option("--telemetry/--no-telemetry", rich_help_panel=TELEMETRY, help="Record every task and session."),
]
TelemetryDir = Annotated[
    Path | None,
    typer.Option(
        file_okay=False,
        rich_help_panel=TELEMETRY,
        help="Where its recorder works; a directory of its own for each broker.",
        show_default="$XDG_STATE_HOME/scale0/telemetry/IDENTITY",
    ),
]
TelemetryData = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        rich_help_panel=TELEMETRY,
        help="Where sealed segments go: a directory, or a URL such as s3://bucket/path.",
        show_default="$XDG_STATE_HOME/scale0/data; with --telemetry-dir, data/ there",
    ),
]
TelemetryKeep = Annotated[
    float, typer.Option(metavar="DAYS", min=0.01, rich_help_panel=TELEMETRY, help="How long segments are kept.")
]
TelemetryCap = Annotated[
    float,
    typer.Option(metavar="GB", min=0.001, rich_help_panel=TELEMETRY, help="What they may take at most, needed or not."),
]
TelemetrySample = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SERVICE=N",
        rich_help_panel=TELEMETRY,
        help="Of this service keep one usual task in N, and all that failed or were slow; may be given again.",
    ),
]

MANAGE = "The page and the HTTP API"

Manage = Annotated[
    str | None,
    typer.Option(
        "--manage",
        metavar="HOST:PORT",
        rich_help_panel=MANAGE,
        help="Open a page for operators, such as on 127.0.0.1:8480; port 0 takes a free one.",
        show_default="none",
    ),
]
ManageUsers = Annotated[
    Path | None,
    typer.Option(
        "--manage-users",
        dir_okay=False,
        rich_help_panel=MANAGE,
        help="Who may manage it: a file that scale0 user makes.",
        show_default="$XDG_CONFIG_HOME/scale0/users.json",
    ),
]
ManageTlsCert = Annotated[
    Path | None,
    typer.Option(
        "--manage-tls-cert",
        exists=True,
        dir_okay=False,
        rich_help_panel=MANAGE,
        help="Its certificate (PEM); needed where other machines can reach it.",
    ),
]
ManageTlsKey = Annotated[
    Path | None,
    typer.Option(
        "--manage-tls-key", exists=True, dir_okay=False, rich_help_panel=MANAGE, help="The certificate's key."
    ),
]
ManageHost = Annotated[
    list[str] | None,
    typer.Option(
        "--manage-host",
        metavar="NAME",
        rich_help_panel=MANAGE,
        help="A name under which the page may be asked for, besides its address; may be given again.",
    ),
]

Join = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        rich_help_panel=NETWORK,
        help="A broker of the network to join; may be given again. Nobody there yet: it goes on trying.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(rich_help_panel=NETWORK, help="The group that it joins: brokers that stand in for one another."),
]
Publish = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        rich_help_panel=NETWORK,
        help="Where it tells its config's version.",
        show_default="a free port",
    ),
]
