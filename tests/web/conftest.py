"""One Chromium for all tests of the page, a context of its own for each, and no test where there is no Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.web.modules import Modules
from tests.web.served import Served

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WITHIN_MS = 20_000  # generous: only a hang reaches it
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")  # the first needs half the work
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), "")
NO_CHROMIUM = "no Chromium here; install one: apt install chromium-headless-shell"

SCREENSHOTS = Path(__file__).parent.parent.parent / "out" / "screens"

LogIn = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("browser") and not CHROMIUM:
            item.add_marker(pytest.mark.skip(reason=NO_CHROMIUM))


@pytest.fixture(scope="package")  # while it is open, an event loop runs in this thread, and no other test could run one
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=WITHIN_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as made:
        yield made


@pytest.fixture
def tab(browser: Browser, served: Served) -> Iterator[Page]:
    """A tab without a login, closed before its server. What the page's code throws fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="dark")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda told: wrong.append(told.text) if "Content Security Policy" in told.text else None)
    yield page
    context.close()
    assert not wrong


@pytest.fixture
def log_in(tab: Page, served: Served) -> LogIn:
    """Logs in by the API, goes to a screen, and waits for its first snapshot."""

    def go(screen: str = "overview", user: str = "admin", at: Served | None = None) -> Page:
        url = (at or served).url
        answer = tab.request.post(f"{url}/api/v1/login", data={"user": user, "password": user * 2})
        assert answer.status == 204, answer.text()
        tab.goto(f"{url}/#/{screen}")
        tab.wait_for_selector('html[data-stream="live"]')
        return tab

    return go


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    """The page's pure modules, run by node."""
    return Modules(tmp_path_factory.mktemp("web"))
