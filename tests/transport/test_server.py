from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from scale0.core.settings import BrokerSettings
from scale0.errors import PortTaken, ProtocolError, SettingsError
from scale0.protocol.messages import ConfigAck, Connect, Disconnect, Error, TaskReply
from scale0.protocol.network import Document
from scale0.transport.logs import make_log
from scale0.transport.server import Server
from tests.integration.wire import LIMIT_S, RawClient, RawWorker

ANY = "tcp://127.0.0.1:0"


class Running:
    """A server in a thread."""

    def __init__(self, settings: BrokerSettings | None = None, bind: str = ANY, **options: object) -> None:
        self.lines = io.StringIO()
        log = make_log(to=self.lines)
        self.server = Server(settings or BrokerSettings(), bind, log=log, strict=True, **options)  # type: ignore[arg-type]
        self.endpoint = self.server.endpoints[0]
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *failure: object) -> None:
        self.server.kill()
        self.join()

    def join(self) -> None:
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()


def test_drained_server_finishes_what_it_holds_and_then_stops() -> None:
    with Running() as running, RawClient(running.endpoint) as client, RawWorker(running.endpoint) as worker:
        held = client.submit("echo", b"held")
        task = worker.take()
        running.server.drain(LIMIT_S)
        running.server.manage("list").result(LIMIT_S)  # comes after it in the loop's order
        refused = client.submit("echo", b"too late")
        assert (error := client.hear_a(Error)).code == 503
        assert error.id == refused
        worker.reply(task, b"done")
        assert client.hear_a(TaskReply).id == held
        client.hear_a(Disconnect)
        worker.hear_a(Disconnect)
        running.join()


def test_drain_ends_at_its_limit_though_a_task_is_held() -> None:
    with Running() as running, RawClient(running.endpoint) as client, RawWorker(running.endpoint) as worker:
        client.submit("echo", b"held")
        worker.take()
        running.server.drain(0.1)
        running.join()
        assert "the time for draining is over" in running.lines.getvalue()


def test_stopping_server_says_goodbye_and_a_killed_one_does_not() -> None:
    with Running() as running, RawClient(running.endpoint) as client:
        running.server.stop()
        client.hear_a(Disconnect)
        running.join()
    with Running() as running, RawClient(running.endpoint) as client:
        running.server.kill()
        running.join()
        assert client.get_within(0.2) is None


def test_disabled_broker_stays_disabled_over_a_restart(tmp_path: Path) -> None:
    with Running(state_dir=tmp_path) as running:
        assert running.server.manage("disable").result(LIMIT_S) == {"state": "disabled"}
    with Running(state_dir=tmp_path) as running:
        assert running.server.manage("list").result(LIMIT_S)["broker"]["state"] == "disabled"
        running.server.manage("enable").result(LIMIT_S)
    with Running(state_dir=tmp_path) as running, RawClient(running.endpoint):
        assert running.server.manage("list").result(LIMIT_S)["broker"]["state"] == "active"


def test_disabled_server_can_be_drained(tmp_path: Path) -> None:
    with Running(state_dir=tmp_path) as running:
        running.server.manage("disable").result(LIMIT_S)
        running.server.drain(LIMIT_S)
        running.join()


def test_state_that_cannot_be_kept_is_told_and_the_broker_serves_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a directory")
    with Running(state_dir=tmp_path / "file" / "below") as running:
        running.server.manage("disable").result(LIMIT_S)
        running.server.manage("enable").result(LIMIT_S)
        with RawClient(running.endpoint):
            assert "could not be kept" in running.lines.getvalue()


def test_unknown_command_is_raised_to_who_asked() -> None:
    with Running() as running, pytest.raises(ProtocolError, match="no command 'dance'"):
        running.server.manage("dance").result(LIMIT_S)


def test_settings_read_again_reach_new_sessions_and_bad_ones_change_nothing() -> None:
    answers: list[Document | SettingsError] = [
        SettingsError("broker.toml, line 1: unknown key x"),
        Document(liveness=-1),
        Document(liveness=7),
    ]

    def reread() -> Document:
        answer = answers.pop(0)
        if isinstance(answer, SettingsError):
            raise answer
        return answer

    with Running(reread=reread) as running:
        before = running.server.manage("list").result(LIMIT_S)["broker"]["config_version"]
        running.server.reload()
        assert running.server.manage("list").result(LIMIT_S)["broker"]["config_version"] == before
        assert "settings not changed: broker.toml, line 1" in running.lines.getvalue()
        running.server.reload()
        assert running.server.manage("list").result(LIMIT_S)["broker"]["config_version"] == before
        assert "settings not changed: config: liveness" in running.lines.getvalue()
        told = running.server.manage("reload_config").result(LIMIT_S)
        assert told["changed"]
        broker = running.server.manage("list").result(LIMIT_S)["broker"]
        assert broker["config_version"] == told["version"] != before
        assert broker["identity"] == "broker"
        with RawClient(running.endpoint) as client:
            client.say(Connect(identity=client.identity, nonce=client.nonce, config_version=b"x" * 16))
            answer = client.hear()
            assert not isinstance(answer, ConfigAck)
            assert answer.liveness == 7


def test_who_asks_for_a_reload_hears_why_the_file_was_refused() -> None:
    def reread() -> Document:
        raise SettingsError("broker.toml, line 1: unknown key x")

    with Running(reread=reread) as running, pytest.raises(ProtocolError, match="line 1: unknown key x") as caught:
        running.server.manage("reload_config").result(LIMIT_S)
    assert caught.value.code == 400


def test_reload_without_a_file_says_so() -> None:
    with Running() as running:
        told = running.server.manage("reload_config").result(LIMIT_S)
        assert (told["changed"], "without a settings file" in told["note"]) == (False, True)
        running.server.reload()
        running.server.manage("list").result(LIMIT_S)
        assert "without a settings file" in running.lines.getvalue()


def test_clients_and_workers_may_be_parted() -> None:
    with Running(backend=ANY) as running:
        frontend, backend = running.server.endpoints
        assert frontend != backend
        with RawClient(frontend) as client, RawWorker(backend) as worker:
            task_id = client.submit("echo", b"over")
            worker.reply(worker.take(), b"there")
            assert client.hear().id == task_id


@pytest.mark.parametrize(("port", "cure"), [("backend", "with --backend"), ("peer", "with peer_port of the config")])
def test_taken_port_is_told_with_the_option_that_named_it(port: str, cure: str) -> None:
    with Running() as running, pytest.raises(PortTaken, match=cure):
        Running(**{port: running.endpoint})  # type: ignore[arg-type]


def test_taken_port_leaves_nothing_behind() -> None:
    with Running() as running, pytest.raises(PortTaken):
        Server(BrokerSettings(), ANY, running.endpoint, log=make_log(is_quiet=True))


def test_publisher_has_the_same_free_port_after_a_restart(tmp_path: Path) -> None:
    with Running(publish=ANY, state_dir=tmp_path) as running:
        running.server.manage("list").result(LIMIT_S)  # its config is kept by then
        first = running.server.publishes_at
    with Running(publish=ANY, state_dir=tmp_path) as again:
        assert again.server.publishes_at == first
        with Running(publish=ANY, state_dir=tmp_path / "other") as elsewhere:
            assert elsewhere.server.publishes_at != first
