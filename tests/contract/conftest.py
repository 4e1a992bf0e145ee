"""Fixtures: each test of the contract gets both clients, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.client.scripted import ScriptedBroker, scripted
from tests.contract.subjects import SUBJECTS, Subject

Connect = Callable[..., Subject]


@pytest.fixture(params=sorted(SUBJECTS))
def make(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of one kind, and closes them."""
    made: list[Subject] = []

    def make_one(*addresses: str, **options: Any) -> Subject:
        made.append(SUBJECTS[request.param](*addresses, **options))
        return made[-1]

    yield make_one
    for subject in made:
        subject.end()


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted() as running:
        yield running


@pytest.fixture
def client(make: Connect, broker: ScriptedBroker) -> Subject:
    subject = make(broker.endpoint)
    subject.connect()
    return subject
