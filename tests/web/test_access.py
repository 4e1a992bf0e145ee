"""Accessible to all (WCAG 2.2 AA, as far as axe can tell), and looked at: each screen as a picture in out/screens/."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import SCREENSHOTS, LogIn
from tests.web.served import Served

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "vendor" / "axe.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SCREENS = [
    "overview",
    "topology",
    "brokers?sel=eu-3",
    "services?sel=ocr",
    "workers?sel=w-12",
    "clients",
    "tasks?sel=c-0.00000000000000aa.0",
    "tasks?view=dead",
    "config",
    "config?view=edit",
    "events",
    "trends",
]
CONTRAST = {"type": "rule", "values": ["color-contrast"]}  # all that differs between the two schemes
Scheme = Literal["dark", "light"]


def violations(tab: Page, rules: object = RULES) -> list[str]:
    if not tab.evaluate("'axe' in window"):
        tab.evaluate(AXE.read_text(encoding="utf-8"))
    told: dict[str, Any] = tab.evaluate("rules => axe.run(document, {runOnly: rules})", rules)
    return [f"{one['id']}: {node['html'][:200]}" for one in told["violations"] for node in one["nodes"]]


def picture(tab: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=SCREENSHOTS / f"{name}.png")


@pytest.mark.parametrize("scheme", ["dark", pytest.param("light", marks=pytest.mark.slow)])
def test_every_screen_is_accessible(log_in: LogIn, tab: Page, scheme: Scheme) -> None:
    tab.emulate_media(color_scheme=scheme)
    log_in()
    found: dict[str, list[str]] = {}
    for screen in SCREENS:
        tab.evaluate("screen => { location.hash = `#/${screen}` }", screen)
        shown = screen.split("?")[0]
        expect(tab.get_by_test_id(f"screen-{shown}").locator("h1")).to_be_attached()
        if "sel=" in screen:
            expect(tab.get_by_test_id("drawer").locator(".inside dl").first).to_be_visible()
        found[screen] = violations(tab, RULES if scheme == "dark" else CONTRAST)
        picture(tab, f"{scheme}-{screen.replace('?', '-').replace('=', '-')}")
    assert not {screen: wrong for screen, wrong in found.items() if wrong}


def test_login_dialog_palette_and_help_are_accessible(log_in: LogIn, tab: Page, served: Served) -> None:
    tab.goto(served.url)
    expect(tab.get_by_test_id("login")).to_be_visible()
    found = {"login": violations(tab)}
    picture(tab, "dark-login")
    tab.goto("about:blank")
    log_in("brokers?sel=eu-2")
    tab.get_by_test_id("action-disable").click()
    expect(tab.get_by_test_id("confirm")).to_be_visible()
    found["confirm"] = violations(tab)
    picture(tab, "dark-confirm")
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("confirm")).to_have_count(0)
    tab.keyboard.press("?")
    expect(tab.get_by_test_id("help")).to_be_visible()
    found["help"] = violations(tab)
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("help")).to_have_count(0)
    tab.keyboard.press("Control+k")
    expect(tab.get_by_test_id("palette")).to_be_visible()
    found["palette"] = violations(tab)
    picture(tab, "dark-palette")
    assert not {place: wrong for place, wrong in found.items() if wrong}


def test_a_narrow_screen_scrolls_in_no_direction_but_down(log_in: LogIn, tab: Page) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    log_in()
    for screen in SCREENS:
        tab.evaluate("screen => { location.hash = `#/${screen}` }", screen)
        expect(tab.get_by_test_id(f"screen-{screen.split('?')[0]}").locator("h1")).to_be_attached()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390, screen
        picture(tab, f"narrow-{screen.replace('?', '-').replace('=', '-')}")
