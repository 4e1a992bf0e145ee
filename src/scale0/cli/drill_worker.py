"""A worker of the drill's own service: harmless, and it says who answered.

Its reply is an echo: the number that was asked, the worker's name, the attempt, and the address of the broker that it
serves. It waits a little before it replies, so that there is something in flight when the fault strikes. Like all
children of the command line it ends with its parent.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from scale0.worker import Worker

CAPACITY: Final = 64  # tasks that wait at once in one worker: waiting costs nothing
ATTEMPTS: Final = 5


class Order(msgspec.Struct, frozen=True):
    """What a drill's worker is told."""

    service: str
    identity: str
    brokers: list[str]
    work_s: float = 0.05
    is_idempotent: bool = True


class Echo(msgspec.Struct):
    """What it answers."""

    number: int
    worker: str
    attempt: int
    broker: str


def make_worker(order: Order) -> Worker:
    """The worker; `run` serves until it is told to leave."""
    from scale0.worker import Worker, current_task

    worker = Worker(order.brokers, identity=order.identity, capacity=CAPACITY, retry_forever=True)

    async def echo(number: int) -> Echo:
        attempt = current_task().attempt
        await asyncio.sleep(order.work_s)
        return Echo(number, order.identity, attempt, worker.broker)

    worker.add_service(order.service, echo, idempotent=order.is_idempotent, max_attempts=ATTEMPTS)
    return worker


def main(argument: str) -> int:
    """Serve what the order, in JSON, says."""
    from scale0.cli.demo_child import end_with_parent

    end_with_parent()
    return make_worker(msgspec.json.decode(argument, type=Order)).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
