"""`scale0 manage COMMAND`: one of the doors to the broker's management commands.

Credentials never stand on the command line, where every user of the machine could read them: they come from
`SCALE0_AUTH_ID` and `SCALE0_AUTH_PASSWORD`, or from a file that its owner alone may read and that holds `id:password`.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from scale0.cli import failures
from scale0.cli.call_command import write_json
from scale0.cli.failures import Exit
from scale0.errors import Scale0Error, UsageError

COMMANDS: dict[str, str] = {
    "list": "what there is: services, workers, clients, brokers, network, config, config_history, dead_letters, …",
    "disable": "accept nothing more, finish what is in flight, and stay off over restarts",
    "enable": "accept again",
    "drain": "move workers and clients away, finish what is held",
    "balance": "move workers until the brokers of the group have equal shares",
    "failback": "send those who came from a broker that was lost back to it: broker=…, or to all; as scale0 failback",
    "handover": "give way to the other one of the pair, which follows",
    "takeover": "serve, though the other one of the pair was not seen: only if it is surely dead",
    "partition": "a drill: drop all traffic with a peer=…, for_s=…, lost=both|sent|received; it heals by itself",
    "heal": "end a drill's partition with a peer=…, or all",
    "reload_config": "read the config file again",
    "config_apply": "change the network's config: document=…; scale0 config apply shows what changes first",
    "config_rollback": "run an older version again: version=…; as scale0 config rollback",
    "forget_broker": "take a broker=… that will not come back out of the network's config",
    "clear_error_client": "forgive a connection=… that is ignored, or all",
    "clear_dead_letters": "forget the tasks that failed their last attempt",
}
"""What `--help` and completion offer; the broker has the last word on what it knows."""

BARE_WORDS: dict[str, str] = {
    "list": "what",
    "failback": "broker",
    "partition": "peer",
    "heal": "peer",
    "config_rollback": "version",
    "forget_broker": "broker",
    "clear_error_client": "connection",
}
"""The argument that a word without a key means: `manage list network` is `manage list what=network`."""

TEXT_ARGUMENTS = frozenset({*BARE_WORDS.values(), "base", "comment", "document"})
"""Never read as JSON: version 1.40 is not the number 1.4."""


class Credentials(msgspec.Struct, frozen=True):
    auth_id: str
    auth_password: str

    def __repr__(self) -> str:
        return f"Credentials({self.auth_id!r}, …)"


def read_credentials(file: Path | None, environ: Mapping[str, str] = os.environ) -> Credentials:
    """From `file` if there is one, else from the environment."""
    if file is not None:
        return _from_file(file)
    auth_id, password = environ.get("SCALE0_AUTH_ID", ""), environ.get("SCALE0_AUTH_PASSWORD", "")
    if not auth_id or not password:
        raise UsageError(
            "managing a broker needs credentials\n"
            "set SCALE0_AUTH_ID and SCALE0_AUTH_PASSWORD, or name a file with --auth-file that holds id:password\n"
            "a broker knows its users from a file: scale0 user add NAME"
        )
    return Credentials(auth_id, password)


def _from_file(file: Path) -> Credentials:
    try:
        mode = file.stat().st_mode
        content = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"{file} can be read by others; chmod 600 {file}")
    auth_id, colon, password = content.partition(":")
    if not colon or not auth_id or not password:
        raise UsageError(f"{file} must hold one line: id:password")
    return Credentials(auth_id, password)


def manager(auth_file: Path | None) -> Callable[[str, str, dict[str, Any], float], Any]:
    """A function that has a broker carry out a command, with the credentials that were given."""
    from scale0.client.manager import manage

    credentials = read_credentials(auth_file)

    def carry_out(endpoint: str, command: str, arguments: dict[str, Any], timeout_s: float) -> Any:
        return manage(
            endpoint,
            command,
            arguments,
            auth_id=credentials.auth_id,
            auth_password=credentials.auth_password,
            timeout_s=timeout_s,
        )

    return carry_out


def read_arguments(words: Sequence[str], command: str = "") -> dict[str, Any]:
    """`what=workers limit=10` as a map; a value that reads as JSON is taken as such, any other as text."""
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and command in BARE_WORDS:
            key, value = BARE_WORDS[command], word
        elif not equals or not key:
            raise UsageError(f"{word!r} is no argument; write key=value")
        if key in arguments:
            raise UsageError(f"{key} is given twice")
        arguments[key] = value if key in TEXT_ARGUMENTS else _value(value)
    return arguments


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def run(endpoints: Sequence[str], command: str, words: Sequence[str], auth_file: Path | None, timeout_s: float) -> Exit:
    """Carry `command` out on each broker and print the results as JSON: of several with their addresses."""
    manage, arguments = manager(auth_file), read_arguments(words, command)
    ends: list[Exit] = []
    for endpoint in endpoints:
        try:
            result = manage(endpoint, command, arguments, timeout_s)
        except Scale0Error as error:
            ends.append(failures.report(error))
            continue
        ends.append(Exit.GOOD)
        write_json(result if len(endpoints) == 1 else {"broker": endpoint, "result": result}, sys.stdout)
    return overall(ends)


def overall(ends: Sequence[Exit]) -> Exit:
    """Good if all were good, partial if some were, else how the first one ended."""
    if all(end == Exit.GOOD for end in ends):
        return Exit.GOOD
    return Exit.PARTIAL if Exit.GOOD in ends else ends[0]
