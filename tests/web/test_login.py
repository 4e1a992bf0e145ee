"""Who may look: nobody without a login, and nobody any more whose login has ended."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import LogIn
from tests.web.served import Served

pytestmark = pytest.mark.browser


def test_without_a_login_there_is_nothing_but_the_login(tab: Page, served: Served) -> None:
    answers: list[tuple[str, int]] = []
    tab.on("response", lambda one: answers.append((one.url, one.status)) if "/api/" in one.url else None)
    tab.goto(f"{served.url}/#/workers")
    expect(tab.get_by_test_id("login")).to_be_visible()
    expect(tab.locator("html")).to_have_attribute("data-route", "login")
    assert answers
    assert all(status == 401 for _, status in answers)
    assert served.asked("snapshot") == []


def test_a_password_opens_the_screen_that_was_asked_for(tab: Page, served: Served) -> None:
    tab.goto(f"{served.url}/#/services")
    tab.get_by_label("User").fill("operator")
    tab.get_by_label("Password").fill("operatoroperator")
    tab.get_by_role("button", name="Log in").click()
    expect(tab.locator("html")).to_have_attribute("data-route", "services")
    expect(tab.get_by_test_id("who")).to_have_text("operator operate")
    expect(tab.get_by_test_id("services-row").first).to_be_visible()


def test_a_wrong_password_is_told_and_its_field_emptied(tab: Page, served: Served) -> None:
    tab.goto(served.url)
    tab.get_by_label("User").fill("admin")
    tab.get_by_label("Password").fill("wrong")
    tab.get_by_role("button", name="Log in").click()
    expect(tab.get_by_test_id("login-trouble")).to_contain_text("do not match")
    expect(tab.get_by_label("Password")).to_have_value("")
    expect(tab.get_by_label("User")).to_have_value("admin")


def test_a_token_in_the_address_opens_the_page_and_leaves_the_address(tab: Page, served: Served) -> None:
    tab.goto(f"{served.url}/#token={served.token}")
    expect(tab.get_by_test_id("verdict")).to_contain_text("1 broker gone")
    assert served.token not in tab.url
    assert tab.evaluate("history.length") <= 2
    tab.go_back()
    assert served.token not in tab.url


def test_a_token_that_was_used_opens_nothing(tab: Page, served: Served) -> None:
    tab.goto(f"{served.url}/#token={served.token}")
    expect(tab.get_by_test_id("verdict")).to_be_visible()
    tab.context.clear_cookies()
    tab.goto("about:blank")
    tab.goto(f"{served.url}/#token={served.token}")
    expect(tab.get_by_test_id("login-trouble")).to_be_visible()
    assert served.token not in tab.url


def test_logging_out_ends_the_session_and_the_stream(log_in: LogIn, served: Served) -> None:
    tab = log_in()
    assert served.do(lambda: len(served.site.streams)) == 1
    tab.get_by_test_id("logout").click()
    expect(tab.get_by_test_id("login")).to_be_visible()
    tab.reload()
    expect(tab.get_by_test_id("login")).to_be_visible()
    assert tab.request.get(f"{served.url}/api/v1/me").status == 401
    assert served.do(lambda: len(served.site.streams)) == 0


def test_a_user_who_was_removed_sees_the_login_again(log_in: LogIn, served: Served) -> None:
    tab = log_in("workers", "operator")
    served.do(lambda: served.accounts.users.pop("operator"))
    expect(tab.get_by_test_id("login")).to_be_visible()
    expect(tab.get_by_test_id("workers-row")).to_have_count(0)
