"""What a user reads when something fails, and what the shell is told."""

from __future__ import annotations

import errno
import os

import pytest

from scale0 import errors
from scale0.cli import failures
from scale0.cli.failures import Exit
from scale0.client.manager import NO_ANSWER

HERE = "tcp://127.0.0.1:5555"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.Unreachable({HERE: "nothing listens on that port"}, 3.0), Exit.UNREACHABLE),
        (errors.SessionRefused(HERE, 403, "no"), Exit.REFUSED),
        (errors.PortTaken(HERE, "taken"), Exit.REFUSED),
        (errors.UsageError("no"), Exit.USAGE),
        (errors.PayloadTooLarge(2, 1), Exit.USAGE),
        (errors.task_error(404, "unknown"), Exit.BAD_ANSWER),
        (errors.task_error(504, "late"), Exit.BAD_ANSWER),
        (errors.task_error(429, "full"), Exit.REFUSED),
        (errors.task_error(503, "off"), Exit.REFUSED),
        (errors.RemoteError("ValueError", "bad"), Exit.BAD_ANSWER),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (RuntimeError("bug"), Exit.BAD_ANSWER),
    ],
)
def test_an_error_has_its_exit_code(error: BaseException, code: Exit) -> None:
    assert failures.exit_code(error) == code


def test_an_unreachable_broker_reads_as_in_the_design(capsys: pytest.CaptureFixture[str]) -> None:
    failures.report(errors.Unreachable({HERE: "nothing listens on that port"}, 3.0))
    assert capsys.readouterr().err == (
        "error: no broker at tcp://127.0.0.1:5555 after 3 s\n"
        "  nothing listens on that port\n"
        "  start one: scale0 broker\n"
    )


@pytest.mark.parametrize("why", ["no answer within 3 s", NO_ANSWER])
def test_silence_may_be_that_of_a_disabled_broker(why: str) -> None:
    assert failures.explain(errors.Unreachable({HERE: why}, 3.0)) == [
        "no broker at tcp://127.0.0.1:5555 after 3 s",
        why,
        "is a broker there? a disabled one is silent until: scale0 ctl enable --broker tcp://127.0.0.1:5555",
    ]


def test_a_broker_that_is_there_and_does_not_serve_is_not_to_be_started() -> None:
    assert failures.explain(errors.Unreachable({HERE: "503 this broker is joining"}, 3.0)) == [
        "no broker that serves at tcp://127.0.0.1:5555 after 3 s",
        "503 this broker is joining",
        "ask another one: --broker ADDRESS",
    ]


def test_several_brokers_are_named_with_their_reasons() -> None:
    lines = failures.explain(errors.Unreachable({"tcp://a:1": "x", "tcp://b:2": "y"}, 3.0))
    assert lines[1:3] == ["tcp://a:1: x", "tcp://b:2: y"]


def test_an_unknown_service_comes_with_near_names() -> None:
    lines = failures.explain(errors.task_error(404, "no service `gret`", near=("greet",)))
    assert lines == ["404 no service `gret`", "did you mean: greet?", "what there is: scale0 services"]


def test_near_names_that_the_broker_has_said_are_not_said_again() -> None:
    lines = failures.explain(errors.task_error(404, "nobody announced gret; did you mean greet?", near=("greet",)))
    assert lines == ["404 nobody announced gret; did you mean greet?", "what there is: scale0 services"]


def test_a_handlers_exception_says_where_it_was_raised() -> None:
    traceback = 'Traceback:\n  File "a.py", line 1, in f\n  File "b.py", line 2, in g\nValueError: bad\n'
    lines = failures.explain(errors.RemoteError("ValueError", "bad", traceback))
    assert lines == ["ValueError: bad", 'raised in the worker, File "b.py", line 2, in g']


def test_foreign_text_in_an_error_is_inert(capsys: pytest.CaptureFixture[str]) -> None:
    failures.report(errors.RemoteError("[red]Error", "\x1b[2J"))
    assert "error: [red]Error: \\x1b[2J" in capsys.readouterr().err


def test_a_traceback_appears_only_when_it_is_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCALE0_DEBUG", raising=False)
    failures.report(RuntimeError("bug"))
    assert "Traceback" not in (quiet := capsys.readouterr().err)
    assert "RuntimeError: bug" in quiet
    monkeypatch.setenv("SCALE0_DEBUG", "1")
    try:
        raise RuntimeError("bug")
    except RuntimeError as error:
        failures.report(error)
    assert "Traceback" in capsys.readouterr().err


def test_a_wrong_password_says_where_users_are() -> None:
    assert failures.explain(errors.SessionRefused(HERE, 401, "user and password do not match")) == [
        f"the broker at {HERE} refused this session: 401 user and password do not match",
        "who may manage, where the broker runs: scale0 user list",
    ]
    assert len(failures.explain(errors.SessionRefused(HERE, 403, "this key may not call ocr"))) == 1


def test_a_usage_error_is_told_on_one_line() -> None:
    assert failures.explain_usage("Missing option '--to'. Choose from:\n\tjson,\n\txml") == [
        "missing option '--to'. Choose from: json, xml",
        "what can be typed: scale0 --help",
    ]


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "make room where this is to be written, or name another place"),
        (errno.EROFS, "give this user the right to it, or name another place"),
        (errno.EACCES, "give this user the right to it, or name another place"),
    ],
)
def test_a_full_disk_or_a_place_without_rights_is_no_bug(number: int, cure: str) -> None:
    why = os.strerror(number)
    assert failures.explain(OSError(number, why)) == [why, cure]
    assert failures.explain(OSError(number, why, "/srv/report.html")) == [f"/srv/report.html: {why}", cure]
