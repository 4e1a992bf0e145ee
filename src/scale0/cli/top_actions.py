"""What can be done with a row of `scale0 top --operate`: commands of the vocabulary whose object the row is.

Each action knows its command, its arguments and what it will do, in words; how surely it must be meant is the
vocabulary's tier, except that sending away a worker with tasks in hand is tier 3, as on the page.
"""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from scale0.cli import render
from scale0.cli.ctl_doors import Brokers
from scale0.cli.views import Row, count
from scale0.management.vocabulary import COMMANDS, Command

SHORT = {"kick_worker": "kick", "cancel_task": "cancel", "retry_dead_letter": "retry", "forget_broker": "forget"}


class Action(msgspec.Struct, frozen=True):
    """One thing that can be done."""

    command: Command
    verb: str
    object: str
    arguments: dict[str, Any] = {}
    brokers: Brokers = "own"
    effect: str = ""
    tier: int = 1

    @property
    def title(self) -> str:
        """`Drain eu-2`: verb and object."""
        return f"{self.verb} {render.safe(self.object)}"

    @property
    def line(self) -> str:
        """The command line that does the same."""
        name = SHORT.get(self.command.name, self.command.name.replace("_", "-"))
        words = ["scale0", "ctl", name, *(str(value) for value in self.arguments.values())]
        named = self.brokers if isinstance(self.brokers, list) else []
        words += [word for broker in named for word in (("--on", broker) if self.arguments else (broker,))]
        return shlex.join(words)


def _action(
    name: str,
    verb: str,
    target: str,
    arguments: dict[str, Any],
    effect: str,
    *,
    tier: int = 0,
    brokers: Brokers = "own",
) -> Action:
    command = COMMANDS[name]
    return Action(command, verb, target, arguments, brokers, effect, max(tier, command.tier))


def of_row(listing: str, row: Row) -> list[Action]:
    """What can be done with this row of this listing."""
    match listing:
        case "services":
            name = str(row.get("name", ""))
            effect = "A task without arguments; it is handled as a client's would be."
            return [_action("test_task", "Send a test task to", name, {"service": name}, effect)]
        case "workers":
            return [_kick(row)]
        case "tasks":
            task = str(row.get("id", ""))
            return [_action("cancel_task", "Cancel", task, {"task": task}, "Its client hears 499.")]
        case "dead_letters":
            task = str(row.get("id", ""))
            effect = "The broker itself asks once more; the letter leaves the list if it succeeds."
            return [_action("retry_dead_letter", "Retry", task, {"task": task}, effect)]
        case "network":
            return _of_broker(row)
        case _:
            return []


def _kick(row: Row) -> Action:
    name, busy = str(row.get("identity", "")), int(row.get("busy") or 0)
    effect = "Its session ends, and it may come back."
    if busy:
        effect = f"{count(busy, 'task')} in hand: tried again where that may be, else lost. It may come back."
    return _action("kick_worker", "Kick", name, {"worker": name}, effect, tier=3 if busy else 2)


def _of_broker(row: Row) -> list[Action]:
    name, state = str(row.get("identity", "")), row.get("state")
    brokers: Brokers = "own" if row.get("is_self") else [name]
    workers = count(int(row.get("workers") or 0), "worker")
    if state in {"gone", "unknown"}:
        effect = "It is taken out of the network's config."
        return [_action("forget_broker", "Forget", name, {"broker": name}, effect)]
    if state in {"disabled", "disabling", "draining"}:
        return [_action("enable", "Enable", name, {}, "It accepts tasks again.", brokers=brokers)]
    return [
        _action("drain", "Drain", name, {}, f"{workers} move to other brokers.", brokers=brokers),
        _action("disable", "Disable", name, {}, "It accepts nothing more, also after a restart.", brokers=brokers),
        _action("reload_config", "Reload the config of", name, {}, "", brokers=brokers),
    ]
