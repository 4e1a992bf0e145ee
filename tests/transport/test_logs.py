from __future__ import annotations

import io

import msgspec

from scale0.transport.logs import make_log


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
