"""The smallest worker: two services, one sync and one async.

scale0 broker
scale0 worker examples.greet:worker        or: python examples/greet.py
scale0 call greet '"Ada"'                  or: python examples/ask.py
"""

from __future__ import annotations

from scale0 import Worker

worker = Worker(capacity=8)  # at $SCALE0_BROKER, or else tcp://127.0.0.1:5555


@worker.service("greet", idempotent=True)
def greet(name: str, greeting: str = "hello") -> str:
    return f"{greeting} {name}"


@worker.service("add")
async def add(*numbers: float) -> float:
    return sum(numbers)


if __name__ == "__main__":
    worker.run()  # Ctrl-C drains and leaves cleanly
