"""Each rule: a situation that raises it, with its sentence; and a healthy broker, which raises none."""

from __future__ import annotations

import re
from typing import Any

import pytest

from scale0.management.alarm_notes import NOTED
from scale0.management.alarm_rules import RULES, Rule
from scale0.management.alarms import Alarm, Alarms
from scale0.management.vitals import Vitals
from tests.management.situations import broker, days_from_now, own, service, shell, vitals, worker

LATER_S = 120.0  # longer than every rule's time
PAIR = {"fallback_broker": "us-1b"}

SITUATIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "service_without_worker": (
        {"services": [service("ocr", workers=0, queued=12, oldest_us=8_200_000)]},
        "ocr",
        "no worker serves ocr; 12 tasks wait, the oldest for 8.2 s",
    ),
    "queue_old": (
        {"services": [service(queued=3, oldest_us=12_000_000)]},
        "render",
        "the oldest of 3 tasks for render has waited 12 s",
    ),
    "queue_nearly_full": (
        {"services": [service(queued=40_000)]},
        "render",
        "40,000 tasks wait for render, of 50,000 that may: the next are soon refused with 429",
    ),
    "errors_high": (
        {"services": [service(errors_5m=300)]},
        "render",
        "10 % of the tasks of render ended in an error in the last 5 min: 300 of 3,000",
    ),
    "worker_flapping": (
        {"workers": [worker("w-9", sessions_per_h=9), worker("w-8", sessions_per_h=6), worker()]},
        "workers",
        "workers come and go: w-9 (9 an hour), w-8 (6 an hour)",
    ),
    "workers_stuck": (
        {"workers": [worker("w-3", stuck=2), worker()]},
        "workers",
        "slots stay occupied past their tasks' deadlines: w-3 (2)",
    ),
    "worker_behind_config": (
        {"workers": [worker(f"w-{number}", is_behind=True) for number in range(1, 6)]},
        "workers",
        "w-1, w-2, w-3 and 2 more of 5 workers run an older config",
    ),
    "clock_skew": (
        {"workers": [worker("w-4", clock_offset_us=-7_500_000)]},
        "workers",
        "clocks differ from this broker's: w-4 (7.5 s); beyond max_clock_skew a worker is refused with 498",
    ),
    "broker_gone": (
        {"network": [own(), broker(state="gone", link="dialing", heard_us=14_000_000)]},
        "eu-2",
        "broker eu-2 is silent for 14 s",
    ),
    "link_cut": (
        {"network": [own(), broker(state="passive", link="down", heard_us=None)]},
        "eu-2",
        "the link with broker eu-2 is down, and others still hear it: it was never heard here",
    ),
    "fallback_lost": (
        {"network": [own(fallback="lost", **PAIR)]},
        "eu-1",
        "eu-1 serves without its standby us-1b: if it is lost now, its tasks are lost with it",
    ),
    "fallback_lagging": (
        {"network": [own(fallback="behind", **PAIR)]},
        "eu-1",
        "us-1b, the standby of eu-1, lags behind: a takeover now would lose what it has not heard",
    ),
    "fallback_serves": (
        {"network": [own(), broker("us-1", state="passive", **PAIR), broker("us-1b")]},
        "us-1",
        "us-1b serves in the place of us-1, which is passive",
    ),
    "broker_behind": (
        {"network": [own(), broker("eu-3", is_behind=True)]},
        "eu-3",
        "broker eu-3 runs an older config than this one",
    ),
    "loop_late": (
        {"loop_late_us": 300_000},
        "eu-1",
        "the broker's loop let others wait for 300 ms: tasks are late, and workers may look dead",
    ),
    "memory_high": (
        {"rss_bytes": 900 * 2**20},
        "eu-1",
        "the broker's process holds 88 % of its memory: 900 MiB of 1,024 MiB",
    ),
    "disk_nearly_full": (
        {"disk_bytes": 100 * 2**20, "disk_free_bytes": 5 * 2**20},
        "eu-1",
        "the disk that keeps the state is 95 % full: 95 MiB of 100 MiB",
    ),
    "connections_nearly_full": (
        {"connections": 900},
        "eu-1",
        "900 connections of 1,024 that the process may have open: then nobody more can connect",
    ),
    "error_clients_many": (
        {"counts": {"error_clients": 12}},
        "eu-1",
        "12 connections are ignored, for they spoke badly again and again",
    ),
    "audit_broken": (
        {"audit_error": "No space left on device"},
        "eu-1",
        "the audit trail cannot be written: No space left on device; changes are refused with 503 until it can",
    ),
    "page_process_down": (
        {"page_error": "it ended with exit code 1"},
        "eu-1",
        "the page's process does not run: it ended with exit code 1",
    ),
    "webhook_failing": (
        {"webhook_failures": 3},
        "eu-1",
        "alarms cannot be delivered: 3 attempts in a row have failed",
    ),
    "key_expires_soon": (
        {"keys": [{"name": "laptop", "until": days_from_now(3)}, {"name": "server", "until": None}]},
        "laptop",
        "the key laptop expires in 3.0 days",
    ),
}
"""What spoils a healthy broker, whom the alarm is about, and its cause."""

GROWING: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "dead_letters_growing": (
        {"counts": {"dead_letters": 5}},
        {"counts": {"dead_letters": 25}},
        "20 tasks more could not be served in the last 5 min; 25 dead letters are kept",
    ),
    "recorder_losing": (
        {"recorder_dropped_bytes": 0},
        {"recorder_dropped_bytes": 1_680},
        "the recorder does not keep up: 1,680 bytes of events were lost in the last 5 min",
    ),
}


def raised(*looks: Vitals) -> list[Alarm]:
    """What is raised when each of these held for long."""
    book = Alarms()
    now = 0.0
    for seen in looks:
        for _ in range(2):
            now += LATER_S
            book.look(seen, now)
    return book.raised()


def test_every_rule_has_a_situation_here() -> None:
    assert {rule.name for rule in RULES} == {*SITUATIONS, *GROWING}


@pytest.mark.parametrize("name", SITUATIONS)
def test_its_situation_raises_an_alarm_that_says_why(name: str) -> None:
    spoilt, subject, cause = SITUATIONS[name]
    found = raised(vitals(**spoilt))
    assert [(alarm.name, alarm.subject, alarm.cause) for alarm in found] == [(name, subject, cause)]


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_raises_an_alarm_that_says_by_how_much(name: str) -> None:
    before, after, cause = GROWING[name]
    assert [(alarm.name, alarm.cause) for alarm in raised(vitals(**before), vitals(**after))] == [(name, cause)]


def test_a_healthy_broker_raises_nothing() -> None:
    assert raised(vitals()) == []


def test_a_broker_of_which_nothing_is_known_raises_nothing() -> None:
    assert raised(Vitals(shell=shell())) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_two_thresholds_and_names_a_cure(rule: Rule) -> None:
    sign = -1 if rule.is_low_bad else 1
    assert sign * rule.clear_at < sign * rule.raise_at
    assert rule.link.startswith("#/")
    assert len(rule.cure) > 20
    assert rule.raise_after_s <= LATER_S


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_is_raised_is_cleared_when_all_is_well_again(rule: Rule) -> None:
    if rule.name in GROWING:
        before, after, _ = GROWING[rule.name]
        assert raised(vitals(**before), vitals(**after), vitals(**after), vitals(**after)) == []
    else:
        assert raised(vitals(**SITUATIONS[rule.name][0]), vitals()) == []


def test_a_service_that_a_peer_serves_has_workers() -> None:
    network = [own(), broker(services={"ocr": 2})]
    assert raised(vitals(services=[service("ocr", workers=0)], network=network)) == []


def test_a_standby_misses_neither_workers_nor_peers() -> None:
    network = [own(state="passive"), broker("us-1", state="unknown", link="down")]
    assert raised(vitals(services=[service("ocr", workers=0)], network=network)) == []


def test_a_broker_that_stands_by_from_now_on_misses_nobody_any_more() -> None:
    gone = broker(state="gone", link="down")
    before = vitals(network=[own(), gone])
    assert [alarm.name for alarm in raised(before)] == ["broker_gone"]
    assert raised(before, vitals(network=[own(state="passive"), gone])) == []


def test_a_few_errors_are_no_share() -> None:
    assert raised(vitals(services=[service(tasks_per_s=0.01, errors_5m=3)])) == []


def test_a_standby_that_others_hear_of_is_not_missed() -> None:
    network = [own(), broker("us-1", fallback="in sync", **PAIR), broker("us-1b", state="passive", link="none")]
    assert raised(vitals(network=network)) == []


def test_five_thousand_workers_make_one_alarm_of_a_kind() -> None:
    workers = [worker(f"w-{number}", sessions_per_h=20, stuck=1) for number in range(5_000)]
    found = raised(vitals(workers=workers))
    assert [alarm.name for alarm in found] == ["workers_stuck", "worker_flapping"]
    assert "and 4,997 more" in found[0].cause


def test_a_hostile_name_stays_a_name_in_sentences_and_in_commands() -> None:
    name = "{0.__class__} $(reboot)"
    (alarm,) = raised(vitals(network=[own(), broker(name, state="gone", link="down")]))
    assert name in alarm.cause
    assert alarm.cure.endswith(f"scale0 ctl forget '{name}'")
    assert " " not in alarm.link


@pytest.mark.parametrize("cure", [rule.cure for rule in RULES] + [noted.cure for noted in NOTED.values()])
def test_a_command_that_a_cure_names_exists(cure: str) -> None:
    from typer.main import get_command

    from scale0.cli.main import app

    for said in re.findall(r"scale0((?: [a-z][a-z-]+)+)", cure):
        command: Any = get_command(app)
        words = said.split()
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"scale0{said}"
            command = command.commands[words.pop(0)]
