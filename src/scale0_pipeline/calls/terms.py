"""On the driver, before anything is sent: is this service there, and may its tasks be repeated?

Whether a service is idempotent its workers have declared, and the broker lists it. It is asked once, when the job is
put together, so that whoever must not go on learns it at once and not from a failed stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scale0.client import Client
from scale0.errors import Scale0Error
from scale0_pipeline.errors import PipelineError

ASK_S: Final = 10.0
REPEATS: Final = "allow_repeats=True lets Spark's retries run a task more than once"


def check_repeatable(brokers: Sequence[str], service: str) -> None:
    """Raises `PipelineError` if the service is not declared idempotent, or if nobody can say."""
    try:
        with Client(brokers, timeout=ASK_S, connect_timeout=ASK_S) as client:
            rows = client.call("scale0.services")["rows"]
    except Scale0Error as error:
        text = f"nobody can be asked whether {service} is idempotent: {error}"
        raise PipelineError(text, f"start the broker, or name another; {REPEATS}") from error
    row = next((row for row in rows if row["name"] == service), None)
    if row is None:
        known = ", ".join(row["name"] for row in rows) or "none"
        text = f"no worker has announced {service}; the broker knows: {known}"
        raise PipelineError(text, "start its workers first: scale0 worker module:app")
    if not row["idempotent"]:
        cure = f'declare it, if it is so: @worker.service("{service}", idempotent=True); {REPEATS}'
        raise PipelineError(f"{service} is not idempotent, and Spark may ask twice", cure)
