"""The data pipeline: it remembers every task of a network, explains the past, advises, and tries what-ifs.

A broker decides in milliseconds and never needs this package. Events reach it as sealed segments in a data place
(`scale0.telemetry`); Spark turns them into tables (`jobs`, `transforms`, `tables`), which are read with Spark or
without it (`gold`, `report`, `why`).
"""

from __future__ import annotations

from typing import Any

__all__ = ["call_service"]


def __getattr__(name: str) -> Any:
    """`call_service` needs Spark, which is imported when it is asked for."""
    if name == "call_service":
        from scale0_pipeline.calls.call import call_service

        return call_service
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
