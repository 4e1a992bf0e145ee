"""What the tests of the core share."""

from __future__ import annotations

import pytest

from tests.core.desk import Desk


@pytest.fixture
def desk() -> Desk:
    """A broker that has settled."""
    return Desk()
