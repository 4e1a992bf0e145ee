"""The alarms that a broker's core raises by itself, when something happens: how grave each is, and what to do.

Such an alarm is an event, not a state: nothing tells when it is over. So it stays for a while after it was last told,
and then counts as cleared. What is also measured (`alarm_rules`) is left to the measuring, which knows its end.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scale0.management.alarm_rules import Severity

QUARTER_S: Final = 900.0
HOUR_S: Final = 3600.0


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """One alarm of the core. Its text, which names the cause, comes with it."""

    name: str
    severity: Severity
    cure: str
    words: str  # in the verdict
    link: str = "#/events"
    lasts_s: float = QUARTER_S


UNKNOWN: Final = Noted(name="", severity="warn", cure="see the broker's log", words="see alarms")
"""For a name that is in no table: a newer core may know more."""

MEASURED: Final = {
    "peer_lost": "broker_gone",
    "fallback_behind": "fallback_lagging",
    "took_over": "fallback_serves",
}
"""The core's names of what is measured too, and the alarm that stands for it."""

RENAMED: Final = {"config_lost": "config_conflict"}
"""The core's name of an event, and the alarm's: a change that lost is a conflict that somebody must settle."""

NOTED: Final = {
    noted.name: noted
    for noted in (
        Noted(
            name="in_doubt",
            severity="bad",
            cure="see whether the other broker of the pair lives and can be reached: scale0 network",
            words="a broker in doubt",
            link="#/topology",
        ),
        Noted(
            name="stepped_down",
            severity="warn",
            cure="both brokers of a pair served for a while; see how: scale0 ctl events",
            words="a broker stepped down",
            link="#/topology",
        ),
        Noted(
            name="stream_unread",
            severity="bad",
            cure="run the same version on both brokers of the pair: scale0 --version",
            words="standby cannot follow",
            link="#/topology",
        ),
        Noted(
            name="link_refused",
            severity="warn",
            cure="the text says in what the two differ: network, keys or version; compare them: scale0 network",
            words="a link is refused",
            link="#/topology",
        ),
        Noted(
            name="clock",
            severity="warn",
            cure="set this machine's clock by NTP: timedatectl set-ntp true",
            words="clock of the broker off",
            link="#/workers",
        ),
        Noted(
            name="clock_jumped",
            severity="warn",
            cure="let NTP slew the clock instead of stepping it",
            words="clock jumped",
            link="#/workers",
        ),
        Noted(
            name="config_conflict",
            severity="bad",
            cure="compare, and apply again what is still wanted: scale0 config history",
            words="config conflict",
            link="#/config",
            lasts_s=HOUR_S,
        ),
        Noted(
            name="config_refused",
            severity="warn",
            cure="mend the document: scale0 config check FILE",
            words="config refused",
            link="#/config",
        ),
        Noted(
            name="config_not_kept",
            severity="bad",
            cure="make room on the disk or give rights to the state directory: a restart would not find the config",
            words="config not kept",
            link="#/config",
            lasts_s=HOUR_S,
        ),
        Noted(
            name="state_not_kept",
            severity="bad",
            cure="make room on the disk or give rights to the state directory: a restart would not find the state",
            words="state not kept",
            link="#/brokers",
            lasts_s=HOUR_S,
        ),
        Noted(
            name="nobody_to_join",
            severity="bad",
            cure="start one of the brokers that it joins by, or name others: scale0 broker --join",
            words="nobody to join",
            link="#/topology",
        ),
        Noted(
            name="join_refused",
            severity="warn",
            cure="enter it in the config, or mend its settings: scale0 config apply FILE",
            words="a broker may not join",
            link="#/topology",
        ),
        Noted(
            name="not_listed",
            severity="bad",
            cure="enter it in the config again, or leave it drained: scale0 config history",
            words="not in the config",
            link="#/config",
            lasts_s=HOUR_S,
        ),
        Noted(
            name="hint",
            severity="warn",
            cure="see the advice: scale0 ctl hints",
            words="advice on workers",
            link="#/workers",
            lasts_s=HOUR_S,
        ),
        Noted(
            name="drill",
            severity="warn",
            cure="to end it before its time: scale0 ctl heal",
            words="a drill is on",
            link="#/topology",
            lasts_s=300.0,
        ),
    )
}
