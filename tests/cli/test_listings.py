"""Listings from canned documents: what is printed, and how the command ends."""

from __future__ import annotations

import io
import json
import threading

import pytest

from scale0.cli import listings
from scale0.cli.failures import Exit
from scale0.cli.listings import Options
from scale0.cli.more_views import VIEWS
from scale0.cli.render import Page
from scale0.errors import ProtocolError
from tests.cli.canned import bare_service, listing, service, worker


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def ending(name: str, document: bytes, options: Options) -> int:
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    return listings.show(name, lambda _service: document, options, Page(file))


def drawn(document: bytes, name: str, width: int | None = None) -> str:
    lines = listings.draw(listings.parse(document), VIEWS[name], width=width, is_wide=False)
    return "\n".join(line.plain for line in lines)


def test_services_look_as_in_the_design() -> None:
    document = listing("services", service("render"), bare_service("ocr"))
    assert drawn(document, "services") == (
        "! 2 services, 1 without workers (eu-1, config v42)\n"
        "SERVICE STATE       WORKERS FREE/CAP QUEUED OLDEST s TASKS/s p99 ms ERR/5m\n"
        "ocr     ✗ no worker       0      0/0     12      8.2       0      –     12\n"
        "render  ● ok             12    31/96      0        –   1,204     41      0\n"
        "Next: scale0 worker module:app   (one that serves ocr)"
    )


def test_a_service_at_peers_is_served() -> None:
    document = listing("services", service("render"), {**bare_service("ocr"), "state": "at peers"})
    assert drawn(document, "services").splitlines()[:3] == [
        "● 2 services, all served (eu-1, config v42)",
        "SERVICE STATE      WORKERS FREE/CAP QUEUED OLDEST s TASKS/s p99 ms ERR/5m",
        "ocr     ● at peers       0      0/0     12      8.2       0      –     12",
    ]


def test_an_empty_listing_names_the_next_command() -> None:
    assert drawn(listing("services"), "services").splitlines() == [
        "– no service yet (eu-1, config v42)",
        "Next: scale0 worker module:app   (no worker has announced a service)",
    ]


def test_a_healthy_listing_gives_no_advice() -> None:
    assert "Next" not in drawn(listing("workers", worker("w-1")), "workers")


def test_a_hostile_name_is_inert() -> None:
    text = drawn(listing("workers", worker("\x1b[2J[red]w\u202e")), "workers")
    assert "\\x1b[2J[red]w\\u202e" in text
    assert "\x1b" not in text


def test_a_narrow_terminal_says_what_it_leaves_out() -> None:
    text = drawn(listing("services", service("render")), "services", width=40)
    assert "columns: --wide" in text
    assert all(len(line) <= 48 for line in text.splitlines())


def test_json_is_the_document_on_one_ascii_line(capsys: pytest.CaptureFixture[str]) -> None:
    document = listing("services", service("größe\u202e"))
    code = ending("services", document, Options(is_json=True))
    out = capsys.readouterr().out
    assert code == Exit.GOOD
    assert out.isascii()
    assert out.count("\n") == 1
    assert json.loads(out) == json.loads(document)


def test_an_incomplete_listing_is_partial() -> None:
    code = ending("services", listing("services", service("a"), complete=False), Options())
    assert code == Exit.PARTIAL


def test_check_turns_a_bad_verdict_into_an_exit_code() -> None:
    document = listing("services", bare_service("ocr"))
    assert ending("services", document, Options()) == Exit.GOOD
    assert ending("services", document, Options(is_checking=True)) == Exit.BAD_ANSWER


def test_watching_asks_again_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []
    ended = threading.Event()

    def ask(service_name: str) -> bytes:
        asked.append(service_name)
        if len(asked) == 3:
            ended.set()
        return listing("services", service("a"))

    options = Options(is_json=True, is_watching=True, interval_s=0.001)
    assert listings.show("services", ask, options, Page(io.StringIO()), ended) == Exit.GOOD
    assert asked == ["scale0.services"] * 3
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_watching_in_a_terminal_draws_in_place() -> None:
    ended = threading.Event()

    def ask(_service: str) -> bytes:
        ended.set()
        return listing("services", service("a"))

    terminal = Terminal()
    listings.show("services", ask, Options(is_watching=True), Page(terminal, width=100), ended)
    assert "1 service, all served" in terminal.getvalue()


def test_ctrl_c_ends_watching_quietly() -> None:
    def ask(_service: str) -> bytes:
        raise KeyboardInterrupt

    assert listings.show("services", ask, Options(is_watching=True), Page(io.StringIO())) == Exit.GOOD


def test_an_answer_that_is_no_listing_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not a listing"):
        listings.parse(b'{"rows": 5}')
    with pytest.raises(ProtocolError, match="not a listing"):
        listings.parse(b"\xff")
