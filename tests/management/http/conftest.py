"""One running door a module, for tests that change nothing in it; those that do make their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.management.http.support import Running, running


@pytest.fixture(scope="module")
def page() -> Iterator[Running]:
    with running() as one:
        yield one
