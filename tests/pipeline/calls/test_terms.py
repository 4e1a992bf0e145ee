"""Before anything is sent: a service must be there, and be idempotent."""

from __future__ import annotations

import pytest

from scale0_pipeline.calls import terms
from scale0_pipeline.errors import PipelineError
from tests.pipeline.calls.posts import running_post


def test_only_services_that_are_declared_idempotent_pass() -> None:
    with running_post() as post:
        terms.check_repeatable([post.endpoint], "double")
        with pytest.raises(PipelineError, match="pay is not idempotent") as refused:
            terms.check_repeatable([post.endpoint], "pay")
        assert "idempotent=True" in refused.value.cure
        assert "allow_repeats=True" in refused.value.cure
        with pytest.raises(PipelineError, match="no worker has announced triple; the broker knows: add, double, pay"):
            terms.check_repeatable([post.endpoint], "triple")


def test_a_broker_that_does_not_answer_is_named_with_the_way_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "ASK_S", 0.05)
    with pytest.raises(PipelineError, match=r"nobody can be asked whether double is idempotent") as refused:
        terms.check_repeatable(["tcp://127.0.0.1:1"], "double")
    assert "allow_repeats=True" in refused.value.cure
