"""Hints on their way to brokers: through the management door, like any other command of an operator.

The pipeline makes the document (`scale0_pipeline.hints.document.current`), and each broker hears it for itself. An
operator may give the pipeline a key of its own, named `hints`, which opens nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scale0.cli.manage_command import Credentials
from scale0.client.manager import manage
from scale0.errors import Scale0Error

TIMEOUT_S = 5.0


def send(
    document: dict[str, Any], brokers: Sequence[str], credentials: Credentials, timeout_s: float = TIMEOUT_S
) -> dict[str, dict[str, Any] | Scale0Error]:
    """Tell each broker, and return by endpoint what it answered, or why it did not; one that fails stops no other."""
    answers: dict[str, dict[str, Any] | Scale0Error] = {}
    for broker in brokers:
        try:
            answers[broker] = manage(
                broker,
                "hints",
                document,
                auth_id=credentials.auth_id,
                auth_password=credentials.auth_password,
                timeout_s=timeout_s,
            )
        except Scale0Error as error:
            answers[broker] = error
    return answers
