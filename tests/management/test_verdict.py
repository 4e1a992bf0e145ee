"""The verdict: one sentence, the worst first, and quiet when all is well."""

from __future__ import annotations

from typing import Any

from scale0.management.alarms import Alarm, Alarms
from scale0.management.verdict import Verdict, verdict
from tests.management.situations import broker, own, service, vitals


def alarm(name: str, subject: str = "", severity: Any = "bad") -> Alarm:
    return Alarm(name, "raised", 0, severity, "why", "what to do", subject, 1.0, 1.0, "#/")


def test_a_healthy_network_is_told_in_one_quiet_line() -> None:
    assert verdict(vitals(), [], [own(), broker()]) == Verdict("ok", "● all well: 2 brokers, 4 workers, 1 service")


def test_before_the_first_look_nothing_is_claimed() -> None:
    assert verdict(None, []) == Verdict("ok", "● no alarm so far")


def test_who_stands_in_is_told_with_who_is_gone() -> None:
    network = [own(), broker("us-1", state="gone", fallback_broker="us-1b"), broker("us-1b"), broker("eu-3")]
    raised = [
        alarm("broker_gone", "us-1"),
        alarm("fallback_serves", "us-1", "warn"),
        alarm("broker_behind", "eu-3", "warn"),
    ]
    assert verdict(vitals(), raised, network) == Verdict("bad", "✗ 1 broker gone, us-1b serves · ! eu-3 behind")


def test_the_same_comes_of_the_alarms_that_such_a_network_raises() -> None:
    network = [
        own(),
        broker("us-1", state="gone", link="dialing", heard_us=14_000_000, fallback_broker="us-1b"),
        broker("us-1b"),
        broker("eu-3", is_behind=True),
    ]
    book, seen = Alarms(), vitals(network=network)
    for now in (0.0, 60.0):
        book.look(seen, now)
    assert verdict(seen, book.raised(), network).text == "✗ 1 broker gone, us-1b serves · ! eu-3 behind"


def test_several_of_a_kind_are_counted() -> None:
    raised = [alarm("service_without_worker", name) for name in ("ocr", "pay", "mail")]
    assert verdict(vitals(), raised).text == "✗ 3 services have no worker"


def test_bad_comes_before_warnings_whatever_their_order() -> None:
    raised = [alarm("queue_old", "ocr", "warn"), alarm("audit_broken", "eu-1")]
    assert verdict(vitals(), raised).text == "✗ audit broken · ! ocr waits"


def test_warnings_alone_are_no_bad_verdict() -> None:
    assert verdict(vitals(), [alarm("queue_old", "ocr", "warn")]) == Verdict("warn", "! ocr waits")


def test_what_an_operator_wanted_is_told_and_is_no_alarm() -> None:
    network = [own(), broker(state="draining"), broker("eu-3", state="disabled"), broker("eu-4", state="disabled")]
    assert verdict(vitals(), [], network) == Verdict("warn", "◒ eu-2 draining · – 2 brokers disabled")


def test_services_whose_tasks_end_in_errors_are_told_as_such() -> None:
    assert verdict(vitals(), [alarm("errors_high", "ocr")]).text == "✗ ocr often fails"
    raised = [alarm("errors_high", name) for name in ("ocr", "render")]
    assert verdict(vitals(), raised).text == "✗ 2 services often fail"


def test_a_line_holds_no_more_than_it_can() -> None:
    names = ["audit_broken", "errors_high", "memory_high", "loop_late", "link_cut", "fallback_lost"]
    said = verdict(vitals(), [alarm(name, "x" * 200) for name in names]).text
    assert said.endswith(" · 2 more")
    assert len(said) < 300


def test_what_the_core_told_has_its_words() -> None:
    book = Alarms()
    book.note("config_lost", "config 1.4 lost against a newer one", 0.0)
    assert verdict(vitals(services=[service()]), book.raised()).text == "✗ config conflict"
