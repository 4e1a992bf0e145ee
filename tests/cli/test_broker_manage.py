"""--manage: what follows from command line and file, what is refused before the start, and what is said of it."""

from __future__ import annotations

import re
import signal
import socket
import urllib.request
from pathlib import Path

import msgspec
import pytest

from scale0.cli import broker_manage
from scale0.cli.broker_manage import ManageOptions
from scale0.core.settings import ManagementSettings
from scale0.errors import PortTaken, UsageError
from scale0.testing import managed_by
from tests.cli import processes
from tests.cli.processes import LIMIT_S, end, scale0

ENVIRON = {"XDG_CONFIG_HOME": "/config"}


def test_the_users_are_those_of_the_account_unless_said_otherwise(tmp_path: Path) -> None:
    assert broker_manage.plan(ManageOptions(), ManagementSettings(), ENVIRON).users == "/config/scale0/users.json"
    told = ManagementSettings(users="mine.json", http="127.0.0.1:1")
    planned = broker_manage.plan(ManageOptions(http="127.0.0.1:2"), told, ENVIRON, tmp_path)
    assert planned.users == str(tmp_path / "mine.json")  # beside the settings file
    assert planned.http == "127.0.0.1:2"
    named = broker_manage.plan(ManageOptions(users=tmp_path / "u"), told, ENVIRON)
    assert named.users == str(tmp_path / "u")


def test_the_page_and_the_broker_do_not_share_a_port() -> None:
    with pytest.raises(UsageError, match=r"where the broker itself listens\nadd --manage 127"):
        broker_manage.check(ManagementSettings(http="127.0.0.1:1234"), ["tcp://127.0.0.1:1234"])
    broker_manage.check(ManagementSettings(http="127.0.0.1:0"), ["tcp://127.0.0.1:0"])


def test_a_certificate_and_its_key_go_together(tmp_path: Path) -> None:
    options = ManageOptions("127.0.0.1:0", tls_cert=tmp_path / "cert.pem")
    with pytest.raises(UsageError, match="--manage-tls-key"):
        broker_manage.plan(options, ManagementSettings(), ENVIRON)
    whole = msgspec.structs.replace(options, http=None, tls_key=tmp_path / "key.pem")
    with pytest.raises(UsageError, match="no page"):
        broker_manage.plan(whole, ManagementSettings(), ENVIRON)


def test_beyond_loopback_it_needs_tls_and_users_and_says_how_to_get_them() -> None:
    with pytest.raises(UsageError) as refused:
        broker_manage.check(ManagementSettings(http="0.0.0.0:8480"))
    text = str(refused.value)
    assert "--manage-tls-cert FILE --manage-tls-key FILE" in text
    assert "scale0 user add NAME" in text


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--manage: 'nonsense' is no address such as 127\.0\.0\.1:8480"):
        broker_manage.check(ManagementSettings(http="nonsense"))


def test_a_port_that_is_taken_is_told_with_who_has_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken) as refused:
            broker_manage.check(ManagementSettings(http=f"127.0.0.1:{port}"))
    assert "listens there" in str(refused.value) or "in use" in str(refused.value)
    assert "--manage 127.0.0.1:0 takes a free one" in str(refused.value)


def test_the_line_holds_the_token_in_the_fragment() -> None:
    assert broker_manage.sentence("http://127.0.0.1:8480") == "page: http://127.0.0.1:8480/"
    line = broker_manage.sentence("http://127.0.0.1:8480", "abc")
    assert line.startswith("page: http://127.0.0.1:8480/#token=abc   (good for one login within 5 minutes")


def test_a_default_start_opens_no_page(tmp_path: Path) -> None:
    assert broker_manage.plan(ManageOptions(), ManagementSettings(), ENVIRON).http == ""


def started(*arguments: str, config: Path) -> str:
    """The line about the page that a real broker writes to stderr."""
    with processes.running(
        "broker", "--bind", "tcp://127.0.0.1:0", "--manage", "127.0.0.1:0", *arguments, XDG_CONFIG_HOME=str(config)
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if line.startswith("page: "):
                url = re.findall(r"http://[\d.]+:\d+/", line)[0]
                with urllib.request.urlopen(f"{url}healthz", timeout=LIMIT_S) as answer:
                    assert answer.status == 200
                assert end(child, signal.SIGTERM)[0] == 0
                return line
    raise AssertionError("nothing was said of the page")


def test_a_real_broker_tells_its_page_with_a_token_while_there_are_no_users(tmp_path: Path) -> None:
    assert re.match(r"page: http://127\.0\.0\.1:\d+/#token=[\w-]{40,}   \(good for one login", started(config=tmp_path))


def test_with_users_the_page_is_told_without_a_token(tmp_path: Path) -> None:
    users = managed_by(tmp_path, {"ops": "secret"})["users"]
    assert "#token=" not in started("--manage-users", users, config=tmp_path)


def test_a_broker_that_cannot_have_its_page_does_not_start() -> None:
    done = scale0("broker", "--bind", "tcp://127.0.0.1:0", "--manage", "0.0.0.0:0")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error: the page does not listen on 0.0.0.0" in done.stderr
