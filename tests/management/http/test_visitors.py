"""Logging in, by password and by token; cookies; and what is done for whoever fails."""

from __future__ import annotations

import base64
import contextlib
import time

import pytest

from scale0.management.channel import Token
from scale0.management.http import sessions
from scale0.management.http.attempts import BURST, Attempts
from scale0.management.http.sessions import hashed
from tests.management.http.support import SCRAPE_TOKEN, USERS, Running, running

LOGIN = "/api/v1/login"
BY_TOKEN = "/api/v1/login/token"


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def test_a_login_sets_a_cookie_that_scripts_and_other_sites_cannot_use(page: Running) -> None:
    answer = page.post(LOGIN, {"user": "viewer", "password": "viewerviewer"}, "")
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"scale0-{page.url.rpartition(':')[2]}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/" in cookie
    assert "Secure" not in cookie  # there is no TLS here
    assert "Domain" not in cookie


def test_behind_tls_the_cookie_is_secure() -> None:
    with running(proxies=("127.0.0.1",)) as page:
        body = {"user": "viewer", "password": "viewerviewer"}
        answer = page.post(LOGIN, body, "", headers={"X-Forwarded-Proto": "https", "X-Forwarded-Host": "localhost"})
    assert "Secure" in answer.headers["set-cookie"]
    assert answer.headers["set-cookie"].startswith("__Host-scale0-443=")


def test_pages_of_two_brokers_on_one_host_do_not_log_each_other_out() -> None:
    with running() as one, running() as other, one.client() as browser:
        for page in (one, other):
            body = {"user": "viewer", "password": "viewerviewer"}
            assert browser.post(page.url + LOGIN, json=body).status_code == 204
        assert len(browser.cookies) == 2
        assert browser.post(other.url + "/api/v1/logout").status_code == 204
        assert browser.get(other.url + "/api/v1/me").status_code == 401
        assert browser.get(one.url + "/api/v1/me").json()["user"] == "viewer"


def test_a_login_too_many_ends_the_session_that_was_used_longest_ago_and_is_audited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_PER_USER_MAX", 2)
    with running() as page, contextlib.ExitStack() as opened:
        first, second, third = (opened.enter_context(page.logged_in("viewer")) for _ in range(3))
        assert first.get("/api/v1/me").status_code == 401
        assert second.get("/api/v1/me").status_code == third.get("/api/v1/me").status_code == 200
        assert page.door.denials == [("viewer", "127.0.0.1", "session ended: too many", 429)]


def test_a_session_is_let_in_until_it_logs_out(page: Running) -> None:
    with page.logged_in("operator") as client:
        assert client.get("/api/v1/me").json()["user"] == "operator"
        answer = client.post("/api/v1/logout")
        assert answer.status_code == 204
        assert f'scale0-{page.url.rpartition(":")[2]}=""' in answer.headers["set-cookie"]
    with page.client(cookies=client.cookies) as again:
        assert again.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize("body", [{"user": "viewer", "password": "wrong"}, {"user": "nobody", "password": "wrong"}])
def test_a_wrong_name_and_a_wrong_password_look_the_same(body: dict[str, str]) -> None:
    with running() as page:
        answer = page.post(LOGIN, body, "")
        assert answer.status_code == 401
        assert answer.json() == {"code": 401, "text": "user and password do not match"}
        assert "set-cookie" not in answer.headers
        assert "Basic" not in answer.headers["www-authenticate"]
        assert page.door.denials == [(body["user"], "127.0.0.1", "login", 401)]


def test_a_source_that_fails_too_often_is_stopped_before_its_password_is_looked_at() -> None:
    with running() as page, page.client() as client:
        page.site.visitors._attempts = Attempts(refill_s=3600)  # however slow this machine is
        codes = [client.post(LOGIN, json={"user": "viewer", "password": "wrong"}).status_code for _ in range(BURST)]
        assert codes == [401] * BURST
        verified = page.accounts.verified
        for answer in (
            client.post(LOGIN, json={"user": "viewer", "password": USERS["viewer"]}),
            client.get("/api/v1/me", headers=basic("viewer:wrong")),
            client.post(BY_TOKEN, json={"token": "guess"}),
            client.get("/metrics", headers={"Authorization": "Bearer guess"}),
        ):
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
        assert page.accounts.verified == verified


def test_right_passwords_are_never_limited(page: Running) -> None:
    with page.client("viewer") as client:
        assert {client.get("/api/v1/me").status_code for _ in range(3 * BURST)} == {200}


@pytest.mark.parametrize(
    "told",
    [
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b":empty").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Bearer " + SCRAPE_TOKEN,
        "Digest x",
        "x" * 5_000,
    ],
)
def test_credentials_that_cannot_be_read_are_refused(page: Running, told: str) -> None:
    answer = page.get("/api/v1/me", "", headers={"Authorization": told})
    assert answer.status_code == 401


@pytest.mark.parametrize("cookie", ["", "x", "scale0", "a" * 4_000, '"; drop'])
def test_a_made_up_cookie_lets_nobody_in(page: Running, cookie: str) -> None:
    name = f"scale0-{page.url.rpartition(':')[2]}"
    assert page.get("/api/v1/me", "", headers={"Cookie": f"{name}={cookie}"}).status_code == 401


def test_a_one_time_token_works_once() -> None:
    with running(tokens={"sesame": "operate"}) as page:
        answer = page.post(BY_TOKEN, {"token": "sesame"}, "")
        assert answer.status_code == 204
        with page.client(cookies=answer.cookies) as client:
            me = client.get("/api/v1/me").json()
        assert (me["user"], me["role"]) == ("one-time token", "operate")
        assert page.used == [hashed("sesame")]
        again = page.post(BY_TOKEN, {"token": "sesame"}, "")
        assert again.status_code == 401
        assert "scale0 user add" in again.json()["cure"]
        assert page.door.denials[-1] == ("one-time token", "127.0.0.1", "login by token", 401)


def test_a_token_that_is_too_old_is_worth_nothing() -> None:
    with running() as page:
        page.do(lambda: page.site.push("token", {"hash": hashed("old"), "role": "admin", "until_s": time.time() - 1}))
        page.do(lambda: page.site.push("token", {"hash": hashed("new"), "role": "view", "until_s": time.time() + 60}))
        assert page.post(BY_TOKEN, {"token": "old"}, "").status_code == 401
        assert page.post(BY_TOKEN, {"token": "new"}, "").status_code == 204


def test_tokens_are_bounded_and_old_ones_make_room(page: Running) -> None:
    visitors = page.site.visitors
    for number in range(1_100):
        visitors.add_token(Token(str(number), "view", time.time() + 60))
    assert len(visitors._tokens) == 1_000


def test_without_users_only_a_token_lets_in() -> None:
    with running(tokens={"sesame": "admin"}) as page:
        page.do(page.accounts.users.clear)
        answer = page.post(LOGIN, {"user": "viewer", "password": "viewerviewer"}, "")
        assert answer.status_code == 403
        assert "scale0 user add" in answer.json()["cure"]
        assert page.get("/api/v1/me", "viewer").status_code == 401
        assert page.post(BY_TOKEN, {"token": "sesame"}, "").status_code == 204


def test_the_scrape_token_reads_metrics_and_nothing_else(page: Running) -> None:
    headers = {"Authorization": f"Bearer {SCRAPE_TOKEN}"}
    assert page.get("/metrics", "", headers=headers).status_code == 200
    assert page.get("/api/v1/workers", "", headers=headers).status_code == 401
    assert page.get("/metrics", "", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert page.get("/metrics", "").status_code == 401


def test_no_answer_holds_a_secret(page: Running) -> None:
    with page.logged_in("admin") as client:
        (session,) = client.cookies.values()
        said = "".join(
            client.get(path).text
            for path in ("/api/v1/me", "/metrics", "/openapi.json", "/api/v1/audit", "/api/v1/events")
        )
    for secret in (session, hashed(session), SCRAPE_TOKEN, *USERS.values()):
        assert secret not in said
