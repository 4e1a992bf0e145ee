"""What stands before every route: Host, Origin, size, and the headers of each answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from scale0.management.http.guards import host_name
from scale0.management.http.routing import Path
from scale0.management.http.shapes import BODY_BYTES_MAX
from tests.management.http.support import PATHS, Running, running

CHANGES = [path for path in PATHS if path.method != "GET"]


@pytest.fixture(scope="module")
def proxied() -> Iterator[Running]:
    with running(hosts=("ops.example.com", "Broker.Example.com:8480"), proxies=("127.0.0.0/8",)) as one:
        yield one


def filled(path: Path) -> str:
    return path.path.replace("{name}", "drain").replace("{path:path}", "x.js").replace("{task}", "7f3a")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.method} {path.path}")
def test_an_unknown_host_is_told_that_it_is_misdirected(page: Running, path: Path) -> None:
    with page.client("admin") as client:
        answer = client.request(path.method, filled(path), headers={"Host": "evil.example:8480"})
    assert answer.status_code == 421
    assert "allowed_hosts" in answer.json()["cure"]
    assert not page.door.visitors_asked


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8480"])
def test_this_machine_goes_by_its_usual_names(page: Running, host: str) -> None:
    assert page.get("/healthz", "", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1.evil.example", "localhost.evil.example", "", "0.0.0.0", "[::2]"])
def test_names_that_only_look_like_it_are_refused(page: Running, host: str) -> None:
    assert page.get("/healthz", "", headers={"Host": host}).status_code == 421


def test_configured_hosts_are_taken_with_any_port(proxied: Running) -> None:
    for host in ("ops.example.com", "OPS.example.com:443", "broker.example.com"):
        assert proxied.get("/healthz", "", headers={"Host": host}).status_code == 200


CROSS_SITE = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://[::bad"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("path", CHANGES, ids=lambda path: path.path)
def test_no_other_site_can_change_anything(page: Running, path: Path) -> None:
    before = len(page.door.visitors_asked)
    with page.client("admin") as client:
        for headers in CROSS_SITE:
            answer = client.request(path.method, filled(path), headers=headers, json={})
            assert answer.status_code == 403, headers
            assert answer.json()["text"] == "a page of another site asked for this"
    assert len(page.door.visitors_asked) == before


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_site_can_try_methods_and_routes_that_there_are_not(page: Running, method: str) -> None:
    with page.client() as client:
        for path in ("/api/v1/workers", "/nowhere"):
            answer = client.request(method, path, headers={"Origin": "https://evil.example"})
            assert answer.status_code == 403


def test_its_own_page_and_programs_may_change_things(page: Running) -> None:
    for headers in ({"Origin": page.url}, {"Origin": page.url, "Sec-Fetch-Site": "same-origin"}, {}):
        assert page.post("/api/v1/commands/reload_config", headers=headers).status_code == 200


def test_behind_a_proxy_with_tls_the_page_has_the_proxys_origin(proxied: Running) -> None:
    told = {"Host": "127.0.0.1:80", "X-Forwarded-Host": "ops.example.com", "X-Forwarded-Proto": "https"}
    good = proxied.post("/api/v1/commands/balance", headers={**told, "Origin": "https://ops.example.com"})
    assert good.status_code == 200
    assert good.headers["strict-transport-security"]
    bad = proxied.post("/api/v1/commands/balance", headers={**told, "Origin": "http://ops.example.com"})
    assert bad.status_code == 403


def test_the_source_is_the_last_address_that_is_no_proxy(proxied: Running) -> None:
    forged = {"X-Forwarded-For": "6.6.6.6, 203.0.113.9, 127.0.0.7"}
    proxied.post("/api/v1/commands/balance", headers=forged)
    assert proxied.door.visitors_asked[-1].principal.source == "203.0.113.9"


def test_without_trusted_proxies_nobodys_word_is_taken_for_the_source(page: Running) -> None:
    page.post(
        "/api/v1/commands/balance", headers={"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "evil.example"}
    )
    assert page.door.asked[-1].principal.source == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/api/v1/workers", "/openapi.json", "/nowhere", "/docs"])
@pytest.mark.parametrize("user", ["", "admin"])
def test_every_answer_is_hardened(page: Running, path: str, user: str) -> None:
    headers = page.get(path, user).headers
    assert headers["content-security-policy"].startswith("default-src 'self'; ")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers
    if path.startswith("/api") or path == "/metrics":
        assert headers["cache-control"] == "no-store"


def test_refusals_are_hardened_too(page: Running) -> None:
    for answer in (
        page.get("/healthz", "", headers={"Host": "evil.example"}),
        page.post("/api/v1/logout", headers={"Origin": "https://evil.example"}),
        page.get("/api/v1/workers?limit=no"),
    ):
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert set(answer.json()) <= {"code", "text", "cure"}
        assert answer.json()["code"] == answer.status_code


def sent(page: Running, content: Any) -> int:
    """The status of a POST whose body may be refused while it is being sent; 413 if the connection ended then."""
    with page.client("admin") as client:
        try:
            answer = client.post(
                "/api/v1/commands/balance", content=content, headers={"Content-Type": "application/json"}
            )
        except httpx.HTTPError:
            return 413
        return answer.status_code


def test_a_body_over_the_limit_is_refused(page: Running) -> None:
    before = len(page.door.visitors_asked)
    assert sent(page, b" " * (BODY_BYTES_MAX + 1)) == 413
    pieces = (b" " * 65_536 for _ in range(BODY_BYTES_MAX // 65_536 + 2))
    assert sent(page, pieces) == 413  # without a length
    assert len(page.door.visitors_asked) == before


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\xfe nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 70_000,
        b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /%ff%fe/..%2f..%2fetc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_are_refused_and_the_server_lives(page: Running, data: bytes) -> None:
    address = page.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), timeout=30) as raw:
        raw.sendall(data)
        raw.shutdown(socket.SHUT_WR)
        said = b""
        while piece := _received(raw):
            said += piece
    assert not said or said.split()[1][:1] == b"4"
    assert page.get("/healthz", "").status_code == 200


def _received(raw: socket.socket) -> bytes:
    try:
        return raw.recv(65_536)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    ("host", "name"),
    [("a.b:80", "a.b"), ("[::1]:80", "::1"), ("::1", "::1"), ("A.B", "a.b"), ("[::1", "::1"), ("", "")],
)
def test_the_name_in_a_host_is_found(host: str, name: str) -> None:
    assert host_name(host) == name
