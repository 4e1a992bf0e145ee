"""A broker that can write no file any more serves on, says so, and writes again when it can."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from scale0 import Client
from tests.integration.load import echo_worker
from tests.integration.networks import PATIENCE, BrokerProcess, document, network, until

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="only Linux can limit the files of a process that runs"
)


def limit_files(broker: BrokerProcess, size_bytes: int) -> None:
    """No file of its may grow beyond this: writing fails, as on a full disk."""
    _soft, hard = resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


def test_broker_with_a_full_disk_serves_on_and_takes_changes_that_it_cannot_keep(tmp_path: Path) -> None:
    with network(tmp_path, "b1", "b2", group="eu", liveness=PATIENCE) as brokers:
        full = brokers["b2"]
        kept = full.state_dir / "config.json"
        before = kept.read_text()
        limit_files(full, 0)
        with echo_worker(full.endpoint, "w", "echo"), Client(full.endpoint) as client:
            version = brokers["b1"].apply(document(default_timeout=33, liveness=PATIENCE))
            until(lambda: full.version() == version, "it takes the change")
            until(lambda: full.alarms("config_not_kept"), "it says that it cannot keep it")
            assert "make room" in full.alarms("config_not_kept")[0]
            assert kept.read_text() == before, "the last good one stays"
            assert client.call("echo") == "w"
            assert not full.has_said("Traceback")

            limit_files(full, resource.RLIM_INFINITY)
            version = brokers["b1"].apply(document(default_timeout=44, liveness=PATIENCE))
            until(lambda: version.rpartition(".")[2] in kept.read_text(), "it keeps the next one")
            assert client.call("echo") == "w"
        assert not list(full.state_dir.glob(".*")), "nothing half-written is left"


@pytest.mark.slow
def test_broker_that_could_not_keep_a_change_gets_it_from_the_others_after_a_restart(tmp_path: Path) -> None:
    with network(tmp_path, "b1", "b2", group="eu") as brokers:
        full = brokers["b2"]
        limit_files(full, 0)
        version = brokers["b1"].apply(document(default_timeout=33))
        until(lambda: full.alarms("config_not_kept"), "it says that it cannot keep it")
        full.kill()
        full.start()
        brokers.await_complete()
        until(lambda: full.rows("config")[0]["document"]["default_timeout"] == 33, "it has the change")
        assert version in {row["version"] for row in full.rows("config_history")}
