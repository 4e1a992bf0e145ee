"""What operators may fetch of a broker's recorded events: entries of its catalogue, and segments piece by piece.

Files are read in a thread of their own, one request after another, so that neither a slow disk nor a data place on the
network holds up serving. Only the broker's own segments can be asked for.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scale0.core.effects import FromFiles
from scale0.errors import ProtocolError, Scale0Error
from scale0.protocol.codes import Code

if TYPE_CHECKING:
    from scale0.telemetry.place import Place

ENTRIES_MAX: Final = 500  # in one answer
PIECE_BYTES_MAX: Final = 512 * 1024  # of a segment in one answer, which is one message
WAITING_MAX: Final = 32  # requests that wait for their turn
CONSUMER_BYTES_MAX: Final = 100

Done = Callable[[int, Any], None]


class RecordedFiles:
    """Reads what `broker` has recorded in the data place. pyarrow is imported by the first request."""

    def __init__(self, data: str, broker: str) -> None:
        self._data, self._broker = data, broker
        self._place: Place | None = None
        self._waiting: queue.Queue[tuple[FromFiles, Done]] = queue.Queue(WAITING_MAX)
        self._thread: threading.Thread | None = None

    def ask(self, asked: FromFiles, done: Done) -> None:
        """Have it answered: `done` is called with the key and the result, or a `ProtocolError`, in another thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="recorded-files", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait((asked, done))
        except queue.Full:
            done(asked.key, ProtocolError(Code.OVER_LIMIT, f"{WAITING_MAX} requests for recorded files wait already"))

    def _run(self) -> None:
        while True:
            asked, done = self._waiting.get()
            done(asked.key, self.answer(asked.command, asked.arguments))

    def answer(self, command: str, arguments: dict[str, Any]) -> Any:
        """The result of one command, or the `ProtocolError` that answers it."""
        try:
            return (self._segments if command == "segments" else self._segment)(arguments)
        except ProtocolError as error:
            return error
        except FileNotFoundError:
            return ProtocolError(Code.UNKNOWN_SERVICE, f"{arguments.get('path')} is not there any more")
        except (OSError, ValueError, ImportError, Scale0Error) as error:
            return ProtocolError(Code.NOT_ACCEPTING, f"what was recorded cannot be read: {error}")

    def _segments(self, arguments: dict[str, Any]) -> Any:
        from scale0.telemetry import catalogue

        after, limit = _whole(arguments, "after", 0), _whole(arguments, "limit", ENTRIES_MAX)
        consumer = str(arguments.get("consumer") or "")[:CONSUMER_BYTES_MAX]
        place = self._ready_place()
        if consumer:
            fetched = catalogue.Consumer({self._broker: after}, time.time_ns() // 1_000, only=[self._broker])
            catalogue.keep_position(place, f"{consumer}-{self._broker}", fetched)
        entries = catalogue.read(place, self._broker, after, min(limit, ENTRIES_MAX))
        return {"broker": self._broker, "entries": msgspec.to_builtins(entries)}

    def _segment(self, arguments: dict[str, Any]) -> Any:
        from scale0.telemetry import segments
        from scale0.telemetry.place import quoted

        path = str(arguments.get("path", ""))
        if not path.startswith(f"{segments.DIRECTORY}/{quoted(self._broker)}/"):
            raise ProtocolError(Code.MALFORMED, f"path: {path!r} is no segment of {self._broker}")
        offset, length = _whole(arguments, "offset", 0), _whole(arguments, "length", PIECE_BYTES_MAX)
        return {"data": self._ready_place().read_range(path, offset, min(length, PIECE_BYTES_MAX))}

    def _ready_place(self) -> Place:
        from scale0.telemetry.place import Place

        if self._place is None:
            self._place = Place(self._data)
        return self._place


def _whole(arguments: dict[str, Any], name: str, default: int) -> int:
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ProtocolError(Code.MALFORMED, f"{name}: a whole number of at least 0 is needed")
    return value
