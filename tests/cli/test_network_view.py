"""What `scale0 network` says of a network: its verdict, its table, its links, its services, the next command."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scale0.cli import listings
from scale0.cli.network_view import NETWORK, SERVICES_SHOWN_MAX
from scale0.cli.views import BrokerInfo, Row
from tests.cli.canned import gone_broker, listing, network_broker, standby_broker

EU = BrokerInfo("eu-1", "active", 1, "1.42.00c0ffee", network="prod")


def drawn(*rows: Row, width: int | None = None, is_wide: bool = False) -> list[str]:
    lines = listings.draw(listings.parse(listing("network", *rows)), NETWORK, width=width, is_wide=is_wide)
    return [line.plain for line in lines]


def test_a_network_in_trouble_looks_as_in_the_design() -> None:
    rows = [
        network_broker("eu-1", fallback_broker="eu-1b", fallback="in sync"),
        standby_broker("eu-1b"),
        network_broker("eu-2", fallback_groups=["us"], services={"render": 7, "ocr": 0}, forwarded=1_204, received=30),
        gone_broker("us-1", fallback_broker="us-1b"),
        network_broker("us-1b", fallback="lost", services={}),
    ]
    assert drawn(*rows) == [
        "✗ prod: 5 brokers, 1 gone, us-1b serves for us-1",
        "GROUP BROKER STATE     FALLBACK        WORKERS CLIENTS QUEUED CONFIG HEARD s",
        "us    us-1   ✗ gone    ● us-1b active        0       –      – v42         14",
        "eu    eu-1   ● active  ○ eu-1b in sync      12       3      0 v42          0",
        "eu    eu-1b  ○ passive –                     0       0      0 v42        1.2",
        "eu    eu-2   ● active  → us                 12       3      0 v42        1.2",
        "us    us-1b  ● active  ✗ us-1 gone          12       3      0 v42        1.2",
        "Links: ✗ eu-1↔us-1 silent 14 s · forwarded eu-1→eu-2 1,204, eu-2→eu-1 30",
        "SERVICES",
        "✗ ocr no worker",
        "render 19 (eu-1 12, eu-2 7)",
        "Next: scale0 broker --identity us-1 --bind tcp://us-1:5555 --join tcp://eu-1:5555   "
        "(it is gone: start it again; us-1b has no standby until then)",
    ]


def test_a_healthy_network_is_quiet() -> None:
    lines = drawn(network_broker("eu-1"), network_broker("eu-2"))
    assert lines[0] == "● prod: 2 brokers, all active"
    assert not [line for line in lines if line.startswith(("Links", "Next"))]


def test_a_pair_as_it_should_be_is_quiet_too() -> None:
    lines = drawn(network_broker("eu-1", fallback_broker="eu-2", fallback="in sync"), standby_broker("eu-2"))
    assert lines[0] == "● prod: 2 brokers, 1 active, 1 standby"
    assert not [line for line in lines if line.startswith(("Links", "Next"))]


def test_a_standby_that_is_not_linked_with_the_asked_broker_is_no_fault() -> None:
    away = {"link": "none", "heard_us": None, "config_version": None, "workers": None, "clients": None, "queued": None}
    primary = network_broker("eu-2", fallback_broker="eu-2b", fallback="in sync")
    lines = drawn(network_broker("eu-1"), primary, standby_broker("eu-2b", **away))
    assert lines[0] == "● prod: 3 brokers, 2 active, 1 standby"
    assert lines[4].split() == ["eu", "eu-2b", "○", "passive", *"––––––"]
    assert not [line for line in lines if line.startswith(("Links", "Next"))]


PAIRS = {
    "behind": [network_broker("eu-1", fallback_broker="eu-2", fallback="behind"), standby_broker("eu-2")],
    "standing in": [
        network_broker("eu-1", fallback="in sync"),
        standby_broker("eu-2", fallback_broker="eu-1"),
    ],
    "split": [
        network_broker("eu-1"),
        network_broker("eu-2", epoch=3, fallback_broker="eu-3", fallback="lost"),
        network_broker("eu-3", epoch=4, fallback="lost"),
    ],
    "handing over": [
        network_broker("eu-1", state="holding", fallback_broker="eu-2", fallback="in sync"),
        standby_broker("eu-2"),
    ],
}


@pytest.mark.parametrize(
    ("pair", "fill", "sentence", "command"),
    [
        ("behind", "warn", "prod: 2 brokers, eu-2 does not keep up", "scale0 brokers --json --broker tcp://eu-1:5555 "),
        (
            "standing in",
            "ok",
            "prod: 2 brokers, 1 active, 1 standby, eu-1 serves for eu-2",
            "scale0 failback eu-2 ",
        ),
        (
            "split",
            "bad",
            "prod: 3 brokers, eu-2 and eu-3 both serve",
            "scale0 ctl disable --broker tcp://eu-2:5555 ",
        ),
        ("handing over", "warn", "prod: 2 brokers, 1 holding", ""),
    ],
)
def test_the_verdict_and_the_next_command_fit_the_pair(pair: str, fill: str, sentence: str, command: str) -> None:
    assert NETWORK.verdict(PAIRS[pair], EU) == (fill, sentence)
    advice = NETWORK.advise(PAIRS[pair])
    assert advice.startswith(command) if command else not advice


def test_a_standby_that_does_not_keep_up_is_marked_beside_its_primary() -> None:
    assert "! eu-2 behind" in drawn(*PAIRS["behind"])[2]


@pytest.mark.parametrize(
    ("rows", "fill", "sentence"),
    [
        ([], "off", "prod: no broker told of itself (eu-1, config v42)"),
        ([network_broker("eu-1")], "ok", "prod: 1 broker, active"),
        ([network_broker("eu-1"), network_broker("eu-2", is_behind=True)], "warn", "prod: 2 brokers, 1 behind"),
        ([network_broker("eu-1"), network_broker("eu-2", state="joining")], "warn", "prod: 2 brokers, 1 joining"),
        ([network_broker("eu-1"), network_broker("eu-2", link="down")], "warn", "prod: 2 brokers, 1 not linked"),
        ([network_broker("eu-1"), network_broker("eu-2", state="upgrading")], "warn", "prod: 2 brokers, 1 upgrading"),
        ([network_broker("eu-1", state="disabled")], "bad", "prod: 1 broker, 1 disabled"),
        (
            [network_broker("eu-1", is_behind=True), gone_broker("us-1"), gone_broker("us-2", state="unknown")],
            "bad",
            "prod: 3 brokers, 1 gone, 1 unknown, 1 behind",
        ),
    ],
)
def test_the_verdict_counts_what_is_wrong(rows: Sequence[Row], fill: str, sentence: str) -> None:
    assert NETWORK.verdict(rows, EU) == (fill, sentence)


def test_a_broker_that_is_behind_is_marked_in_its_row() -> None:
    row = network_broker("eu-2", is_behind=True, config_version="1.41.0badcafe")
    assert "v41 ! behind" in drawn(network_broker("eu-1"), row)[2]


def test_the_whole_version_is_shown_where_there_is_room() -> None:
    assert "1.42.00c0ffee" not in "\n".join(drawn(network_broker("eu-1")))
    assert "1.42.00c0ffee" in "\n".join(drawn(network_broker("eu-1"), is_wide=True))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (gone_broker("us-1", heard_us=None), "✗ eu-1↔us-1 never heard"),
        (gone_broker("us-1", heard_us=None, link="down"), "✗ eu-1↔us-1 down"),
        (network_broker("us-1", link="down", heard_us=3_000_000), "✗ eu-1↔us-1 silent 3 s"),
    ],
)
def test_a_broken_link_says_how_long(row: Row, fault: str) -> None:
    assert f"Links: {fault}" in drawn(network_broker("eu-1"), row)


@pytest.mark.parametrize(
    ("row", "command"),
    [
        (network_broker("eu-2", state="disabled"), "scale0 ctl enable --broker tcp://eu-2:5555 "),
        (network_broker("eu-2", is_behind=True), "scale0 config show --broker tcp://eu-2:5555 "),
        (network_broker("eu-2", link="down"), "scale0 network --broker tcp://eu-2:5555 "),
        (gone_broker("eu-2", state="unknown", endpoints=[]), "scale0 broker --identity eu-2 --join tcp://eu-1:5555 "),
    ],
)
def test_the_next_command_fits_the_trouble(row: Row, command: str) -> None:
    assert NETWORK.advise([network_broker("eu-1"), row]).startswith(command)


def test_a_hostile_name_cannot_become_a_command() -> None:
    lines = drawn(network_broker("eu-1"), gone_broker("x; rm -rf ~ \x1b[2J", endpoints=["$(reboot)"]))
    assert "--identity 'x; rm -rf ~ \\x1b[2J' --bind '$(reboot)'" in lines[-1]
    assert "forget 'x; rm -rf ~ \\x1b[2J')" in lines[-1]


def test_many_services_are_cut_off_unless_all_are_wanted() -> None:
    services = {f"s{number:03}": 1 for number in range(SERVICES_SHOWN_MAX + 5)}
    rows = [network_broker("eu-1", services=services)]
    assert drawn(*rows)[-1] == "+5 services: --wide"
    assert drawn(*rows, is_wide=True)[-1] == "s044 1 (eu-1 1)"


def test_the_worst_trouble_stands_first() -> None:
    rows = [
        network_broker("eu-1"),
        network_broker("eu-2", is_behind=True),
        network_broker("eu-3", state="draining"),
        gone_broker("us-9"),
    ]
    assert [row["identity"] for row in sorted(rows, key=NETWORK.rank)] == ["us-9", "eu-3", "eu-2", "eu-1"]


def test_a_narrow_terminal_keeps_state_fallback_and_config() -> None:
    lines = drawn(network_broker("eu-1"), width=40)
    assert lines[1].split()[:3] == ["BROKER", "STATE", "FALLBACK"]
    assert "CONFIG" in lines[1]
    assert "columns: --wide" in "\n".join(lines)
