"""A stream that Spark gives up before it began is started again; one that failed otherwise is not."""

from __future__ import annotations

import pytest

from scale0_pipeline.errors import PipelineError
from scale0_pipeline.jobs.stream import STARTS_MAX, patiently
from scale0_pipeline.progress import silent


class Starts:
    """Fails so often, in these words, and then works."""

    def __init__(self, failures: int, text: str) -> None:
        self.failures, self.text, self.tries = failures, text, 0

    def __call__(self) -> None:
        self.tries += 1
        if self.tries <= self.failures:
            raise RuntimeError(self.text)


LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


def test_a_python_that_starts_slowly_is_started_again() -> None:
    told: list[str] = []
    starts = Starts(2, LATE)
    patiently(starts, lambda what, done, of: told.append(what))
    assert starts.tries == 3
    assert len(told) == 2


def test_patience_has_an_end() -> None:
    starts = Starts(100, LATE)
    with pytest.raises(PipelineError, match="too busy"):
        patiently(starts, silent)
    assert starts.tries == STARTS_MAX


def test_any_other_failure_is_told_at_once() -> None:
    starts = Starts(1, "the disk has no bottom")
    with pytest.raises(RuntimeError, match="no bottom"):
        patiently(starts, silent)
    assert starts.tries == 1
