"""5,000 workers: a few dozen rows in the document, all of them within reach, and an order that holds still."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.web.conftest import LogIn
from tests.web.served import Served

pytestmark = pytest.mark.browser


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(workers=5_000, services=200) as made:
        yield made


def test_rows_are_virtual_and_the_last_one_can_be_reached(log_in: LogIn) -> None:
    tab = log_in("workers?sort=identity")
    expect(tab.get_by_role("table", name="Workers")).to_have_attribute("aria-rowcount", "5001")
    assert tab.get_by_test_id("workers-row").count() < 80
    tab.get_by_test_id("workers-rows").evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(tab.locator('[data-testid="workers-row"][data-key="w-999"]')).to_be_visible()
    assert tab.get_by_test_id("workers-row").count() < 80
    tab.get_by_test_id("workers-rows").evaluate("box => { box.scrollTop = 28 * 2500 }")
    expect(tab.locator('[data-testid="workers-row"][aria-rowindex="2512"]')).to_be_visible()


def test_the_filter_runs_on_the_server_and_tells_how_many_of_all(log_in: LogIn) -> None:
    tab = log_in("workers")
    expect(tab.get_by_test_id("count")).to_contain_text("5,000 in all")
    tab.get_by_label("Filter").fill("state:draining")
    expect(tab.get_by_test_id("count")).to_contain_text(" of 5,000")
    states = tab.get_by_test_id("workers-row").evaluate_all("rows => rows.map(row => row.dataset.state)")
    assert set(states) == {"draining"}


def test_the_order_holds_while_the_pointer_is_inside(log_in: LogIn, served: Served) -> None:
    tab = log_in("workers?sort=-p99_us")
    tab.mouse.move(5, 5)
    first = tab.get_by_test_id("workers-row").first
    top = str(first.get_attribute("data-key"))
    tab.get_by_test_id("workers-rows").hover()
    expect(tab.get_by_test_id("frozen")).to_be_visible()
    served.do(lambda: [row.update(p99_us=1) for row in served.door.lists["workers"] if row["identity"] == top])
    served.do(lambda: [row.update(p99_us=10**9) for row in served.door.lists["workers"] if row["identity"] == "w-7"])
    expect(tab.get_by_test_id("frozen")).to_contain_text("1 new")
    expect(first).to_have_attribute("data-key", top)
    tab.mouse.move(5, 5)
    expect(first).to_have_attribute("data-key", "w-7")
