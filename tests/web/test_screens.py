"""Each screen: what it answers, what it says where there is nothing, and what the address holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from scale0.management.http.heat_maps import picture
from scale0.management.http.shapes import Heat
from tests.management.http.fake_rows import EVIL
from tests.web.conftest import LogIn
from tests.web.served import Served

pytestmark = pytest.mark.browser

FEW = Heat("scale0.heat/1", 0, 60_000_000, 3, [0, 0, 2], [40, 41, 52], [900, 20, 1])


def row(tab: Page, kind: str, key: str) -> Any:
    return tab.locator(f'[data-testid="{kind}-row"][data-key="{key}"]')


def test_the_overview_opens_with_verdict_figures_and_alarms(log_in: LogIn) -> None:
    tab = log_in()
    expect(tab.get_by_test_id("verdict")).to_have_text("1 broker gone, us-1b serves · ! eu-3 behind")
    expect(tab.get_by_test_id("verdict")).to_have_attribute("data-level", "bad")
    expect(tab.get_by_test_id("figure-queued")).to_contain_text("12 · 8.2")
    expect(tab.get_by_test_id("figure-free")).to_contain_text("31/96")
    alarm = tab.locator('[data-testid="alarm"][data-name="service_without_worker"]')
    expect(alarm).to_contain_text("nobody serves ocr")
    expect(alarm).to_contain_text("start one: scale0 worker module:app")
    expect(tab.get_by_test_id("worst-row").first).to_have_attribute("data-key", "ocr")
    expect(tab.get_by_test_id("chart-latency")).to_have_attribute("data-points", "180")
    expect(tab.get_by_test_id("chart-errors").locator("canvas")).to_be_visible()
    alarm.get_by_role("link", name="look").click()
    expect(tab.get_by_test_id("drawer")).to_have_attribute("data-key", "ocr")


def test_the_topology_shows_who_serves_and_what_is_broken(log_in: LogIn) -> None:
    tab = log_in("topology")
    expect(tab.locator('[data-testid="box"]')).to_have_count(7)
    expect(tab.locator('[data-testid="box"][data-key="us-1b"]')).to_contain_text("active, epoch 4")
    expect(tab.locator('[data-testid="fault"][data-to="us-1"]')).to_have_count(1)
    expect(tab.get_by_test_id("mirror").locator("tbody tr")).to_have_count(7)
    tab.locator('[data-testid="box"][data-key="eu-3"]').click()
    expect(tab.get_by_test_id("drawer")).to_contain_text("behind")


def test_on_a_narrow_screen_the_topology_is_a_list(log_in: LogIn) -> None:
    tab = log_in()
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(tab.url.split("#")[0] + "#/topology")
    expect(tab.get_by_test_id("mirror")).to_be_visible()
    expect(tab.locator("svg.network")).to_be_hidden()
    tab.get_by_test_id("mirror").get_by_role("link", name="us-1b").click()
    expect(tab.get_by_test_id("drawer")).to_be_visible()


def test_workers_that_left_or_died_are_shown_with_when_and_why(log_in: LogIn) -> None:
    tab = log_in("workers?view=gone")
    expect(row(tab, "gone-workers", "w-71")).to_contain_text("silent")
    expect(row(tab, "gone-workers", "w-71")).to_contain_text("11:50:00")
    expect(row(tab, "gone-workers", "w-72")).to_contain_text("drained")


def test_brokers_are_listed_with_problems_first(log_in: LogIn) -> None:
    tab = log_in("brokers")
    expect(tab.get_by_test_id("brokers-row").first).to_have_attribute("data-key", "us-1")
    expect(row(tab, "brokers", "us-1")).to_contain_text("gone, not linked")
    expect(row(tab, "brokers", "us-1")).to_contain_text("us-1b active")
    expect(row(tab, "brokers", "eu-1")).to_contain_text("11.5")
    expect(row(tab, "brokers", "eu-3")).to_contain_text("46")


def test_a_service_without_a_worker_is_flagged_and_names_the_next_command(log_in: LogIn) -> None:
    tab = log_in("services")
    expect(row(tab, "services", "ocr")).to_have_attribute("data-state", "no worker")
    row(tab, "services", "ocr").click()
    expect(tab.get_by_test_id("drawer")).to_contain_text("No worker serves ocr. Start one:")
    expect(tab.get_by_test_id("drawer").get_by_test_id("command-line").first).to_have_text("scale0 worker module:app")


def test_a_worker_shows_place_heartbeat_config_and_clock(log_in: LogIn) -> None:
    tab = log_in("workers?sel=w-12")
    line = row(tab, "workers", "w-12")
    expect(line).to_contain_text("ready, late, behind")
    expect(line).to_contain_text("2.9/1")
    expect(line).to_contain_text("v41")
    expect(tab.get_by_test_id("drawer")).to_contain_text("Place in the LRU queue")
    expect(tab.get_by_test_id("drawer")).to_contain_text("c-12.00000000000000aa.0")


def test_a_worker_with_a_hostile_name_is_only_text(log_in: LogIn) -> None:
    tab = log_in("workers")
    shown: list[str] = []
    tab.on("dialog", lambda dialog: shown.append(dialog.message))
    line = row(tab, "workers", EVIL)
    expect(line.locator("a.row")).to_have_text(EVIL)
    line.click()
    expect(tab.get_by_test_id("drawer").locator("h2")).to_contain_text(EVIL)
    tab.get_by_test_id("drawer").get_by_test_id("action-kick_worker").click()
    expect(tab.get_by_test_id("confirm")).to_contain_text(f"Kick {EVIL}")
    assert tab.locator("img").count() == 0
    assert shown == []


def test_clients_and_ignored_connections_are_listed(log_in: LogIn) -> None:
    tab = log_in("clients")
    expect(tab.get_by_test_id("clients-row")).to_have_count(9)
    tab.get_by_test_id("tab-ignored").click()
    expect(tab.get_by_test_id("error-clients-row")).to_contain_text("not a message")


def test_tasks_and_dead_letters_are_listed(log_in: LogIn) -> None:
    tab = log_in("tasks")
    expect(tab.get_by_test_id("count")).to_contain_text("40")
    tab.get_by_test_id("tab-dead").click()
    expect(tab.get_by_test_id("dead-letters-row")).to_have_count(3)
    tab.get_by_test_id("dead-letters-row").first.click()
    expect(tab.get_by_test_id("drawer")).to_contain_text("the worker was lost 3 times")


def life() -> dict[str, Any]:
    attempt = {"worker": "w-12", "via": None, "dispatched_us": 3_000, "ended_us": 3_412_000, "outcome": "lost"}
    main = {"role": "origin", "dispatched_us": 6_532_000, "worker": "w-15", "via": None, "attempts": [attempt]}
    main |= {"worker_us": None, "worker_offset_us": None}
    steps = [{"at_us": 3_000, "error_us": 0, "broker": "eu-1", "text": "attempt 1 → w-12"}]
    shares = [{"part": "queue", "us": 3_123_000, "share": 0.31}, {"part": "worker", "us": 6_877_000, "share": 0.69}]
    told = {"task_id": "t", "service": "render", "code": 504, "latency_us": 10_000_000, "received_us": 0}
    return told | {"record": "record complete", "cause": "w-12 lost", "steps": steps, "shares": shares, "rows": [main]}


def test_the_drawer_of_a_task_tells_why_as_a_gantt(log_in: LogIn, tab: Page) -> None:
    tab.route("**/api/v1/why/*", lambda route: route.fulfill(json=life()))
    log_in("tasks?view=dead&sel=c-1.00000000000000aa.0")
    gantt = tab.get_by_test_id("gantt")
    expect(gantt).to_contain_text("Cause: w-12 lost")
    expect(gantt.locator("svg rect.queue")).to_have_count(2)
    expect(gantt.locator("svg rect.lost")).to_have_count(1)
    expect(gantt).to_contain_text("+0.003 attempt 1 → w-12")


def test_where_nothing_is_recorded_the_next_command_is_named(log_in: LogIn) -> None:
    tab = log_in("trends")
    expect(tab.get_by_test_id("empty-state")).to_contain_text("this broker records nothing")
    expect(tab.get_by_test_id("command-line")).to_have_text("scale0 broker --telemetry")
    tab.goto(tab.url.split("#")[0] + "#/tasks?sel=c-0.00000000000000aa.0")
    expect(tab.get_by_test_id("why-missing")).to_contain_text("records nothing")


def trend(route: Route) -> None:
    minutes = [number * 60_000_000 + 1_700_000_000_000_000 // 60_000_000 * 60_000_000 for number in range(60)]
    del minutes[20:30]
    count = len(minutes)
    columns: dict[str, Any] = {"minute_us": minutes, "service": ["render"] * count}
    columns |= {key: [600] * count for key in ("count", "replied")}
    columns |= {key: [0] * count for key in ("refused", "lost", "over_limit", "network_us", "network_count")}
    columns |= {key: [3] * count for key in ("errors", "late")}
    columns |= {key: [6_000_000] * count for key in ("queue_us", "worker_us")}
    columns |= {"p50_us": [8e3] * count, "p90_us": [2e4] * count, "p99_us": [4e4] * count}
    told = {"schema": "scale0.trends/1", "table": "service_1m", "from_us": 0, "to_us": 0, "rows": count}
    route.fulfill(json=told | {"completeness": 0.98, "lost": 1_240, "columns": columns})


def test_trends_show_the_heat_map_of_the_period_in_the_pages_colours(log_in: LogIn, tab: Page) -> None:
    asked: list[str] = []

    def draw(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(content_type="image/svg+xml", body=picture(FEW, is_light=False))

    tab.route("**/api/v1/trends?*", trend)
    tab.route("**/api/v1/heat.svg?*", draw)
    log_in("trends")
    heat = tab.get_by_test_id("chart-heat")
    heat.scroll_into_view_if_needed()
    expect(heat).to_have_js_property("complete", True)
    assert heat.evaluate("image => image.naturalWidth") > 0
    assert "from=" in asked[-1]
    assert "to=" in asked[-1]
    tab.goto(tab.url.split("#")[0] + "#/trends?span=60d")
    expect(heat).to_have_count(0)


def test_trends_keep_gaps_tell_what_is_missing_and_zoom_by_a_drag(log_in: LogIn, tab: Page) -> None:
    tab.route("**/api/v1/trends?*", trend)
    log_in("trends")
    expect(tab.get_by_test_id("chart-throughput")).to_have_attribute("data-points", "60")
    expect(tab.get_by_test_id("screen-trends")).to_contain_text("98.0 % recorded; recorder lost 1,240 events")
    expect(tab.get_by_test_id("screen-trends")).to_contain_text("Hatched: nothing was recorded.")
    over = tab.get_by_test_id("chart-throughput").locator(".u-over").bounding_box()
    assert over is not None
    tab.mouse.move(over["x"] + 80, over["y"] + 40)
    tab.mouse.down()
    tab.mouse.move(over["x"] + 220, over["y"] + 50, steps=4)
    tab.mouse.up()
    expect(tab.get_by_test_id("zoom-out")).to_be_visible()
    assert "from=" in tab.url
    tab.get_by_test_id("zoom-out").click()
    expect(tab.get_by_test_id("zoom-out")).to_have_count(0)


def test_config_shows_versions_who_is_behind_and_what_differs(log_in: LogIn) -> None:
    tab = log_in("config")
    expect(tab.get_by_test_id("config-reach")).to_contain_text("v42 current: 5/7 brokers")
    expect(tab.get_by_test_id("config-reach")).to_contain_text("behind: eu-3")
    expect(tab.get_by_test_id("config-row")).to_have_count(6)
    expect(tab.get_by_test_id("config-diff")).to_contain_text("v41 → v42")
    tab.get_by_label("Compare v38").check()
    expect(tab.get_by_test_id("config-diff")).to_contain_text("v38 → v41")
    change = tab.locator('[data-testid="change"][data-key="default_timeout_s"]')
    expect(change).to_contain_text("38")
    expect(change).to_contain_text("41")


def test_events_and_audit_tell_who_did_what(log_in: LogIn) -> None:
    tab = log_in("events")
    expect(tab.get_by_test_id("events-row").first).to_contain_text("took over")
    answer = tab.evaluate(
        "fetch('api/v1/commands/reload_config', {method: 'POST', headers: {'Content-Type': 'application/json'},"
        " body: JSON.stringify({arguments: {}, command_id: 'x-1'})}).then((r) => r.status)"
    )
    assert answer == 200
    expect(tab.get_by_test_id("events-row").first).to_contain_text("reload_config")
    tab.get_by_test_id("tab-audit").click()
    expect(tab.get_by_test_id("audit-row").first).to_contain_text("reload_config")


@pytest.mark.parametrize(
    ("screen", "listing", "command"),
    [
        ("workers", "workers", "scale0 worker module:app"),
        ("services", "services", "scale0 worker module:app"),
        ("clients", "clients", "scale0 call"),
        ("tasks", "tasks", "scale0 call"),
        ("events", "events", "scale0 ctl events --watch"),
    ],
)
def test_an_empty_screen_names_the_next_command(
    log_in: LogIn, served: Served, screen: str, listing: str, command: str
) -> None:
    served.do(served.door.lists[listing].clear)
    tab = log_in(screen)
    expect(tab.get_by_test_id("empty-state").get_by_test_id("command-line")).to_contain_text(command)


def test_the_address_holds_filter_sort_and_selection(log_in: LogIn) -> None:
    tab = log_in("workers")
    tab.get_by_label("Filter").fill("state:full")
    expect(tab.get_by_test_id("count")).to_contain_text("of 51")
    tab.get_by_role("button", name="p99 ms").click()
    header = tab.get_by_role("columnheader", name="p99 ms")
    expect(header).to_have_attribute("aria-sort", "descending")
    first = tab.get_by_test_id("workers-row").first.get_attribute("data-key")
    row(tab, "workers", str(first)).locator("a.row").click()
    expect(tab.get_by_test_id("drawer")).to_be_visible()
    address = tab.url
    tab.goto("about:blank")
    tab.goto(address)
    expect(tab.get_by_label("Filter")).to_have_value("state:full")
    expect(tab.get_by_role("columnheader", name="p99 ms")).to_have_attribute("aria-sort", "descending")
    expect(tab.get_by_test_id("drawer")).to_have_attribute("data-key", str(first))
    assert all(
        one == "full"
        for one in tab.locator("[data-testid=workers-row]").evaluate_all("e => e.map(x => x.dataset.state)")
    )


def test_a_filter_that_cannot_be_read_is_told_and_the_rows_stay(log_in: LogIn) -> None:
    tab = log_in("workers")
    tab.get_by_label("Filter").fill("hb>soon")
    expect(tab.get_by_test_id("filter-trouble")).to_contain_text("not a number or a time")
    expect(tab.get_by_test_id("workers-row").first).to_be_visible()
    tab.get_by_label("Filter").fill("hb>2s")
    expect(tab.get_by_test_id("workers-row")).to_have_count(1)
    expect(tab.get_by_test_id("filter-trouble")).to_have_count(0)


def test_colours_follow_the_system_and_can_be_chosen(log_in: LogIn) -> None:
    tab = log_in()
    ground = "getComputedStyle(document.body).backgroundColor"
    assert tab.evaluate(ground) == "rgb(14, 17, 22)"
    tab.emulate_media(color_scheme="light")
    assert tab.evaluate(ground) == "rgb(247, 248, 250)"
    tab.get_by_test_id("theme").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    assert tab.evaluate(ground) == "rgb(14, 17, 22)"
    tab.reload()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    assert json.loads(json.dumps(tab.evaluate("localStorage.length"))) == 1
