"""Alarms reach a real receiver: one that fails, hangs, drips, sends elsewhere, is not there yet, and recovers."""

from __future__ import annotations

import io
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scale0.errors import SettingsError
from scale0.management import webhook
from scale0.management.alarms import Alarm
from scale0.management.webhook import Webhook, check_url
from scale0.transport.logs import make_log
from tests.management.receivers import WAIT_S, Receiver, receiver

QUICK_S = 0.5
"""The time of one attempt where it is to run out."""


@pytest.fixture
def far_end() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


class Sending:
    """A webhook under test, and what it logs."""

    def __init__(self, url: str, attempt_s: float = WAIT_S, context: ssl.SSLContext | None = None) -> None:
        self.written = io.StringIO()
        log = make_log(is_json=True, to=self.written)
        self.hook = Webhook(
            url,
            network="prod",
            broker="eu-1",
            log=log,
            attempt_s=attempt_s,
            first_pause_s=0.03,
            context=context,
        )

    def offer(self, *subjects: str) -> None:
        for subject in subjects:
            self.hook.offer(alarm(subject))


@pytest.fixture
def made() -> Iterator[list[Sending]]:
    hooks: list[Sending] = []
    yield hooks
    for each in hooks:
        each.hook.close()


def alarm(subject: str) -> Alarm:
    cure = "start one: scale0 worker module:app"
    return Alarm("service_without_worker", "raised", 5, "bad", "no worker", cure, subject, 1.0, 1.0, "#/services")


def subjects(far_end: Receiver, count: int) -> list[str]:
    return [json.loads(far_end.next().body)["alarm"]["subject"] for _ in range(count)]


def test_an_alarm_arrives_as_json_with_its_network_and_broker(far_end: Receiver, made: list[Sending]) -> None:
    made.append(Sending(f"{far_end.url}/hook?to=ops"))
    made[0].offer("ocr")
    request = far_end.next()
    message = json.loads(request.body)
    assert request.path == "/hook?to=ops"
    assert request.headers["Content-Type"] == "application/json"
    assert {key: message[key] for key in ("schema", "network", "broker")} == {
        "schema": "scale0.alarm/1",
        "network": "prod",
        "broker": "eu-1",
    }
    assert message["alarm"]["cure"] == "start one: scale0 worker module:app"
    assert message["id"] == "eu-1/service_without_worker/ocr/raised/5"


def test_alarms_arrive_in_their_order(far_end: Receiver, made: list[Sending]) -> None:
    made.append(Sending(far_end.url))
    made[0].offer(*"abcdef")
    assert subjects(far_end, 6) == list("abcdef")


def test_a_receiver_that_fails_is_tried_again_with_the_same_message(far_end: Receiver, made: list[Sending]) -> None:
    far_end.status = 500
    made.append(Sending(far_end.url))
    made[0].offer("ocr")
    first, second = far_end.next(), far_end.next()
    assert first.body == second.body
    far_end.status = 204
    while far_end.next().body != first.body:
        pass
    made[0].offer("render")
    while json.loads(far_end.next().body)["alarm"]["subject"] != "render":
        pass
    assert "the receiver answered 500" in made[0].written.getvalue()


@pytest.mark.parametrize("fault", ["is_hanging", "is_dripping"])
def test_a_receiver_that_takes_for_ever_is_left_and_tried_again(
    far_end: Receiver, made: list[Sending], fault: str
) -> None:
    setattr(far_end, fault, True)
    made.append(Sending(far_end.url, QUICK_S))
    made[0].offer("ocr")
    first = far_end.next()
    assert far_end.next().body == first.body, "a second attempt came while the first still hangs"
    setattr(far_end, fault, False)
    made[0].offer("render")
    while json.loads(far_end.next().body)["alarm"]["subject"] != "render":
        pass


def test_a_receiver_that_is_not_there_yet_gets_everything_when_it_is(made: list[Sending]) -> None:
    with receiver(is_listening=False) as late:
        made.append(Sending(late.url))
        made[0].offer("ocr", "render")
        wait_for_failures(made[0], 2)
        assert "Connection refused" in made[0].written.getvalue()
        late.listen()
        assert subjects(late, 2) == ["ocr", "render"]


def wait_for_failures(sending: Sending, count: int) -> None:
    """Until so many attempts in a row have failed."""
    change = sending.hook._change
    with change:
        assert change.wait_for(lambda: sending.hook.failures >= count, WAIT_S)


def test_a_redirect_is_not_followed(far_end: Receiver, made: list[Sending]) -> None:
    with receiver() as elsewhere:
        far_end.status, far_end.location = 307, f"{elsewhere.url}/stolen"
        made.append(Sending(far_end.url))
        made[0].offer("ocr")
        far_end.next()
        far_end.next()  # the second attempt, so the first has been answered
        assert elsewhere.requests.empty()
    assert "redirects are not followed" in made[0].written.getvalue()


def test_what_waits_is_bounded_and_the_oldest_goes(far_end: Receiver, made: list[Sending]) -> None:
    far_end.is_hanging = True
    made.append(Sending(far_end.url))
    made[0].offer("first")
    far_end.next()  # it hangs there; what follows waits
    made[0].offer(*(f"s{number}" for number in range(webhook.QUEUE_MAX + 9)))
    assert made[0].hook.dropped == 10
    far_end.is_hanging = False
    far_end.let_go()
    arrived = subjects(far_end, webhook.QUEUE_MAX)
    assert arrived[-1] == f"s{webhook.QUEUE_MAX + 8}"


def test_offering_never_waits_for_the_receiver(far_end: Receiver, made: list[Sending]) -> None:
    far_end.is_hanging = True
    made.append(Sending(far_end.url))
    offered = threading.Thread(target=made[0].offer, args=tuple("abc"))
    offered.start()
    offered.join(WAIT_S)
    assert not offered.is_alive()
    far_end.let_go()


def test_closing_does_not_wait_for_a_pause_and_nothing_is_sent_after(far_end: Receiver) -> None:
    far_end.status = 500
    sending = Sending(far_end.url)
    sending.offer("ocr")
    far_end.next()
    sending.hook.close()
    sending.offer("render")
    assert not sending.hook._thread.is_alive()


def test_the_address_appears_in_the_log_by_its_host_alone(far_end: Receiver, made: list[Sending]) -> None:
    far_end.status = 500
    made.append(Sending(f"{far_end.url}/services/T0KEN-in-path?key=S3CRET"))
    made[0].offer("ocr")
    far_end.next()
    far_end.next()
    written = made[0].written.getvalue()
    assert "127.0.0.1" in written
    assert "T0KEN" not in written
    assert "S3CRET" not in written


def test_a_receiver_with_a_certificate_that_nobody_trusts_gets_nothing(tmp_path: Path, made: list[Sending]) -> None:
    with receiver(certified(tmp_path)) as far_end:
        made.append(Sending(f"https://127.0.0.1:{far_end.port}/"))
        made[0].offer("ocr")
        wait_for_failures(made[0], 1)
        assert far_end.requests.empty()
    assert "its certificate is not trusted" in made[0].written.getvalue()


def test_a_receiver_whose_certificate_is_trusted_gets_alarms_encrypted(tmp_path: Path, made: list[Sending]) -> None:
    with receiver(certified(tmp_path)) as far_end:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        made.append(Sending(f"https://127.0.0.1:{far_end.port}/", context=trusting))
        made[0].offer("ocr")
        assert subjects(far_end, 1) == ["ocr"]


def certified(folder: Path) -> ssl.SSLContext:
    """A server's context, with a certificate for 127.0.0.1 that it signed itself."""
    tool = shutil.which("openssl")
    if tool is None:
        pytest.skip("no openssl here to make a certificate: apt install openssl")
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    for_whom = ["-subj", "/CN=receiver", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [tool, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *for_whom]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org/T/1",
        "http://127.0.0.1:9/x",
        "http://localhost/x",
        "http://[::1]:8/x",
        "http://127.8.9.1/",
    ],
)
def test_https_and_this_machine_are_allowed(url: str) -> None:
    assert check_url(url).geturl() == url


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/T/1",
        "http://10.0.0.1/",
        "http://127.0.0.1.example.org/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "https://",
        "https://user:secret@example.org/",
        "https://example.org:99999/",
        "http://[::1/",
        "example.org",
        "",
    ],
)
def test_any_other_address_is_refused_and_its_secrets_are_not_told(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_url(url)
    assert "secret" not in str(refused.value)
    assert "management.webhook" in str(refused.value)
