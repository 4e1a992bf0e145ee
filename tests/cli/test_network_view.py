"""What `scale0 network` says of a network: its verdict, its table, its links, its services, the next command."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scale0.cli import listings
from scale0.cli.network_view import NETWORK, SERVICES_SHOWN_MAX
from scale0.cli.views import BrokerInfo, Row
from tests.cli.canned import gone_broker, listing, network_broker

EU = BrokerInfo("eu-1", "active", 1, "1.42.00c0ffee", network="prod")


def drawn(*rows: Row, width: int | None = None, is_wide: bool = False) -> list[str]:
    lines = listings.draw(listings.parse(listing("network", *rows)), NETWORK, width=width, is_wide=is_wide)
    return [line.plain for line in lines]


def test_a_network_in_trouble_looks_as_in_the_design() -> None:
    rows = [
        network_broker("eu-1", fallback_broker="eu-2"),
        network_broker("eu-2", fallback_groups=["us"], services={"render": 7, "ocr": 0}, forwarded=1_204, received=30),
        gone_broker("us-1", fallback_broker="eu-2"),
    ]
    assert drawn(*rows) == [
        "✗ prod: 3 brokers, 1 gone",
        "GROUP BROKER STATE    FALLBACK      WORKERS CLIENTS QUEUED CONFIG HEARD s",
        "us    us-1   ✗ gone   ● eu-2 active       0       –      – v42         14",
        "eu    eu-1   ● active ● eu-2 active      12       3      0 v42          0",
        "eu    eu-2   ● active → us               12       3      0 v42        1.2",
        "Links: ✗ eu-1↔us-1 silent 14 s · forwarded eu-1→eu-2 1,204, eu-2→eu-1 30",
        "SERVICES",
        "✗ ocr no worker",
        "render 19 (eu-1 12, eu-2 7)",
        "Next: scale0 broker --identity us-1 --bind tcp://us-1:5555 --join tcp://eu-1:5555   "
        "(it is gone: start it again, or scale0 manage forget_broker us-1)",
    ]


def test_a_healthy_network_is_quiet() -> None:
    lines = drawn(network_broker("eu-1"), network_broker("eu-2"))
    assert lines[0] == "● prod: 2 brokers, all active"
    assert not [line for line in lines if line.startswith(("Links", "Next"))]


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
        (network_broker("eu-2", state="disabled"), "scale0 manage enable --broker tcp://eu-2:5555 "),
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
    assert "forget_broker 'x; rm -rf ~ \\x1b[2J')" in lines[-1]


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


def test_a_narrow_terminal_keeps_state_and_config() -> None:
    lines = drawn(network_broker("eu-1"), width=40)
    assert lines[1].split()[:3] == ["BROKER", "STATE", "WORKERS"]
    assert "CONFIG" in lines[1]
    assert "columns: --wide" in "\n".join(lines)
