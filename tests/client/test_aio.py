"""What only the asyncio client does: cancelled tasks, one loop, no thread, no spinning."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from scale0.client import AsyncClient
from scale0.errors import ServiceNotFound, UsageError
from scale0.protocol.messages import Cancel, Ping
from tests.client.scripted import LIMIT_S, ScriptedBroker, scripted


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted() as running:
        yield running


def wait_for_held(broker: ScriptedBroker) -> asyncio.Future[None]:
    return asyncio.get_running_loop().run_in_executor(None, broker.wait_for, lambda b: bool(b.held))


def test_cancelled_task_cancels_its_work(broker: ScriptedBroker) -> None:
    async def main() -> None:
        async with AsyncClient(broker.endpoint) as client:
            waiting = asyncio.create_task(client.call("hold"))
            await wait_for_held(broker)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await client.call("echo", 1) == 1

    asyncio.run(main())
    broker.wait_for(lambda b: b.count(Cancel) == 1)


def test_timeout_around_a_call_cancels_its_work(broker: ScriptedBroker) -> None:
    async def main() -> None:
        async with AsyncClient(broker.endpoint) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.call("hold")

    asyncio.run(main())
    broker.wait_for(lambda b: b.count(Cancel) == 1)


def test_many_calls_at_once_each_get_their_own(broker: ScriptedBroker) -> None:
    async def main() -> list[int]:
        async with AsyncClient(broker.endpoint) as client:
            return await asyncio.wait_for(asyncio.gather(*(client.call("echo", n) for n in range(500))), LIMIT_S)

    assert asyncio.run(main()) == list(range(500))


def test_submitted_tasks_can_be_gathered(broker: ScriptedBroker) -> None:
    async def main() -> list[object]:
        async with AsyncClient(broker.endpoint) as client:
            futures = [client.submit("echo", 1), client.submit("missing")]
            return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), LIMIT_S)

    first, second = asyncio.run(main())
    assert first == 1
    assert isinstance(second, ServiceNotFound)


def test_heartbeats_go_on_while_nothing_is_called() -> None:
    async def main(broker: ScriptedBroker) -> None:
        async with AsyncClient(broker.endpoint):
            await asyncio.to_thread(broker.wait_for, lambda b: b.count(Ping) >= 3)

    with scripted() as broker:
        broker.interval_ms = 100
        asyncio.run(main(broker))


def test_idle_client_does_not_turn_the_loop(broker: ScriptedBroker) -> None:
    async def main() -> int:
        async with AsyncClient(broker.endpoint) as client:
            await client.call("echo", 1)
            turns = 0
            driver = client._driver
            end_turn = driver._end_turn

            def count() -> None:
                nonlocal turns
                turns += 1
                end_turn()

            driver._end_turn = count  # type: ignore[method-assign]
            await asyncio.to_thread(threading.Event().wait, 0.3)
            return turns

    assert asyncio.run(main()) < 20


def test_client_of_a_closed_loop_says_so(broker: ScriptedBroker) -> None:
    client = AsyncClient(broker.endpoint)

    async def use() -> None:
        await client.call("echo", 1)

    asyncio.run(use())
    with pytest.raises(UsageError, match="an event loop that is closed"):
        asyncio.run(use())
    asyncio.run(client.close())


def test_no_thread_is_started(broker: ScriptedBroker) -> None:
    async def main() -> set[threading.Thread]:
        async with AsyncClient(broker.endpoint) as client:
            await client.call("echo", 1)
            return set(threading.enumerate())

    before = set(threading.enumerate())  # another test's client may be on its way out
    assert not [thread for thread in asyncio.run(main()) - before if thread.name == "scale0-client"]
