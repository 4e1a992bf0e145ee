"""What alarms about brokers look at: the others of the network, and this one itself; see `alarm_readings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scale0.management.alarm_readings import Reading, Readings, is_serving, mebibytes, seconds
from scale0.management.vitals import BrokerVitals, Vitals

DAY_S = 86_400.0


# --- brokers --------------------------------------------------------------------------------------------------------


def gone_s(vitals: Vitals) -> Readings:
    """1 for a broker that is gone, or was never heard; the standby of a linked broker is that one's to watch."""
    if vitals.brokers is None:
        return None
    if not is_serving(vitals):
        return []
    return [
        Reading(each.identity, float(_is_gone(each)), _silence(each)) for each in vitals.brokers if not each.is_self
    ]


def link_down(vitals: Vitals) -> Readings:
    """1 for a broker that somebody says is there, while our link with it is down."""
    if vitals.brokers is None:
        return None
    if not is_serving(vitals):
        return []
    return [
        Reading(each.identity, float(each.link in ("down", "dialing") and not _is_gone(each)), _silence(each))
        for each in vitals.brokers
        if not each.is_self and each.state != "disabled"
    ]


def brokers_behind(vitals: Vitals) -> Readings:
    if vitals.brokers is None:
        return None
    return [Reading(each.identity, float(each.is_behind and not _is_gone(each))) for each in vitals.brokers]


def fallback_lost(vitals: Vitals) -> Readings:
    return _of_pairs(vitals, lambda each: each.fallback == "lost")


def fallback_behind(vitals: Vitals) -> Readings:
    return _of_pairs(vitals, lambda each: each.fallback == "behind")


def fallback_serves(vitals: Vitals) -> Readings:
    """1 for a primary in whose place its fallback serves."""
    if vitals.brokers is None:
        return None
    by_name = {each.identity: each for each in vitals.brokers}
    readings = []
    for each in vitals.brokers:
        other = by_name.get(each.fallback_broker)
        if other is not None:
            is_other = other.state == "active" and each.state != "active"
            readings.append(Reading(each.identity, float(is_other), {"other": other.identity, "state": each.state}))
    return readings


def _of_pairs(vitals: Vitals, is_so: Callable[[BrokerVitals], bool]) -> Readings:
    if vitals.brokers is None:
        return None
    owners = {each.fallback_broker: each.identity for each in vitals.brokers if each.fallback_broker}
    readings = []
    for each in vitals.brokers:
        other = each.fallback_broker or owners.get(each.identity, "")
        if other and each.state == "active":
            readings.append(Reading(each.identity, float(is_so(each)), {"other": other}))
    return readings


def _is_gone(broker: BrokerVitals) -> bool:
    return broker.state in ("gone", "unknown") and broker.link != "up"


def _silence(broker: BrokerVitals) -> dict[str, Any]:
    return {"silence": "was never heard" if broker.silent_s is None else f"is silent for {seconds(broker.silent_s)}"}


# --- the broker itself ----------------------------------------------------------------------------------------------


def loop_late_ms(vitals: Vitals) -> Readings:
    late_us = vitals.shell.loop_late_us
    return None if late_us is None else own(vitals, late_us / 1e3, late=seconds(late_us / 1e6))


def memory_percent(vitals: Vitals) -> Readings:
    return _share(vitals, vitals.shell.rss_bytes, vitals.shell.memory_bytes)


def disk_percent(vitals: Vitals) -> Readings:
    whole, free = vitals.shell.disk_bytes, vitals.shell.disk_free_bytes
    return _share(vitals, None if whole is None or free is None else whole - free, whole)


def connections_percent(vitals: Vitals) -> Readings:
    used, most = vitals.shell.connections, vitals.shell.connections_max
    if used is None or not most:
        return None
    return own(vitals, 100 * used / most, used=f"{used:,}", most=f"{most:,}")


def recorder_dropped(vitals: Vitals) -> Readings:
    dropped = vitals.shell.recorder_dropped_bytes
    return None if dropped is None else own(vitals, dropped)


def dead_letters(vitals: Vitals) -> Readings:
    return None if vitals.dead_letters is None else own(vitals, vitals.dead_letters, all=f"{vitals.dead_letters:,}")


def error_clients(vitals: Vitals) -> Readings:
    return None if vitals.error_clients is None else own(vitals, vitals.error_clients)


def audit_broken(vitals: Vitals) -> Readings:
    return _broken(vitals, vitals.shell.audit_error)


def page_down(vitals: Vitals) -> Readings:
    return _broken(vitals, vitals.shell.page_error)


def webhook_failures(vitals: Vitals) -> Readings:
    return None if vitals.shell.webhook_failures is None else own(vitals, vitals.shell.webhook_failures)


def key_days(vitals: Vitals) -> Readings:
    if vitals.keys_s is None:
        return None
    return [
        Reading(name, left_s / DAY_S, {"left": f"in {left_s / DAY_S:.1f} days" if left_s > 0 else "now: it is void"})
        for name, left_s in vitals.keys_s.items()
    ]


def own(vitals: Vitals, value: float, **figures: Any) -> list[Reading]:
    """The one reading of what concerns this broker."""
    return [Reading(vitals.shell.identity, float(value), figures)]


def _broken(vitals: Vitals, error: str | None) -> Readings:
    return None if error is None else own(vitals, float(error != ""), error=error)


def _share(vitals: Vitals, used: int | None, whole: int | None) -> Readings:
    if used is None or not whole:
        return None
    percent = 100 * used / whole
    return own(vitals, percent, percent=f"{percent:.0f} %", used=mebibytes(used), whole=mebibytes(whole))
