"""What the pipeline raises: each error says what happened, and what to do about it."""

from __future__ import annotations

from scale0.errors import Scale0Error


class PipelineError(Scale0Error):
    """Something that keeps the pipeline from its work. `cure` is the next command, or what to change."""

    def __init__(self, text: str, cure: str = "") -> None:
        super().__init__(text, cure)
        self.text = text
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.text}\n{self.cure}" if self.cure else self.text


class LeaseHeld(PipelineError):
    """Another pipeline writes these tables; there is one writer at a time."""


class LeaseLost(PipelineError):
    """This pipeline was taken for dead, and another one writes now: it must not commit any more."""


class NothingRecorded(PipelineError):
    """There are no segments, or no tables yet, where the data should be."""


class UnknownTask(PipelineError):
    """No event of this task is in the tables."""
