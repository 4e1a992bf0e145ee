"""`/metrics`: what Prometheus scrapes, made from the same snapshots that pages look at.

Names begin with `scale0_`, units are seconds, bytes and ratios. Labels are bounded: services up to 200, the rest of
them together as `other`; no client, worker or task is ever a label, for there may be any number of them. The format is
the one that the scraper asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.responses import Response
from starlette.types import ASGIApp

from scale0.errors import ProtocolError
from scale0.management.http.routing import Answer, Call, Path
from scale0.management.http.site import Site
from scale0.management.vocabulary import Role

SERVICES_MAX: Final = 200
OTHER: Final = "other"
COUNTERS_MAX: Final = 100
STATES: Final = ("joining", "active", "passive", "draining", "disabled")
Row = dict[str, Any]

BROKER_COUNTERS: Final = {
    "accepted": "tasks that this broker accepted",
    "replied": "tasks that were replied to",
    "errored": "tasks that were settled with an error",
}
BROKER_GAUGES: Final = {
    "queued": ("scale0_tasks_queued", "tasks that wait for a worker", 1.0),
    "in_flight": ("scale0_tasks_in_flight", "tasks at workers", 1.0),
    "workers": ("scale0_workers", "workers with a session here", 1.0),
    "clients": ("scale0_clients", "clients with a session here", 1.0),
    "dead_letters": ("scale0_dead_letters", "tasks that failed their last attempt", 1.0),
    "connections": ("scale0_connections", "open connections", 1.0),
    "rss_bytes": ("scale0_process_resident_memory_bytes", "memory of the broker's process", 1.0),
    "cpu_percent": ("scale0_process_cpu_ratio", "share of one processor that the broker's process takes", 0.01),
}
SERVICE_GAUGES: Final = {
    "workers": ("scale0_service_workers", "workers that serve it", 1.0),
    "free": ("scale0_service_slots_free", "slots that could take a task", 1.0),
    "capacity": ("scale0_service_slots", "slots of its workers", 1.0),
    "queued": ("scale0_service_queued", "tasks that wait for it", 1.0),
    "tasks_per_s": ("scale0_service_tasks_per_second", "tasks settled a second, over 30 to 60 s", 1.0),
    "errors_5m": ("scale0_service_errors_5m", "errors in the last five minutes", 1.0),
}
SERVICE_WORST: Final = {
    "oldest_us": ("scale0_service_oldest_seconds", "how long its oldest task has waited", 1e-6),
    "p50_us": ("scale0_service_latency_p50_seconds", "half of its tasks took at most this", 1e-6),
    "p99_us": ("scale0_service_latency_p99_seconds", "99 of 100 took at most this", 1e-6),
}
"""Figures that do not add up: of several services the worst is told."""


def paths() -> list[Path]:
    return [
        Path(
            method="GET",
            path="/metrics",
            name="metrics",
            tag="health",
            summary="figures for Prometheus; with a login, or the scrape token",
            handler=metrics,
            needs=Role.VIEW,
            answers=(Answer(200, "Prometheus text or OpenMetrics", media="text/plain"),),
        )
    ]


async def metrics(call: Call) -> ASGIApp:
    families = await gather(call.site)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Gathered(families))
    encode, media = choose_encoder(call.request.headers.get("accept", ""))
    return Response(encode(registry), 200, media_type=media)


class Gathered(Collector):
    """What was gathered for one scrape."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def gather(site: Site) -> list[Metric]:
    """Every figure. Of a broker that does not answer, only that it is not up."""
    try:
        brokers = await site.snapshots.get("brokers")
        services = await site.snapshots.get("services")
        alarms = await site.snapshots.get("alarms")
    except ProtocolError:
        return [_gauge("scale0_up", "1 if the broker answers", 0), *_own(site)]
    about = InfoMetricFamily("scale0_broker", "this broker")
    about.add_metric(
        [], {"identity": site.about.identity, "network": site.about.network, "version": site.about.version}
    )
    state = GaugeMetricFamily("scale0_state", "1 for the state that the broker is in", labels=["state"])
    for name in dict.fromkeys((*STATES, brokers.state)):
        state.add_metric([name], float(name == brokers.state))
    return [
        _gauge("scale0_up", "1 if the broker answers", 1),
        about,
        state,
        *_broker(brokers.rows[0] if brokers.rows else {}, brokers.document.get("broker") or {}),
        *_services(services.rows),
        _alarms(alarms.rows),
        *_own(site),
    ]


def _broker(row: Row, head: Row) -> Iterator[Metric]:
    for key, text in BROKER_COUNTERS.items():
        if _is_number(row.get(key)):
            yield CounterMetricFamily(f"scale0_tasks_{key}", text, value=float(row[key]))
    for key, (name, text, factor) in BROKER_GAUGES.items():
        if _is_number(row.get(key)):
            yield _gauge(name, text, row[key] * factor)
    if _is_number(head.get("uptime_us")):
        yield _gauge("scale0_uptime_seconds", "since the broker's start", head["uptime_us"] * 1e-6)
    if _is_number(head.get("epoch")):
        yield _gauge("scale0_epoch", "of its pair", head["epoch"])
    counters = CounterMetricFamily("scale0_broker_events", "what the broker counts, by name", labels=["event"])
    known = row.get("counters")
    for name, value in sorted(known.items())[:COUNTERS_MAX] if isinstance(known, dict) else ():
        if _is_number(value):
            counters.add_metric([name], float(value))
    yield counters


def _services(rows: list[Row]) -> Iterator[Metric]:
    """The busiest services by name, all others as one."""
    busiest = sorted(rows, key=lambda row: (-(row.get("tasks_per_s") or 0), str(row.get("name"))))
    named, others = busiest[:SERVICES_MAX], busiest[SERVICES_MAX:]
    groups = [(str(row.get("name")), [row]) for row in named] + ([(OTHER, others)] if others else [])
    for key, (name, text, factor) in SERVICE_GAUGES.items():
        yield _family(name, text, ((label, _sum(group, key, factor)) for label, group in groups))
    for key, (name, text, factor) in SERVICE_WORST.items():
        yield _family(name, text, ((label, _worst(group, key, factor)) for label, group in groups))
    yield _gauge("scale0_services", "services that the broker knows", len(rows))
    yield _gauge("scale0_services_without_worker", "of them", sum(1 for row in rows if row.get("state") == "no worker"))


def _alarms(rows: list[Row]) -> Metric:
    """By name and severity: the names are a fixed set."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (str(row.get("name")), str(row.get("severity")))
        counts[key] = counts.get(key, 0) + (row.get("state") == "raised")
    family = GaugeMetricFamily("scale0_alarms", "alarms that are raised", labels=["name", "severity"])
    for labels, count in sorted(counts.items())[:COUNTERS_MAX]:
        family.add_metric(labels, float(count))
    return family


def _own(site: Site) -> Iterator[Metric]:
    """The page's process about itself."""
    yield _gauge("scale0_page_streams", "open event streams", len(site.streams))
    yield _gauge("scale0_page_sessions", "sessions of visitors", len(site.visitors.sessions))
    dropped = site.streams.dropped
    yield CounterMetricFamily("scale0_page_streams_dropped", "streams whose reader was too slow", value=float(dropped))
    asked = site.snapshots.asked
    yield CounterMetricFamily("scale0_page_snapshots", "snapshots asked of the broker", value=float(asked))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _family(name: str, text: str, values: Iterable[tuple[str, float | None]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["service"])
    for label, value in values:
        if value is not None:
            family.add_metric([label], value)
    return family


def _sum(rows: list[Row], key: str, factor: float) -> float | None:
    known = [row[key] for row in rows if _is_number(row.get(key))]
    return sum(known) * factor if known else None


def _worst(rows: list[Row], key: str, factor: float) -> float | None:
    known = [row[key] for row in rows if _is_number(row.get(key))]
    return max(known) * factor if known else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
