"""The page's pure modules: where the topology's boxes stand, what differs between documents, how rows keep places."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from scale0.cli.main import app
from scale0.management.filters import severity
from scale0.management.vocabulary import COMMANDS
from tests.management.http import fake_rows
from tests.web.modules import Modules

Row = dict[str, Any]


def drawn(modules: Modules, rows: list[Row], rates: dict[str, float] | None = None) -> Any:
    return modules.run("layout.js", "return m.layout(given.rows, given.rates)", {"rows": rows, "rates": rates or {}})


def broker(identity: str, group: str = "eu", **more: Any) -> Row:
    row = {"identity": identity, "group": group, "fallback_broker": "", "fallback_groups": [], "is_self": False}
    return {**row, "state": "active", "link": "up", "heard_us": 100_000, "workers": 1, "epoch": 1, **more}


def test_brokers_of_a_group_are_stacked_cards(modules: Modules) -> None:
    made = drawn(modules, [broker("eu-1", is_self=True, link="self"), broker("eu-2"), broker("eu-3")])
    cards = [box for box in made["boxes"] if box["kind"] == "broker"]
    assert [(card["w"], card["h"]) for card in cards] == [(208, 74)] * 3
    assert len({card["x"] for card in cards}) == 1
    assert sorted(card["y"] for card in cards) == [card["y"] for card in cards]
    assert all(below["y"] >= above["y"] + 74 for above, below in itertools.pairwise(cards))


def test_a_fallback_is_docked_to_the_right_of_its_primary(modules: Modules) -> None:
    rows = [broker("us-1", state="gone", fallback_broker="us-1b"), broker("us-1b", epoch=4)]
    made = drawn(modules, rows)
    primary, docked = made["boxes"]
    assert (docked["kind"], docked["w"], docked["h"], docked["serves"]) == ("fallback", 124, 46, True)
    assert docked["x"] > primary["x"] + primary["w"]
    assert docked["y"] + docked["h"] / 2 == primary["y"] + primary["h"] / 2
    [stream] = [link for link in made["links"] if link["kind"] == "stream"]
    assert (stream["from"], stream["to"]) == ("us-1", "us-1b")


def test_a_group_stands_left_of_those_that_stand_in_for_it(modules: Modules) -> None:
    rows = [broker("ap-1", "ap"), broker("us-1", "us", fallback_groups=["ap"]), broker("eu-1", fallback_groups=["us"])]
    assert [frame["name"] for frame in drawn(modules, rows)["frames"]] == ["eu", "us", "ap"]


def test_a_circle_of_fallback_groups_is_cut_where_it_closes(modules: Modules) -> None:
    rows = [broker("eu-1", fallback_groups=["us"]), broker("us-1", "us", fallback_groups=["eu"])]
    assert [frame["name"] for frame in drawn(modules, rows)["frames"]] == ["eu", "us"]


def test_peers_share_a_rail_and_only_faults_get_a_line(modules: Modules) -> None:
    rows = [broker("eu-1", is_self=True, link="self"), *(broker(f"eu-{number}") for number in range(2, 9))]
    kinds = [link["kind"] for link in drawn(modules, rows)["links"]]
    assert kinds == ["rail"]
    rows[3]["link"] = "down"
    faults = [link for link in drawn(modules, rows)["links"] if link["kind"] == "fault"]
    assert [(fault["from"], fault["to"], fault["isOneWay"]) for fault in faults] == [("eu-1", "eu-4", False)]


def test_a_broken_link_over_which_something_was_heard_is_cut_one_way(modules: Modules) -> None:
    rows = [broker("eu-1", is_self=True, link="self"), broker("eu-2", link="dialing", heard_us=200_000)]
    [fault] = [link for link in drawn(modules, rows)["links"] if link["kind"] == "fault"]
    assert fault["isOneWay"]


@pytest.mark.parametrize("cut", ["eu-1", "eu-3"])
def test_the_words_of_a_fault_stand_between_cards(modules: Modules, cut: str) -> None:
    rows = [broker(name, link="down" if name == cut else "up") for name in ("eu-1", "eu-2", "eu-3")]
    rows[1] |= {"is_self": True, "link": "self"}
    made = drawn(modules, rows)
    [note_y] = [link["noteY"] for link in made["links"] if link["kind"] == "fault"]
    letters_px = 9
    for card in made["boxes"]:
        assert note_y < card["y"] or note_y - letters_px >= card["y"] + card["h"]


def test_a_logarithmic_axis_has_lines_at_powers_of_ten_alone(modules: Modules) -> None:
    told = modules.run("charts.js", "return m.decades(null, given)", [0.1, 0.2, 0.9, 1, 2, 10, 50, 100, 1000, 2000])
    assert told == [0.1, None, None, 1, None, 10, None, 100, 1000, None]


def test_arrows_to_fallback_groups_have_order_and_rate(modules: Modules) -> None:
    rows = [broker("eu-1", is_self=True, fallback_groups=["us", "ap"]), broker("us-1", "us"), broker("ap-1", "ap")]
    arrows = [link for link in drawn(modules, rows, {"us-1": 120.0})["links"] if link["kind"] == "standin"]
    assert [(one["to"], one["order"], one["per_s"], one["isIdle"]) for one in arrows] == [
        ("us", 1, 120.0, False),
        ("ap", 2, 0, True),
    ]


def test_over_24_brokers_a_group_is_one_card(modules: Modules) -> None:
    rows = [broker(f"b-{number}", f"g-{number % 3}") for number in range(25)]
    made = drawn(modules, rows)
    assert made["isCollapsed"]
    assert [(box["kind"], len(box["members"])) for box in made["boxes"]] == [("group", 9), ("group", 8), ("group", 8)]


def test_no_two_boxes_of_a_drawing_overlap(modules: Modules) -> None:
    boxes = drawn(modules, fake_rows.network())["boxes"]
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            is_apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            is_apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
            assert is_apart_x or is_apart_y


def test_documents_are_compared_by_the_names_of_their_entries(modules: Modules) -> None:
    before = {"network": "prod", "brokers": [{"identity": "eu-1"}, {"identity": "eu-2", "state": "active"}]}
    after = {"network": "prod", "brokers": [{"identity": "eu-2", "state": "disabled"}, {"identity": "eu-3"}]}
    before["services"] = [{"name": "render", "timeout": 10}]
    after["services"] = [{"name": "render", "timeout": 5}]
    told = modules.run("format.js", "return m.diff(given[0], given[1])", [before, after])
    assert {one["key"]: (one.get("before"), one.get("after")) for one in told} == {
        "broker.eu-1": ("as by default", None),
        "broker.eu-2.state": ("active", "disabled"),
        "broker.eu-3": (None, "as by default"),
        "service.render.timeout": ("10", "5"),
    }


def test_rows_keep_their_places_while_their_order_is_frozen(modules: Modules) -> None:
    told = modules.run(
        "table.js",
        """
        const rows = new m.Rows((row) => row.id);
        const shown = () => rows.window(0, 9).map(({ row }) => row.id + row.v);
        rows.take(0, [{ id: "a", v: 1 }, { id: "b", v: 1 }], 2);
        rows.isFrozen = true;
        rows.take(0, [{ id: "c", v: 2 }, { id: "b", v: 2 }, { id: "a", v: 2 }], 3);
        const frozen = [shown(), rows.arrived];
        rows.isFrozen = false;
        rows.take(0, [{ id: "c", v: 3 }, { id: "b", v: 3 }, { id: "a", v: 3 }], 3);
        return [...frozen, shown()];
        """,
    )
    assert told == [["a2", "b2"], 1, ["c3", "b3", "a3"]]


def test_rows_that_were_not_asked_for_are_holes(modules: Modules) -> None:
    told = modules.run(
        "table.js",
        """
        const rows = new m.Rows((row) => row.id);
        rows.take(0, [{ id: "a" }], 100);
        rows.take(50, [{ id: "z" }], 100);
        return rows.window(49, 52).map(({ index, row }) => [index, row ? row.id : null]);
        """,
    )
    assert told == [[49, None], [50, "z"], [51, None]]


def test_minutes_without_a_row_stay_gaps(modules: Modules) -> None:
    columns: Row = {"minute_us": [0, 60_000_000, 240_000_000]}
    columns |= {key: [60, 60, 60] for key in ("count", "replied")}
    columns |= {key: [0, 6, 0] for key in ("errors", "late")}
    columns |= {key: [0, 0, 0] for key in ("refused", "lost", "over_limit", "worker_us", "network_us", "network_count")}
    columns |= {"queue_us": [60_000, 0, 0], "p50_us": [1000.0, 2000.0, None]}
    told = modules.run("charts.js", "return m.series(given, 60e6)", columns)
    assert told["times"] == [0, 60, 120, 180, 240]
    assert told["accepted"] == [1, 1, None, None, 1]
    assert told["p50"] == [1, 2, None, None, None]
    assert told["queue"] == [1, 0, None, None, 0]
    assert told["families"]["late"] == [0, 6, None, None, 0]
    assert told["gaps"] == [[120, 240]]


def test_a_life_is_a_row_an_attempt(modules: Modules) -> None:
    main: Row = {"role": "origin", "dispatched_us": 6_000, "worker": "w-15", "via": None}
    main["attempts"] = [{"worker": "w-12", "via": None, "dispatched_us": 1_100, "ended_us": 3_000, "outcome": "lost"}]
    main |= {"worker_us": 59_000, "worker_offset_us": 50_000, "worker_error_us": 40, "work_us": 2_000, "wait_us": 0}
    life = {"latency_us": 9_000, "received_us": 1_000, "rows": [main]}
    told = modules.run("details.js", "return m.bars(given)", life)
    assert [row["label"] for row in told] == ["w-12", "w-15"]
    assert [(bar["part"], bar["from"], bar["to"]) for bar in told[0]["bars"]] == [
        ("queue", 0, 100),
        ("lost", 100, 2000),
    ]
    assert [(bar["part"], bar["from"], bar["to"]) for bar in told[1]["bars"]] == [
        ("queue", 2000, 5000),
        ("network", 5000, 6000),
        ("worker", 6000, 8000),
        ("network", 8000, 9000),
    ]
    assert told[1]["whisker"] == {"at": 8000, "error": 40}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0, "0"), (1204.4, "1,204"), (41.26, "41.3"), (0.84449, "0.844"), (5000, "5,000")],
)
def test_numbers_have_three_significant_digits(modules: Modules, value: float | None, shown: str) -> None:
    assert modules.run("format.js", "return m.number(given)", value) == shown


def test_invisible_and_turning_characters_are_shown(modules: Modules) -> None:
    assert modules.run("format.js", "return m.visible(given)", "a\u202eb\x1b[2J") == "a\\u202eb\\u001b[2J"


WISHES: list[tuple[str, Row, Any]] = [
    ("drain", {}, ["eu-2"]),
    ("disable", {}, "own"),
    ("enable", {}, "all"),
    ("reload_config", {}, ["eu-2", "eu-3"]),
    ("failback", {"broker": "eu-1"}, "all"),
    ("handover", {}, ["eu-1"]),
    ("forget_broker", {"broker": "eu-1"}, "own"),
    ("kick_worker", {"worker": "it's <b>"}, ["eu-2"]),
    ("cancel_task", {"task": "c-1.00aa.7"}, "own"),
    ("retry_dead_letter", {"task": "c-1.00aa.7"}, "own"),
    ("clear_dead_letters", {}, "own"),
    ("clear_error_client", {"connection": "00aa"}, "own"),
    ("test_task", {"service": "render", "body": '{"a": 1}', "timeout_s": 2.5}, "own"),
    ("config_apply", {"document": "{}", "comment": "why not"}, "own"),
    ("config_rollback", {"version": "1.41.eu-1"}, "own"),
]


@pytest.mark.parametrize(("name", "given", "brokers"), WISHES, ids=[name for name, _, _ in WISHES])
def test_the_command_line_of_an_action_can_be_typed(
    modules: Modules, name: str, given: Row, brokers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in COMMANDS
    monkeypatch.chdir(tmp_path)
    Path("network.json").write_text("{}")
    line = modules.run("format.js", "return m.lineOf(given[0], given[1], given[2])", [name, given, brokers])
    words = shlex.split(line)
    assert words[0] == "scale0"
    parsed(words[1:])


WELL: dict[str, Row] = {
    "services": {"state": "ok", "queued": 0, "oldest_us": None, "errors_5m": 0},
    "workers": {"state": "ready", "stuck": 0, "heartbeat_age_us": 1, "heartbeat_interval_us": 10, "is_behind": False},
    "network": {"state": "active", "link": "up", "is_self": False, "fallback": None, "is_behind": False},
    "clients": {"open_tasks": 3, "errors_5m": 0, "limit_percent": 1.0, "is_absent": False},
}
MORE: list[tuple[str, Row]] = [
    *((topic, {}) for topic in WELL),
    *(("services", more) for more in ({"state": "full"}, {"oldest_us": 20_000}, {"oldest_us": 1_000_000})),
    *(("services", more) for more in ({"state": "no worker"}, {"state": "at peers"}, {"errors_5m": 1})),
    *(("workers", {"state": state}) for state in ("full", "gone", "draining")),
    *(("workers", more) for more in ({"stuck": 1}, {"heartbeat_age_us": 21}, {"is_behind": True}, {"is_absent": True})),
    *(
        ("network", {"state": state})
        for state in ("passive", "joining", "draining", "disabling", "holding", "disabled")
    ),
    *(("network", {"state": state}) for state in ("gone", "unknown")),
    *(("network", more) for more in ({"link": "down"}, {"link": "dialing"}, {"link": "none"}, {"link": "self"})),
    *(("network", more) for more in ({"fallback": "lost"}, {"fallback": "in sync"}, {"is_behind": True})),
    *(("clients", more) for more in ({"errors_5m": 1}, {"limit_percent": 90.0}, {"is_absent": True})),
]


def test_the_page_marks_the_rows_that_the_server_counts_as_problems(modules: Modules) -> None:
    rows = [(topic, {**WELL[topic], **more}) for topic, more in MORE]
    marked = modules.run("format.js", "return given.map(([topic, row]) => m.problemsOf(topic, row).length > 0)", rows)
    counted = [severity(row) > 0 for _topic, row in rows]
    assert [one for one, page, server in zip(MORE, marked, counted, strict=True) if page != server] == []


@pytest.mark.parametrize("name", ["workers", "dead_letters", "config", "config_history", "network"])
def test_the_command_line_of_a_screen_can_be_typed(modules: Modules, name: str) -> None:
    parsed(
        shlex.split(modules.run("format.js", "return m.listingLine(given, 'state:full hb>3s', '-queued')", name))[1:]
    )


def parsed(words: list[str]) -> None:
    """Read as the command line reads it, down to the last command, which is not run. Raises at a wrong word."""
    command: Any = get_command(app)
    context = command.make_context("scale0", [], resilient_parsing=True)
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        group = hasattr(command, "resolve_command")
        context = command.make_context(name, [] if group else list(words), parent=context, resilient_parsing=group)
