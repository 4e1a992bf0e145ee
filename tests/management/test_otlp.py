"""Metrics as a real OTLP collector receives them, decoded from what was posted: of made-up rows, and of a broker."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from scale0 import Client, Worker
from scale0.errors import SettingsError
from scale0.management import otlp
from scale0.management.otlp import BROKER, SERVICE, SERVICES_MAX, SHELL, Push, gathered, is_wanted, metrics_url
from scale0.management.vitals import Rows, read
from scale0.testing import broker
from scale0.transport.logs import make_log
from tests.management.receivers import WAIT_S, Receiver, receiver
from tests.management.situations import service, shell

OWN = {"accepted": 7, "replied": 5, "errored": 1, "queued": 1, "in_flight": 0, "workers": 2, "clients": 1}
ROWS = Rows(
    services=[{**service("render"), "p50_us": 8_000, "p99_us": 41_000}, service("ocr", workers=0, queued=3)],
    brokers=[{**OWN, "dead_letters": 4}],
)
Points = dict[tuple[str, str], float]


@pytest.fixture
def collector() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*otlp.ENDPOINTS, otlp.INTERVAL_VARIABLE, "OTEL_EXPORTER_OTLP_HEADERS"):
        monkeypatch.delenv(name, raising=False)


class Pushing:
    """A push under test, and what it logs. Alarms are those of `raised`."""

    def __init__(self, address: str) -> None:
        self.written = io.StringIO()
        self.raised: list[dict[str, Any]] = []
        log = make_log(is_json=True, to=self.written)
        self.push = Push(address, identity="eu-1", network="prod", log=log, raised=lambda: self.raised)

    def take(self, rows: Rows) -> None:
        self.push.take(read(rows, shell()), rows)


@pytest.fixture
def made() -> Iterator[list[Pushing]]:
    pushes: list[Pushing] = []
    yield pushes
    for each in pushes:
        each.push.close()


def points(body: bytes) -> Points:
    """Every point by its metric's name and its one label."""
    found: Points = {}
    for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in (metric.gauge if metric.HasField("gauge") else metric.sum).data_points:
                    label = ",".join(each.value.string_value for each in point.attributes)
                    value = point.as_double if point.HasField("as_double") else float(point.as_int)
                    found[metric.name, label] = value
    return found


def test_a_collector_gets_the_brokers_figures(collector: Receiver, made: list[Pushing]) -> None:
    made.append(Pushing(f"{collector.url}/v1"))
    made[0].raised = [{"name": "queue_old", "severity": "warn"}, {"name": "queue_old", "severity": "warn"}]
    made[0].take(ROWS)
    assert made[0].push.flush(WAIT_S)
    request = collector.next()
    assert request.path == "/v1/metrics"
    found = points(request.body)
    assert found["scale0.tasks.accepted", ""] == 7
    assert found["scale0.dead_letters", ""] == 4
    assert found["scale0.process.memory", ""] == 60 * 2**20
    assert found["scale0.service.latency.p99", "render"] == pytest.approx(0.041)
    assert found["scale0.service.queued", "ocr"] == 3
    assert found["scale0.alarms", "queue_old,warn"] == 2


def test_a_real_broker_pushes_what_it_is_told_to(collector: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(otlp.INTERVAL_VARIABLE, "50")  # ms
    with broker(identity="eu-1", management={"otlp": f"{collector.url}/v1"}) as running:
        worker = Worker(running.endpoint)
        worker.add_service("double", lambda number: 2 * number)
        with worker, Client(running.endpoint) as client:
            assert client.call("double", 2) == 4
            found: Points = {}
            while found.get(("scale0.tasks.replied", ""), 0) < 1:
                found = points(collector.next().body)
    assert found["scale0.service.workers", "double"] == 1
    assert found["scale0.process.memory", ""] > 0


def test_what_is_not_known_is_not_pushed(collector: Receiver, made: list[Pushing]) -> None:
    made.append(Pushing(collector.url))
    made[0].take(ROWS)
    assert made[0].push.flush(WAIT_S)
    found = points(collector.next().body)
    assert ("scale0.service.latency.p99", "ocr") not in found
    assert ("scale0.process.cpu", "") not in found


def test_it_says_which_broker_of_which_network(collector: Receiver, made: list[Pushing]) -> None:
    made.append(Pushing(collector.url))
    made[0].take(ROWS)
    assert made[0].push.flush(WAIT_S)
    (resource,) = ExportMetricsServiceRequest.FromString(collector.next().body).resource_metrics
    said = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (said["service.name"], said["service.instance.id"], said["scale0.network"]) == (
        "scale0-broker",
        "eu-1",
        "prod",
    )


def test_totals_are_told_as_sums_that_only_grow(collector: Receiver, made: list[Pushing]) -> None:
    made.append(Pushing(collector.url))
    made[0].take(ROWS)
    assert made[0].push.flush(WAIT_S)
    (resource,) = ExportMetricsServiceRequest.FromString(collector.next().body).resource_metrics
    monotonic = {m.name for scope in resource.scope_metrics for m in scope.metrics if m.sum.is_monotonic}
    assert monotonic == {metric.name for metric in BROKER if metric.is_total}


def test_a_collector_that_fails_is_told_once_and_its_return_too(collector: Receiver, made: list[Pushing]) -> None:
    collector.status = 400  # one for which the exporter does not try again by itself
    made.append(Pushing(collector.url))
    made[0].take(ROWS)
    made[0].push.flush(WAIT_S)
    made[0].push.flush(WAIT_S)
    collector.status = 200
    made[0].push.flush(WAIT_S)
    lines = made[0].written.getvalue().splitlines()
    assert len(lines) == 2
    assert "metrics could not be pushed" in lines[0]
    assert "metrics are pushed again" in lines[1]


def test_a_token_goes_to_the_collector_and_nowhere_else(
    collector: Receiver, made: list[Pushing], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=S3CRET")
    collector.status = 403
    made.append(Pushing(collector.url))
    made[0].take(ROWS)
    with caplog.at_level("DEBUG"):
        made[0].push.flush(WAIT_S)
    assert collector.next().headers["api-key"] == "S3CRET"
    assert "S3CRET" not in made[0].written.getvalue() + caplog.text


def test_the_environments_address_is_enough(
    collector: Receiver, made: list[Pushing], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_wanted("")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    assert is_wanted("")
    made.append(Pushing(""))
    made[0].take(ROWS)
    assert made[0].push.flush(WAIT_S)
    assert collector.next().path == "/v1/metrics"


def test_many_services_are_pushed_as_some_and_the_rest() -> None:
    rows = [service(f"s{number:04}", tasks_per_s=float(number), queued=1) for number in range(1_000)]
    kept = gathered(rows)
    assert len(kept) == SERVICES_MAX
    assert kept[0]["name"] == "s0999"
    rest = 1_000 - (SERVICES_MAX - 1)
    assert (kept[-1]["name"], kept[-1]["queued"], kept[-1]["p99_us"]) == ("other", rest, None)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://127.0.0.1:4318/v1", "http://127.0.0.1:4318/v1/metrics"),
        ("http://collector:4318", "http://collector:4318/v1/metrics"),
        ("https://otlp.example.org/tenant/v1/metrics", "https://otlp.example.org/tenant/v1/metrics"),
    ],
)
def test_an_address_is_completed(address: str, expected: str) -> None:
    assert metrics_url(address) == expected


@pytest.mark.parametrize(
    "address", ["collector:4318", "ftp://x/v1", "http://", "http://u:s3cr3t@x/v1", "http://x:0", "http://[x"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match=r"management\.otlp") as refused:
        metrics_url(address)
    assert "s3cr3t" not in str(refused.value)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    with pytest.raises(SettingsError, match=r"pip install \"scale0\[otel\]\""):
        Pushing("http://127.0.0.1:4318/v1")


def test_every_metric_has_a_name_of_its_own() -> None:
    names = [metric.name for metric in (*BROKER, *SHELL, *SERVICE)]
    assert len(names) == len(set(names))
