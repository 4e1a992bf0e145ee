"""Metrics are pushed by OTLP over HTTP, with OpenTelemetry's own exporter: an extra, `scale0[otel]`.

What is pushed is what the last look at the broker found (`watch.py`): nothing is measured for it, and the routing loop
has no part in it. The exporter's thread encodes and sends every `INTERVAL_S`, or as OTEL_METRIC_EXPORT_INTERVAL says.
Labels are bounded: services up to `SERVICES_MAX`, and the others together. The address comes from `management.otlp`, or
from OTEL_EXPORTER_OTLP_ENDPOINT; headers, such as a token, from OTEL_EXPORTER_OTLP_HEADERS alone, so that no secret
stands in a settings file.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0 import __version__
from scale0.errors import SettingsError
from scale0.management.vitals import Row, Rows, Shell, Vitals

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

INTERVAL_S: Final = 30.0
ATTEMPT_S: Final = 5.0
SERVICES_MAX: Final = 200
OTHER: Final = "other"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
INTERVAL_VARIABLE: Final = "OTEL_METRIC_EXPORT_INTERVAL"


class Metric(msgspec.Struct, frozen=True):
    """One metric: the column that it is read from, and by what that is multiplied."""

    name: str
    column: str
    unit: str
    text: str
    factor: float = 1.0
    is_total: bool = False
    is_sum: bool = True  # of several services together: their sum, else the greatest


BROKER: Final = (
    Metric("scale0.tasks.accepted", "accepted", "{task}", "tasks accepted", is_total=True),
    Metric("scale0.tasks.replied", "replied", "{task}", "tasks that ended in a reply", is_total=True),
    Metric("scale0.tasks.errored", "errored", "{task}", "tasks that ended in an error", is_total=True),
    Metric("scale0.tasks.queued", "queued", "{task}", "tasks that wait for a worker"),
    Metric("scale0.tasks.in_flight", "in_flight", "{task}", "tasks at workers"),
    Metric("scale0.workers", "workers", "{worker}", "workers with a session here"),
    Metric("scale0.clients", "clients", "{client}", "clients with a session here"),
    Metric("scale0.dead_letters", "dead_letters", "{task}", "tasks that failed their last attempt"),
)
SHELL: Final = (
    Metric("scale0.connections", "connections", "{connection}", "open connections"),
    Metric("scale0.process.memory", "rss_bytes", "By", "memory of the broker's process"),
    Metric("scale0.process.cpu", "cpu_percent", "1", "share of one processor that it takes", 0.01),
    Metric("scale0.loop.late", "loop_late_us", "s", "the longest that its loop kept others waiting", 1e-6),
)
SERVICE: Final = (
    Metric("scale0.service.workers", "workers", "{worker}", "workers that serve it"),
    Metric("scale0.service.slots", "capacity", "{slot}", "slots of its workers"),
    Metric("scale0.service.slots.free", "free", "{slot}", "slots that could take a task"),
    Metric("scale0.service.queued", "queued", "{task}", "tasks that wait for it"),
    Metric("scale0.service.rate", "tasks_per_s", "{task}/s", "tasks settled a second, over 30 to 60 s"),
    Metric("scale0.service.errors", "errors_5m", "{task}", "errors in the last five minutes"),
    Metric("scale0.service.oldest", "oldest_us", "s", "how long its oldest task has waited", 1e-6, is_sum=False),
    Metric("scale0.service.latency.p50", "p50_us", "s", "half of its tasks took at most this", 1e-6, is_sum=False),
    Metric("scale0.service.latency.p99", "p99_us", "s", "99 of 100 took at most this", 1e-6, is_sum=False),
)


def is_wanted(address: str) -> bool:
    """Whether metrics are to be pushed: by the setting; or by OpenTelemetry's own variables, where it is installed."""
    if address:
        return True
    is_told = any(os.environ.get(name) for name in ENDPOINTS)
    return is_told and importlib.util.find_spec("opentelemetry.sdk") is not None


def metrics_url(address: str) -> str:
    """Where metrics go, of an address such as http://127.0.0.1:4318/v1. Raises `SettingsError` for one that is none."""
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise SettingsError("management.otlp: an address is written as http://127.0.0.1:4318/v1")
    if parts.username is not None or parts.password is not None:
        text = "management.otlp: secrets do not belong into an address; OTEL_EXPORTER_OTLP_HEADERS takes them"
        raise SettingsError(text)
    path = parts.path.rstrip("/")
    if not path.endswith("/metrics"):
        path = f"{path}/metrics" if path.endswith("/v1") else f"{path}/v1/metrics"
    return parts._replace(path=path).geturl()


class Push:
    """Pushes what it was last given, until `close`. An `exporter` of one's own is for tests of programs."""

    def __init__(
        self,
        address: str,
        *,
        identity: str,
        network: str,
        log: FilteringBoundLogger,
        raised: Callable[[], Sequence[Mapping[str, Any]]] = tuple,
        exporter: MetricExporter | None = None,
    ) -> None:
        url = metrics_url(address) if address else None
        try:
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError:
            raise SettingsError('management.otlp needs OpenTelemetry: pip install "scale0[otel]"') from None
        self._own: Row = {}
        self._shell: Shell | None = None
        self._services: Sequence[Row] = ()
        self._raised = raised
        # Without a handler its complaints would go to stderr, between the lines of the broker's own log.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        told = _telling(exporter or _exporter(url), log)
        interval_ms = None if os.environ.get(INTERVAL_VARIABLE) else INTERVAL_S * 1e3
        attributes = {"service.name": "scale0-broker", "service.instance.id": identity, "scale0.network": network}
        self._provider = MeterProvider(
            metric_readers=[PeriodicExportingMetricReader(told, interval_ms, ATTEMPT_S * 1e3)],
            resource=Resource.create({**attributes, "service.version": __version__}),
            shutdown_on_exit=False,
        )
        self._make_instruments()

    def take(self, vitals: Vitals, rows: Rows) -> None:
        """What was found by the last look; it is pushed when the time comes."""
        self._own = rows.brokers[0] if rows.brokers else {}
        self._shell = vitals.shell
        self._services = gathered(rows.services or ())

    def flush(self, timeout_s: float = ATTEMPT_S) -> bool:
        """Push now. False: that did not succeed in time."""
        return self._provider.force_flush(timeout_s * 1e3)

    def close(self) -> None:
        """Push once more, and end."""
        self._provider.shutdown(timeout_millis=ATTEMPT_S * 1e3)

    def _make_instruments(self) -> None:
        meter = self._provider.get_meter("scale0", __version__)
        for metric in BROKER:
            make = meter.create_observable_counter if metric.is_total else meter.create_observable_gauge
            make(metric.name, [self._reading(metric, lambda: [(self._own, {})])], metric.unit, metric.text)
        for metric in SHELL:
            reading = self._reading(metric, lambda: [(_columns(self._shell), {})])
            meter.create_observable_gauge(metric.name, [reading], metric.unit, metric.text)
        for metric in SERVICE:
            reading = self._reading(metric, lambda: [(row, {"service": str(row["name"])}) for row in self._services])
            meter.create_observable_gauge(metric.name, [reading], metric.unit, metric.text)
        meter.create_observable_gauge("scale0.alarms", [self._alarms], "{alarm}", "alarms that are raised")

    def _reading(
        self, metric: Metric, rows: Callable[[], list[tuple[Row, dict[str, str]]]]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        def read(options: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(value * metric.factor, labels)
                for row, labels in rows()
                if isinstance(value := row.get(metric.column), int | float)  # what is not known is not pushed
            ]

        return read

    def _alarms(self, options: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        counts: dict[tuple[str, str], int] = {}
        for alarm in self._raised():
            key = (str(alarm["name"]), str(alarm["severity"]))
            counts[key] = counts.get(key, 0) + 1
        return [Observation(count, {"name": name, "severity": severity}) for (name, severity), count in counts.items()]


def gathered(rows: Sequence[Row]) -> Sequence[Row]:
    """Rows of at most so many services: the busiest by name, and one row of all others."""
    if len(rows) <= SERVICES_MAX:
        return rows
    ranked = sorted(rows, key=lambda row: (-(row.get("tasks_per_s") or 0.0), str(row["name"])))
    kept, rest = ranked[: SERVICES_MAX - 1], ranked[SERVICES_MAX - 1 :]
    together: dict[str, Any] = {"name": OTHER}
    for metric in SERVICE:
        known = [value for row in rest if (value := row.get(metric.column)) is not None]
        together[metric.column] = (sum if metric.is_sum else max)(known) if known else None
    return [*kept, together]


def _columns(shell: Shell | None) -> Row:
    return msgspec.structs.asdict(shell) if shell is not None else {}


def _exporter(url: str | None) -> MetricExporter:
    """OpenTelemetry's own; without an address it takes the one that its variables name."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError:
        raise SettingsError('management.otlp needs the exporter: pip install "scale0[otel]"') from None
    return OTLPMetricExporter(endpoint=url, timeout=ATTEMPT_S)


def _telling(exporter: MetricExporter, log: FilteringBoundLogger) -> MetricExporter:
    """The same exporter; that it begins to fail, or succeeds again, is a line of the log."""
    from opentelemetry.sdk.metrics.export import MetricExportResult

    export = exporter.export
    is_failing = False

    def told(metrics_data: MetricsData, timeout_millis: float = ATTEMPT_S * 1e3, **more: Any) -> MetricExportResult:
        nonlocal is_failing
        result = export(metrics_data, timeout_millis, **more)
        has_failed = result is not MetricExportResult.SUCCESS
        if has_failed and not is_failing:
            log.warning("metrics could not be pushed; it is tried again. Is there a collector at management.otlp?")
        elif is_failing and not has_failed:
            log.info("metrics are pushed again")
        is_failing = has_failed
        return result

    exporter.export = told  # type: ignore[method-assign]
    return exporter
