"""What operators do: confirmed as its tier wants, pending until its event returns, told broker by broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import LogIn
from tests.web.served import Served

pytestmark = pytest.mark.browser


def press(tab: Page, command: str) -> None:
    tab.get_by_test_id(f"action-{command}").first.click()


def confirm(tab: Page, typed: str = "") -> None:
    if typed:
        tab.get_by_test_id("confirm-name").fill(typed)
    tab.get_by_test_id("confirm-go").click()


def outcome(tab: Page, state: str = "done") -> Locator:
    shown = tab.locator(f'[data-testid="outcome"][data-state="{state}"]')
    expect(shown).to_have_count(1)
    return shown


def hold_events(served: Served) -> Callable[[], None]:
    """The door tells of no event until the returned function is called."""
    held: list[tuple[str, Any]] = []
    push = served.door.push
    served.do(lambda: setattr(served.door, "push", lambda topic, payload: held.append((topic, payload))))

    def let_go() -> None:
        served.do(lambda: [push(topic, payload) for topic, payload in held])

    return let_go


def test_draining_names_verb_and_object_and_previews_the_effect(log_in: LogIn, served: Served) -> None:
    tab = log_in("brokers?sel=eu-2")
    press(tab, "drain")
    dialog = tab.get_by_test_id("confirm")
    expect(dialog.get_by_role("heading")).to_have_text("Drain eu-2?")
    expect(tab.get_by_test_id("confirm-effect")).to_contain_text("24 workers move to other brokers")
    expect(dialog.get_by_test_id("command-line")).to_have_text("scale0 ctl drain eu-2")
    expect(tab.get_by_test_id("confirm-go")).to_have_text("Drain eu-2")
    confirm(tab)
    expect(outcome(tab)).to_contain_text("Drain eu-2: done")
    assert served.brokers_asked("drain") == [["eu-2"]]


def test_disabling_wants_the_name_to_be_typed(log_in: LogIn, served: Served) -> None:
    tab = log_in("brokers?sel=eu-1")
    press(tab, "disable")
    expect(tab.get_by_test_id("confirm-go")).to_be_disabled()
    tab.get_by_test_id("confirm-name").fill("eu-2")
    expect(tab.get_by_test_id("confirm-go")).to_be_disabled()
    tab.keyboard.press("Enter")
    assert served.asked("disable") == []
    confirm(tab, "eu-1")
    outcome(tab)
    assert served.brokers_asked("disable") == ["own"]
    assert served.do(lambda: served.door.state) == "disabled"


def test_leaving_a_dialog_does_nothing(log_in: LogIn, served: Served) -> None:
    tab = log_in("brokers?sel=eu-2")
    press(tab, "drain")
    expect(tab.get_by_test_id("confirm-go")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.get_by_test_id("confirm")).to_have_count(0)
    press(tab, "drain")
    tab.get_by_test_id("confirm-cancel").click()
    expect(tab.get_by_test_id("confirm")).to_have_count(0)
    assert served.asked("drain") == []


def test_a_broker_that_drains_can_be_enabled(log_in: LogIn, served: Served) -> None:
    tab = log_in("brokers?sel=ap-1")
    press(tab, "enable")
    confirm(tab)
    outcome(tab)
    assert served.brokers_asked("enable") == [["ap-1"]]


def test_reloading_the_config_asks_nothing(log_in: LogIn, served: Served) -> None:
    tab = log_in("brokers?sel=eu-1")
    press(tab, "reload_config")
    expect(outcome(tab)).to_contain_text("Reload config of eu-1: done")
    assert served.asked("reload_config") == [{}]


def test_what_some_brokers_did_not_do_is_shown_as_partial(log_in: LogIn, served: Served) -> None:
    tab = log_in("brokers?sel=us-1")
    press(tab, "failback")
    confirm(tab, "us-1")
    shown = outcome(tab, "partial")
    expect(shown).to_contain_text("done in part")
    expect(shown.get_by_test_id("outcome-broker")).to_have_count(7)
    expect(shown.locator('[data-code="503"]')).to_contain_text("us-1 503 silent for 14 s")
    expect(shown).to_contain_text("6 of 7 did it")
    assert served.asked("failback") == [{"broker": "us-1"}]
    assert served.brokers_asked("failback") == ["all"]


def test_kicking_a_worker_with_tasks_in_flight_wants_its_name(log_in: LogIn, served: Served) -> None:
    tab = log_in("workers?sel=w-12")
    press(tab, "kick_worker")
    expect(tab.get_by_test_id("confirm-effect")).to_contain_text("in flight")
    expect(tab.get_by_test_id("confirm-go")).to_be_disabled()
    confirm(tab, "w-12")
    outcome(tab)
    assert served.asked("kick_worker") == [{"worker": "w-12"}]
    expect(tab.get_by_test_id("drawer-missing")).to_be_visible()


def test_kicking_an_idle_worker_wants_a_button_only(log_in: LogIn, served: Served) -> None:
    served.do(lambda: served.door.lists["workers"][1].update(busy=0, state="ready", tasks=[]))
    tab = log_in("workers?sel=w-1")
    press(tab, "kick_worker")
    expect(tab.get_by_test_id("confirm-name")).to_have_count(0)
    confirm(tab)
    outcome(tab)


def test_a_task_is_cancelled_by_its_id(log_in: LogIn, served: Served) -> None:
    tab = log_in("tasks?sel=c-0.00000000000000aa.0")
    press(tab, "cancel_task")
    expect(tab.get_by_test_id("confirm-effect")).to_contain_text("499")
    confirm(tab)
    outcome(tab)
    assert served.asked("cancel_task") == [{"task": "c-0.00000000000000aa.0"}]


def test_a_dead_letter_is_retried_and_leaves_the_list(log_in: LogIn, served: Served) -> None:
    tab = log_in("tasks?view=dead&sel=c-1.00000000000000aa.0")
    tab.get_by_test_id("drawer").get_by_test_id("action-retry_dead_letter").click()
    confirm(tab)
    outcome(tab)
    expect(tab.get_by_test_id("dead-letters-row")).to_have_count(2)


def test_several_dead_letters_are_retried_by_typing_the_networks_name(log_in: LogIn, served: Served) -> None:
    tab = log_in("tasks?view=dead")
    press(tab, "retry_dead_letter")
    confirm(tab, "prod")
    expect(outcome(tab)).to_contain_text("Retry 3 dead letters: done")
    assert len(served.asked("retry_dead_letter")) == 3
    expect(tab.get_by_test_id("empty-state")).to_be_visible()


def test_dead_letters_can_be_cleared(log_in: LogIn, served: Served) -> None:
    tab = log_in("tasks?view=dead")
    press(tab, "clear_dead_letters")
    confirm(tab)
    outcome(tab)
    assert served.asked("clear_dead_letters") == [{}]


def test_an_ignored_connection_is_forgiven(log_in: LogIn, served: Served) -> None:
    tab = log_in("clients?view=ignored&sel=00aa11")
    press(tab, "clear_error_client")
    confirm(tab)
    outcome(tab)
    assert served.asked("clear_error_client") == [{"connection": "00aa11"}]


def test_a_test_task_shows_who_answered_and_how_fast(log_in: LogIn, served: Served) -> None:
    tab = log_in("services?sel=render")
    tab.get_by_test_id("test-body").fill('{"page": 1}')
    press(tab, "test_task")
    answer = tab.get_by_test_id("test-answer")
    expect(answer).to_contain_text("200")
    expect(answer).to_contain_text("8.12 ms")
    expect(answer).to_contain_text("w-7")
    assert served.asked("test_task") == [{"service": "render", "body": '{"page": 1}', "timeout_s": 5}]


def test_a_config_is_checked_before_it_can_be_applied(log_in: LogIn, served: Served) -> None:
    tab = log_in("config?view=edit")
    text = tab.get_by_test_id("config-text")
    document = json.loads(text.input_value())
    expect(tab.get_by_test_id("action-config_apply")).to_be_disabled()
    text.fill(json.dumps({**document, "default_timeout_s": 5}))
    press(tab, "config_check")
    expect(tab.get_by_test_id("config-checked")).to_contain_text("service.render.timeout_s")
    expect(tab.get_by_test_id("config-checked")).to_contain_text("12 clients")
    tab.get_by_test_id("config-comment").fill("shorter")
    press(tab, "config_apply")
    confirm(tab, "prod")
    outcome(tab)
    [applied] = served.asked("config_apply")
    assert json.loads(applied["document"])["default_timeout_s"] == 5
    assert (applied["base"], applied["comment"]) == ("1.42.eu-1", "shorter")


def test_a_document_that_is_wrong_is_told_and_cannot_be_applied(log_in: LogIn, served: Served) -> None:
    served.do(lambda: served.door.refuse("config_check", 400, "line 3: no key 'brokrs'; did you mean brokers"))
    tab = log_in("config?view=edit")
    press(tab, "config_check")
    expect(tab.get_by_test_id("config-wrong")).to_contain_text("no key 'brokrs': did you mean brokers")
    expect(tab.get_by_test_id("action-config_apply")).to_be_disabled()


def test_an_older_config_is_rolled_back_to_by_typing_its_version(log_in: LogIn, served: Served) -> None:
    tab = log_in("config")
    press(tab, "config_rollback")
    expect(tab.get_by_test_id("confirm")).to_contain_text("default_timeout_s")
    confirm(tab, "v41")
    outcome(tab)
    assert served.asked("config_rollback") == [{"version": "1.41.eu-1"}]


def test_an_action_is_pending_until_its_event_returns(log_in: LogIn, served: Served) -> None:
    tab = log_in("brokers?sel=eu-2")
    let_go = hold_events(served)
    press(tab, "drain")
    with tab.expect_response("**/commands/drain"):
        confirm(tab)
    outcome(tab, "pending")
    expect(tab.get_by_test_id("action-drain")).to_be_disabled()
    let_go()
    outcome(tab, "done")
    expect(tab.get_by_test_id("action-drain")).to_be_enabled()


def test_a_refusal_is_shown_with_its_cause(log_in: LogIn, served: Served) -> None:
    served.do(lambda: served.door.refuse("drain", 409, "eu-2 is the last of its group; add one, or use --force"))
    tab = log_in("brokers?sel=eu-2")
    press(tab, "drain")
    confirm(tab)
    shown = outcome(tab, "failed")
    expect(shown).to_contain_text("409 eu-2 is the last of its group")
    expect(shown).to_contain_text("add one, or use --force")
    shown.get_by_role("button", name="Dismiss").click()
    expect(tab.get_by_test_id("outcome")).to_have_count(0)


@pytest.mark.parametrize(
    ("screen", "command", "role"),
    [
        ("brokers?sel=eu-2", "drain", "operate"),
        ("workers?sel=w-1", "kick_worker", "operate"),
        ("services?sel=render", "test_task", "operate"),
        ("config", "config_rollback", "admin"),
    ],
)
def test_a_control_that_needs_a_role_is_off_and_names_it(log_in: LogIn, screen: str, command: str, role: str) -> None:
    tab = log_in(screen, "viewer")
    control = tab.get_by_test_id(f"action-{command}").first
    expect(control).to_be_disabled()
    expect(control).to_contain_text(f"needs the role {role}")
