from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from scale0.transport.logs import DEPTH_MAX, HIDDEN, make_log


def test_json_log_has_one_object_a_line_with_time_and_level() -> None:
    to = io.StringIO()
    make_log(is_json=True, to=to).bind(broker="b").info("ready\nor not", endpoint="tcp://127.0.0.1:1")
    (line,) = to.getvalue().splitlines()
    event = msgspec.json.decode(line)
    assert (event["event"], event["level"], event["broker"]) == ("ready\nor not", "info", "b")
    assert event["timestamp"].endswith("Z")


def test_level_is_chosen_by_quiet_and_verbose() -> None:
    for options, lines in (({"is_quiet": True}, 1), ({}, 2), ({"is_verbose": True}, 3)):
        to = io.StringIO()
        log = make_log(to=to, **options)
        log.debug("detail")
        log.info("news")
        log.warning("beware")
        assert len(to.getvalue().splitlines()) == lines


def test_exception_is_logged_with_its_traceback() -> None:
    to = io.StringIO()
    try:
        raise ZeroDivisionError("why")
    except ZeroDivisionError:
        make_log(to=to).exception("a bug")
    assert "Traceback" in to.getvalue()
    assert "ZeroDivisionError: why" in to.getvalue()


@pytest.mark.parametrize("is_json", [True, False])
@pytest.mark.parametrize(
    "fields",
    [
        {"password": "S3CRET"},
        {"auth_password": "S3CRET"},
        {"Authorization": "Basic S3CRET"},
        {"request": {"command": "drain", "arguments": {"secret_key": "S3CRET"}}},
        {"rows": [{"token": "S3CRET"}, {"scrape_tokens": ["S3CRET"]}]},
        {"api_key": "S3CRET", "cookie": "scale0=S3CRET"},
    ],
)
def test_a_field_whose_name_is_a_secrets_is_hidden(fields: dict[str, Any], is_json: bool) -> None:
    to = io.StringIO()
    make_log(to=to, is_json=is_json).info("asked", **fields)
    assert "S3CRET" not in to.getvalue()
    assert HIDDEN in to.getvalue()


def test_a_field_that_is_bound_is_hidden_too() -> None:
    to = io.StringIO()
    make_log(to=to).bind(token="S3CRET").info("asked")
    assert "S3CRET" not in to.getvalue()


def test_what_lies_deeper_than_anybody_reads_is_not_shown() -> None:
    to = io.StringIO()
    value: Any = "S3CRET"
    for _ in range(DEPTH_MAX + 1):
        value = [value]
    make_log(to=to).info("asked", nested=value)
    assert "S3CRET" not in to.getvalue()


def test_fields_that_only_sound_alike_are_shown() -> None:
    to = io.StringIO()
    make_log(to=to, is_json=True).info("asked", key="public-key", keys=3, author="ana", tokenizer="gpt", passed=True)
    shown = msgspec.json.decode(to.getvalue())
    assert {name: shown[name] for name in ("key", "keys", "author", "tokenizer", "passed")} == {
        "key": "public-key",
        "keys": 3,
        "author": "ana",
        "tokenizer": "gpt",
        "passed": True,
    }


def test_a_traceback_shows_no_values_of_variables() -> None:
    to = io.StringIO()
    try:
        _fail_with("S3CRET")
    except ZeroDivisionError:
        make_log(to=to).exception("a bug")
    assert "_fail_with" in to.getvalue()
    assert "S3CRET" not in to.getvalue().replace('_fail_with("S3CRET")', "")


def _fail_with(password: str) -> float:
    return len(password) / 0
