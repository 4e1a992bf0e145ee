"""The worker's library: functions become services.

worker = Worker("tcp://127.0.0.1:5555")

@worker.service("greet")
def greet(name: str) -> str: ...

worker.run()
"""

from __future__ import annotations

from scale0.worker.app import Worker
from scale0.worker.job import CurrentTask, current_task

__all__ = ["CurrentTask", "Worker", "current_task"]
