"""The stream: what it brings, how old it may be, and when it is open. Time is the browser's own, moved by the test."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import LogIn
from tests.web.served import Served

pytestmark = pytest.mark.browser


def seq(tab: Page) -> int:
    return int(tab.locator("html").get_attribute("data-seq") or 0)


def wait_for_more(tab: Page, before: int) -> None:
    tab.wait_for_function("before => Number(document.documentElement.dataset.seq) > before", arg=before)


def test_what_changes_at_the_broker_changes_on_the_page(log_in: LogIn, served: Served) -> None:
    tab = log_in("workers")
    line = tab.locator('[data-testid="workers-row"][data-key="w-1"]')
    before = seq(tab)
    served.do(lambda: served.door.lists["workers"][1].update(busy=8, state="full"))
    wait_for_more(tab, before + 2)
    expect(line).to_have_attribute("data-state", "full")
    expect(line).to_contain_text("8/8")


def test_an_alarm_that_is_pushed_appears_at_once(log_in: LogIn, served: Served) -> None:
    tab = log_in()
    alarm = {"name": "loop_late", "state": "raised", "severity": "warn", "cause": "the loop is late", "cure": "look"}
    served.do(lambda: served.door.push("alarms", [alarm]))
    expect(tab.locator('[data-testid="alarm"][data-name="loop_late"]')).to_contain_text("the loop is late")


def test_three_seconds_without_news_are_stale_and_ten_are_lost(log_in: LogIn, tab: Page, served: Served) -> None:
    tab.clock.install()
    log_in("brokers?sel=eu-2")
    expect(tab.get_by_test_id("action-drain")).to_be_enabled()
    served.do(served.door.hold)
    tab.clock.fast_forward(4_000)
    expect(tab.locator("html")).to_have_attribute("data-stream", "stale")
    expect(tab.get_by_test_id("clock")).to_contain_text("stale")
    expect(tab.get_by_test_id("stale-banner")).to_have_count(0)
    tab.clock.fast_forward(7_000)
    expect(tab.locator("html")).to_have_attribute("data-stream", "lost")
    expect(tab.get_by_test_id("stale-banner")).to_contain_text("No news from the broker")
    expect(tab.get_by_test_id("action-drain")).to_be_disabled()
    assert tab.locator("main.old").count() == 1
    served.do(served.door.opened.set)
    expect(tab.locator("html")).to_have_attribute("data-stream", "live")
    expect(tab.get_by_test_id("stale-banner")).to_have_count(0)
    expect(tab.get_by_test_id("action-drain")).to_be_enabled()


def test_a_stream_that_ends_is_opened_again(log_in: LogIn, served: Served) -> None:
    tab = log_in("workers")
    before = seq(tab)
    served.do(lambda: served.site.streams.end("stopping"))
    wait_for_more(tab, before + 2)
    expect(tab.locator("html")).to_have_attribute("data-stream", "live")


def test_a_tab_has_one_stream_whatever_it_shows(log_in: LogIn, served: Served) -> None:
    tab = log_in("workers")
    for screen in ("Services", "Tasks", "Overview", "Brokers"):
        with tab.expect_response("**/api/v1/stream?*"):
            tab.get_by_role("navigation", name="Screens").get_by_role("link", name=screen).click()
    wait_for_more(tab, seq(tab) + 3)
    assert served.do(lambda: len(served.site.streams)) == 1


def test_a_hidden_tab_holds_no_stream_and_a_shown_one_has_news(log_in: LogIn, served: Served) -> None:
    tab = log_in("workers")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    tab.evaluate(hide, True)
    tab.wait_for_function("() => true")
    before = seq(tab)
    while served.do(lambda: len(served.site.streams)):
        tab.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => done(true)))")
    with tab.expect_response("**/api/v1/stream?*"):
        tab.evaluate(hide, False)
    wait_for_more(tab, before)
    assert served.do(lambda: len(served.site.streams)) == 1


def test_the_verdict_alone_is_read_out(log_in: LogIn) -> None:
    tab = log_in()
    assert tab.locator("[aria-live], [role=status]").count() == 1
    expect(tab.locator("[aria-live]")).to_have_attribute("data-testid", "verdict")
