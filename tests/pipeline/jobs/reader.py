"""A reader of another kind that looks at the tables all the time."""

from __future__ import annotations

import threading

from scale0.telemetry.place import Place
from tests.pipeline.jobs.world import totals


class Reader:
    """Samples the totals of all tables, from a thread of its own."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.seen: list[dict[str, int]] = []
        self.error: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        try:
            while not self._ended.wait(0.02):
                self.seen.append(totals(self.place))
        except Exception as error:
            self.error = error

    def check(self, step: int, most: int) -> None:
        """It saw whole batches of `step` tasks each, never more than `most`, and never fewer than before."""
        assert self.error is None
        assert self.seen
        for name in self.seen[0]:
            counts = [one[name] for one in self.seen]
            assert counts == sorted(counts), name
            assert all(count % step == 0 and count <= most for count in counts), name
