"""Status codes are stable: a number never changes its meaning."""

from __future__ import annotations

from scale0.protocol.codes import Code


def test_codes_are_stable() -> None:
    assert {code.name: code.value for code in Code} == {
        "MOVED": 301,
        "MALFORMED": 400,
        "NOT_AUTHENTICATED": 401,
        "NOT_ALLOWED": 403,
        "UNKNOWN_SERVICE": 404,
        "DEADLINE_IN_QUEUE": 408,
        "IDENTITY_IN_USE": 409,
        "TOO_LARGE": 413,
        "CONFIG_DIFFERS": 426,
        "OVER_LIMIT": 429,
        "SILENCE": 444,
        "CLOCK_OFF": 498,
        "CANCELLED": 499,
        "UNEXPECTED": 501,
        "WORKER_LOST": 502,
        "NOT_ACCEPTING": 503,
        "DEADLINE_IN_FLIGHT": 504,
    }
