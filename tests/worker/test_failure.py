"""What is told of an exception, whatever it is."""

from __future__ import annotations

import logging

import pytest

from scale0.encoding import decode_failure
from scale0.worker.failure import MESSAGE_CHARACTERS_MAX, TRACEBACK_CHARACTERS_MAX, failure_body, note_failure


class Unprintable(Exception):
    """Its text raises."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_type_message_and_traceback_are_told() -> None:
    error = decode_failure(failure_body(_raised(ValueError("no"))))
    assert (error.remote_type, error.text) == ("ValueError", "no")
    assert error.remote_traceback.endswith("ValueError: no\n")
    assert "in _raised" in error.remote_traceback


def test_the_cause_is_part_of_the_traceback() -> None:
    cause = _raised(KeyError("first"))
    effect = ValueError("then")
    effect.__cause__ = cause
    assert "KeyError: 'first'" in decode_failure(failure_body(effect)).remote_traceback


def test_an_exception_that_cannot_be_printed_is_told_all_the_same() -> None:
    error = decode_failure(failure_body(_raised(Unprintable())))
    assert error.remote_type == "Unprintable"
    assert "RuntimeError" in error.text


def test_long_texts_are_cut() -> None:
    error = decode_failure(failure_body(_raised(ValueError("x" * 1_000_000))))
    assert len(error.text) < MESSAGE_CHARACTERS_MAX + 100
    assert len(error.remote_traceback) <= TRACEBACK_CHARACTERS_MAX


def test_lone_surrogates_do_not_break_it() -> None:
    assert decode_failure(failure_body(ValueError("\udc80"))).remote_type == "ValueError"


def test_the_first_failure_of_a_service_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "scale0.worker"):
        note_failure("render", _raised(ValueError("no \x1b[2J")), is_first=True)
        note_failure("render", _raised(ValueError("again")), is_first=False)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("render failed, and its client was told; ")
    assert record.getMessage().endswith("ValueError: no \\x1b[2J")


def test_each_failure_is_there_for_who_looks_closer(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "scale0.worker"):
        note_failure("render", _raised(ValueError("again")), is_first=False)
    assert "in _raised" in caplog.text
    assert "ValueError: again" in caplog.text
