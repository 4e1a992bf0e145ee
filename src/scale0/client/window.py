"""The window of `map`: tasks in flight, in order, at most so many, read from an iterable as room appears.

Pure bookkeeping, shared by the blocking and the asyncio client. Room is refilled in batches, for each use of the socket
has a price, but never late: when the result that is due has not come, all room is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from scale0.client.record import Record
from scale0.encoding import encode_arguments
from scale0.errors import UsageError
from scale0.protocol.messages import Body

IN_FLIGHT_MAX: Final = 50_000  # what one client may have accepted at a broker
BATCH_SHARE: Final = 8  # refilled when an eighth of the window is free


class Window:
    """Records in the order of their items."""

    def __init__(self, service: str, items: Iterable[Any], in_flight: int, returns: Any) -> None:
        if not 1 <= in_flight <= IN_FLIGHT_MAX:
            raise UsageError(f"in_flight is 1 to {IN_FLIGHT_MAX:,}, not {in_flight!r}")
        self._service = service
        self._items: Iterator[Any] | None = iter(items)
        self._in_flight = in_flight
        self._batch = max(1, in_flight // BATCH_SHARE)
        self._returns = returns
        self.records: deque[Record] = deque()

    def refill(self) -> list[tuple[Record, Body, bytes]]:
        """What to send now. Empty: there is too little room to bother, or nothing is left to read."""
        records = self.records
        room = self._in_flight - len(records)
        if self._items is None or (room < self._batch and records[0].is_ready):
            return []
        sendings: list[tuple[Record, Body, bytes]] = []
        service, returns = self._service, self._returns
        full = len(records) + room
        for item in islice(self._items, room):
            record = Record(service, returns)
            records.append(record)
            try:
                sendings.append((record, *self.encode(item)))
            except UsageError as error:  # its place in the order is where it is told
                record.settle(error)
        if len(records) < full:
            self._items = None
        return sendings

    def encode(self, item: Any) -> tuple[Body, bytes]:
        """An item is the one argument of its task."""
        return encode_arguments((item,), {})

    def take_ready(self) -> Iterator[Record]:
        """The next records, as far as they are ready; after a batch it is time to refill."""
        records = self.records
        for _ in range(self._batch):
            if not records or not records[0].is_ready:
                return
            yield records.popleft()
