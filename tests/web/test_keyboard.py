"""Everything by keys: screens, filter, rows, problems only, copying, the palette, help."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import LogIn
from tests.web.served import Served

pytestmark = pytest.mark.browser

LETTERS = {"o": "overview", "t": "topology", "b": "brokers", "s": "services", "w": "workers", "c": "clients"}
LETTERS |= {"k": "tasks", "f": "config", "e": "events", "r": "trends"}


def test_g_and_a_letter_goes_to_each_screen(log_in: LogIn) -> None:
    tab = log_in()
    for letter, screen in [*LETTERS.items(), ("o", "overview")]:
        tab.keyboard.press("g")
        tab.keyboard.press(letter)
        expect(tab.locator("html")).to_have_attribute("data-route", screen)
        expect(tab.get_by_test_id(f"screen-{screen}")).to_be_visible()


def test_rows_are_walked_opened_and_closed(log_in: LogIn) -> None:
    tab = log_in("workers")
    expect(tab.get_by_test_id("workers-row").first).to_be_visible()
    keys = tab.get_by_test_id("workers-row").evaluate_all("rows => rows.slice(0, 3).map(row => row.dataset.key)")
    for key in ("j", "j", "j", "k"):
        tab.keyboard.press(key)
        tab.wait_for_function("() => document.activeElement.matches('a.row')")
    expect(tab.locator("a.row:focus")).to_have_text(keys[1])
    tab.keyboard.press("Enter")
    expect(tab.get_by_test_id("drawer")).to_have_attribute("data-key", keys[1])
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("drawer")).to_have_count(0)


def test_slash_filters_and_escape_leaves_the_filter(log_in: LogIn) -> None:
    tab = log_in("workers")
    tab.keyboard.press("/")
    expect(tab.get_by_label("Filter")).to_be_focused()
    tab.keyboard.type("id:w-4*")
    expect(tab.get_by_test_id("count")).to_contain_text("11 of 51")
    tab.keyboard.press("Escape")
    expect(tab.get_by_label("Filter")).not_to_be_focused()


def test_e_shows_problems_only_and_all_again(log_in: LogIn) -> None:
    tab = log_in("workers")
    tab.keyboard.press("e")
    expect(tab.get_by_test_id("workers-row")).to_have_count(2)
    expect(tab.get_by_label("Filter")).to_have_value("is:problem")
    tab.keyboard.press("e")
    expect(tab.get_by_test_id("count")).to_contain_text("51 in all")


def test_y_copies_the_command_line_that_shows_the_same(log_in: LogIn) -> None:
    tab = log_in("workers?filter=state:full")
    tab.keyboard.press("y")
    expect(tab.get_by_test_id("notice")).to_be_visible()
    assert tab.evaluate("navigator.clipboard.readText()") == "scale0 ctl workers --filter state:full"


def test_the_palette_finds_screens_workers_and_actions(log_in: LogIn, served: Served) -> None:
    tab = log_in()
    find(tab, "w-17")
    expect(tab.get_by_role("option", name="Worker w-17")).to_be_visible()
    tab.keyboard.press("Enter")
    expect(tab.get_by_test_id("drawer")).to_have_attribute("data-key", "w-17")
    find(tab, "drain eu-2")
    tab.keyboard.press("Enter")
    expect(tab.get_by_test_id("confirm")).to_contain_text("Drain eu-2?")
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("confirm")).to_have_count(0)
    find(tab, "conf")
    expect(tab.get_by_role("option").first).to_be_visible()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    expect(tab.locator("html")).to_have_attribute("data-route", "config")
    assert served.asked("drain") == []


def find(tab: Page, text: str) -> None:
    tab.keyboard.press("Control+k")
    expect(tab.get_by_role("combobox", name="Go to or do")).to_be_focused()
    tab.keyboard.type(text)


def test_a_question_mark_tells_the_keys(log_in: LogIn) -> None:
    tab = log_in()
    tab.keyboard.press("?")
    expect(tab.get_by_test_id("help")).to_contain_text("problems only")
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("help")).to_have_count(0)
