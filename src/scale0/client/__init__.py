"""The client libraries: `Client` for threads, `AsyncClient` for asyncio, over one and the same session."""

from scale0.client.aio import AsyncClient
from scale0.client.blocking import Client
from scale0.client.future import TaskFuture

__all__ = ["AsyncClient", "Client", "TaskFuture"]
