"""The server: where it listens and where it does not, TLS, and connections that hold a place for nothing."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from scale0.errors import PortTaken, SettingsError
from scale0.management.http import server
from scale0.management.http.app import make_app
from scale0.management.http.guards import HEADERS
from scale0.management.http.server import Server, address_of, check_safe, is_loopback, listening
from tests.management.http.fake_door import FakeDoor
from tests.management.http.fake_page import make_site
from tests.management.http.support import LIMIT_S, Running, running, until


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8480", ("127.0.0.1", 8480)), ("[::1]:0", ("::1", 0)), ("localhost:1", ("localhost", 1))],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["", "8480", ":8480", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000", "a:²"])
def test_what_is_no_address_is_refused_with_one(text: str) -> None:
    with pytest.raises(SettingsError, match=r"127\.0\.0\.1:8480"):
        address_of(text)


def test_beyond_loopback_both_tls_and_users_are_needed() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "broker.example.com"):
        assert not is_loopback(host)
        with pytest.raises(SettingsError, match="tls_cert"):
            check_safe(host, has_tls=False, has_users=True)
        with pytest.raises(SettingsError, match="scale0 user add"):
            check_safe(host, has_tls=True, has_users=False)
        check_safe(host, has_tls=True, has_users=True)
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        check_safe(host, has_tls=False, has_users=False)


def test_a_port_that_is_taken_is_told() -> None:
    with listening("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}: Address already in use"):
            listening("127.0.0.1", port)
    with pytest.raises(PortTaken):
        listening("no.such.host.invalid", 0)


def test_the_address_names_the_port_that_the_system_chose(page: Running) -> None:
    host, port = page.url.removeprefix("http://").split(":")
    assert host == "127.0.0.1"
    assert int(port) > 0


def test_answers_leave_at_once_however_small_they_are(page: Running) -> None:
    with page.client() as client:
        assert client.get("/healthz").status_code == 200
        for transport in list(page.server._transports.values()):
            assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with: apt install openssl")
    home = tmp_path_factory.mktemp("tls")
    cert, key = home / "cert.pem", home / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return str(cert), str(key)


def test_with_tls_the_cookie_is_secure_and_browsers_stay_with_it(certificate: tuple[str, str]) -> None:
    trust = ssl.create_default_context(cafile=certificate[0])
    with running(tls=certificate) as page, page.client(verify=trust) as client:
        assert page.url.startswith("https://127.0.0.1:")
        answer = client.post(
            "/api/v1/login", json={"user": "viewer", "password": "viewerviewer"}, headers={"Origin": page.url}
        )
        assert answer.status_code == 204
        assert "Secure" in answer.headers["set-cookie"]
        assert answer.headers["set-cookie"].startswith(f"__Host-scale0-{page.url.rpartition(':')[2]}=")
        assert answer.headers["strict-transport-security"]
        assert client.get("/api/v1/me").json()["user"] == "viewer"
        other = client.post("/api/v1/logout", headers={"Origin": page.url.replace("https", "http")})
        assert other.status_code == 403
        with pytest.raises(httpx.HTTPError):
            httpx.get(page.url.replace("https", "http") + "/healthz", trust_env=False)


def test_files_that_make_no_tls_are_told_at_the_start(tmp_path: Path, certificate: tuple[str, str]) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("nothing")
    app = make_app(make_site(FakeDoor()), paths=[])
    with listening("127.0.0.1", 0) as bound:
        with pytest.raises(SettingsError, match="cannot be read"):
            Server(app, bound, (str(tmp_path / "none.pem"), certificate[1]))
        with pytest.raises(SettingsError, match="do not make a TLS server"):
            Server(app, bound, (str(junk), certificate[1]))


def test_a_connection_that_sends_no_request_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_WITHIN_S", 0.2)
    with running() as page:
        host, port = page.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
            with contextlib.suppress(ConnectionResetError):
                assert idle.recv(1) == b""
        assert page.get("/healthz", "").status_code == 200


def test_a_connection_that_is_used_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_WITHIN_S", 1.0)
    with running() as page, page.client() as client:
        assert client.get("/healthz").status_code == 200
        transports = set(page.server._transports.values())
        checked_s = time.monotonic() + 1.2
        until(lambda: time.monotonic() > checked_s)  # its time for a first request is over
        assert client.get("/healthz").status_code == 200
        assert set(page.server._transports.values()) == transports


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scale0.management.http.routing.BODY_WITHIN_S", 0.1)
    with running() as page:
        host, port = page.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as slow:
            slow.sendall(
                b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100\r\n\r\n{"
            )
            assert slow.recv(4_096).startswith(b"HTTP/1.1 408 ")


ALWAYS = {name.lower(): value.lower() for name, value in HEADERS.items()}


def answered(page: Running, sent: bytes) -> tuple[bytes, dict[str, str]]:
    """What comes back to these bytes: the first line, and those headers that every answer has."""
    host, port = page.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as raw:
        raw.sendall(sent)
        got = b""
        while b"\r\n\r\n" not in got and (more := raw.recv(65_536)):
            got += more
    head, *lines = got.partition(b"\r\n\r\n")[0].split(b"\r\n")
    pairs = [line.decode().lower().split(": ", 1) for line in lines]
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), "each header once"
    return head, {name: value for name, value in pairs if name in ALWAYS}


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET\r\n\r\n"])
def test_what_is_no_http_is_answered_with_the_headers_of_every_answer(page: Running, sent: bytes) -> None:
    head, headers = answered(page, sent)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert headers == ALWAYS


def test_the_answer_to_a_connection_too_many_has_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    with running() as page:
        head, headers = answered(page, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert headers == ALWAYS
