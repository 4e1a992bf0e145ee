"""What several commands share."""

from __future__ import annotations

import pytest

from scale0.cli import options
from scale0.errors import UsageError


def test_several_brokers_are_parted_by_commas_or_blanks() -> None:
    assert options.addresses("tcp://a:1,tcp://b:2 tcp://c:3") == ["tcp://a:1", "tcp://b:2", "tcp://c:3"]


@pytest.mark.parametrize("told", ["", " , ", "5555", "tcp://a:1,b", "tcp://a:65536", "http://a:80"])
def test_what_is_no_address_is_refused_with_an_example(told: str) -> None:
    with pytest.raises(UsageError, match="it looks like tcp://"):
        options.addresses(told)
