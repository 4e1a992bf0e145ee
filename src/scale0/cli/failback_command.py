"""`scale0 failback`: the primary of a pair serves again, and its fallback broker follows it.

Any broker's address will do: the network's listing says which of the two serves. That one is asked to hand over; it
lets what is in flight end first, so this takes as long as the longest task there, `grace` at most. Then both are asked
until the other one serves. A standby is asked by MANAGEMENTREQ, for it answers nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from scale0.cli import listings, pairs, render
from scale0.cli.failures import Exit, complain, remark
from scale0.cli.listings import Ask
from scale0.cli.pairs import PairRows
from scale0.cli.render import Page
from scale0.cli.views import Row
from scale0.errors import Unreachable, UsageError

LOOK_S = 0.05  # between two looks
ASK_S = 2.0  # for each answer


class CannotFailBackError(Exception):
    """The pair is in no state for it: what, and what to do."""


Manage = Callable[[str, str, dict[str, Any], float], Any]
"""Has the broker at an endpoint carry out a command with its arguments, within so many seconds."""


class Clock(msgspec.Struct, frozen=True):
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def run(name: str, ask: Ask, manage: Manage, timeout_s: float, page: Page, clock: Clock | None = None) -> Exit:
    """Make the primary of the pair `name` serve; without a name, of the only pair that is not as it should be."""
    pair = choose(listings.parse(ask("scale0.network")).rows, name)
    if pair.serving == [pair.primary]:
        page.line(render.verdict("ok", f"{_shown(pair.primary)} serves, and {_standby(pair)}: nothing to do"))
        return Exit.GOOD
    try:
        check(pair)
        return _Handover(pair, manage, timeout_s, page, clock or Clock()).run()
    except CannotFailBackError as error:
        complain(*error.args)
        return Exit.REFUSED


def choose(rows: Sequence[Row], name: str) -> PairRows:
    """The pair that is meant, by the name of either of its brokers."""
    found = pairs.find(rows)
    if not found:
        raise UsageError(
            "no broker of this network has a fallback broker\n"
            "name one in the config, fallback_broker = …, and start it\n"
            "to send workers and clients back to their home broker: scale0 ctl failback"
        )
    names = ", ".join(_shown(pair.primary) for pair in found)
    if name:
        meant = [pair for pair in found if name in (pair.name, pair.fallback.get("identity"))]
        if not meant:
            raise UsageError(f"{render.safe(name)} is of no pair\nthe primaries are: {names}")
        return meant[0]
    standing_in = [pair for pair in found if pair.serving != [pair.primary]]
    if len(found) > 1 and len(standing_in) != 1:
        which = ", ".join(_shown(pair.primary) for pair in standing_in) or names
        raise UsageError(f"which pair?\nname its primary: scale0 failback BROKER, one of {which}")
    return standing_in[0] if standing_in else found[0]


def check(pair: PairRows) -> None:
    """Only a fallback that serves can hand over, and only to a primary that has its state."""
    primary, fallback = _shown(pair.primary), _shown(pair.fallback)
    if pair.is_split:
        raise CannotFailBackError(
            f"{primary} and {fallback} both serve: they cannot hear one another",
            "mend the link between them; then the one with the older epoch steps down by itself",
        )
    if not pair.serving:
        raise CannotFailBackError(
            f"neither {primary} nor {fallback} serves", "start them again; how they are: scale0 network"
        )
    told = pair.fallback.get("fallback")
    if told == "lost":
        raise CannotFailBackError(
            f"{primary} does not follow {fallback}: it is gone", f"start it again; {fallback} serves on"
        )
    if told == "behind":
        raise CannotFailBackError(
            f"{primary} does not follow {fallback} yet: its copy is not whole",
            "try again in a moment; if it stays so, the logs of both say why",
        )


class _Handover:
    """From the command to the moment when the other one serves."""

    def __init__(self, pair: PairRows, manage: Manage, timeout_s: float, page: Page, clock: Clock) -> None:
        self._pair = pair
        self._manage = manage
        self._page = page
        self._clock = clock
        self._began_s = clock.now_s()
        self._until_s = self._began_s + timeout_s

    def run(self) -> Exit:
        pair = self._pair
        self._manage(_endpoint(pair.primary), "list", {"what": "network"}, ASK_S)  # can it be asked, and may we?
        self._began_s = self._clock.now_s()
        self._manage(_endpoint(pair.fallback), "handover", {}, ASK_S)
        row = self._await(pair.primary, lambda row: row.get("state") == "active")
        if row is None:
            return self._give_up()
        took_s = self._clock.now_s() - self._began_s
        took = f"{render.figure(took_s)} s" if took_s >= 1 else f"{round(took_s * 1000)} ms"
        said = f"{_shown(pair.primary)} serves again after {took}, in epoch {row.get('epoch')}"
        self._page.line(render.verdict("ok", said))
        if self._await(pair.primary, lambda row: row.get("fallback") == "in sync") is None:
            remark(f"{_shown(pair.fallback)} does not follow yet; scale0 network shows when it does")
            return Exit.PARTIAL
        self._page.line(f"{_shown(pair.fallback)} follows, and is in sync")
        return Exit.GOOD

    def _await(self, wanted: Row, is_so: Callable[[Row], bool]) -> Row | None:
        """The row of a broker by its own word, as soon as it is so; nothing if the time is over, or it was in vain."""
        while self._clock.now_s() < self._until_s:
            row = self._ask(wanted)
            if is_so(row):
                return row
            if row.get("state") == "passive" and self._ask(self._pair.fallback).get("state") == "active":
                return None  # it has gone on: the primary was lost to it meanwhile
            self._clock.sleep(LOOK_S)
        return None

    def _ask(self, row: Row) -> Row:
        """What a broker says of itself; of one that does not answer nothing is known."""
        try:
            listing = self._manage(_endpoint(row), "list", {"what": "network"}, ASK_S)
        except Unreachable:
            return {}
        rows: list[Row] = listing.get("rows", []) if isinstance(listing, dict) else []
        return next((own for own in rows if own.get("is_self")), {})

    def _give_up(self) -> Exit:
        primary, fallback = _shown(self._pair.primary), _shown(self._pair.fallback)
        state = self._ask(self._pair.fallback).get("state")
        waited_s = render.figure(self._clock.now_s() - self._began_s)
        if state == "active":
            raise CannotFailBackError(
                f"{fallback} serves on: {primary} was lost to it before it could", "how it is: scale0 network"
            )
        raise CannotFailBackError(
            f"{primary} does not serve after {waited_s} s; {fallback} is {render.safe(state or 'silent')}",
            "it waits for what is in flight; look again: scale0 network, or wait longer: --timeout SECONDS",
        )


def _endpoint(row: Row) -> str:
    endpoints = row.get("endpoints")
    if not isinstance(endpoints, list) or not endpoints:
        raise CannotFailBackError(f"nobody told where {_shown(row)} is reached", "add its endpoints to the config")
    return str(endpoints[0])


def _standby(pair: PairRows) -> str:
    told = pair.primary.get("fallback")
    fallback = _shown(pair.fallback)
    return f"{fallback} follows" if told == "in sync" else f"{fallback} is {render.safe(told or 'unknown')}"


def _shown(row: Row) -> str:
    return render.safe(row.get("identity", "?"))
