"""Collecting: what the brokers of a network recorded, fetched into one data place over their management door.

Each broker is asked for the entries of its catalogue that were not fetched yet, then for their segments in pieces.
What arrives is checked against its checksum and published as if it had been recorded here. How far each broker was
fetched is kept in the place, so that an interrupted run goes on where it was, and one that comes again finds nothing to
do. The broker keeps for us what we have not fetched yet. A broker that cannot be reached is told of, and left for next
time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scale0.errors import Scale0Error, TaskRefused

if TYPE_CHECKING:
    from scale0.telemetry.catalogue import Entry
    from scale0.telemetry.place import Place

PIECE_BYTES: Final = 512 * 1024
DIRECTORY: Final = "collected"
GONE: Final = 404  # the code for a segment that is not there any more

Manage = Callable[[str, str, dict[str, Any], float], Any]
"""Has the broker at an address carry out a command, within so many seconds."""
Progress = Callable[[str, int, int], None]


class Summary(msgspec.Struct):
    """What one run fetched. `failed` maps brokers, or addresses, to what went wrong there."""

    brokers: list[str] = []
    segments: int = 0
    rows: int = 0
    bytes: int = 0
    gaps: int = 0
    failed: dict[str, str] = {}


class _Fetched(msgspec.Struct):
    number: int


def collect(
    endpoints: Sequence[str], place_url: str, manage: Manage, *, timeout_s: float = 60.0, progress: Progress
) -> Summary:
    """Fetch what is missing here of every broker at `endpoints`, and of all brokers of their networks."""
    from scale0.telemetry.place import Place

    summary = Summary()
    place = Place(place_url)
    found = _find_brokers(endpoints, manage, timeout_s, summary)
    for done, (name, addresses) in enumerate(found.items()):
        progress(f"fetching from {name}", done, len(found))
        try:
            _from_any(name, addresses, place, manage, timeout_s, summary, progress)
        except (Scale0Error, OSError) as error:
            summary.failed[name] = str(error).splitlines()[0]
    progress("fetched", len(found), len(found))
    return summary


def _find_brokers(endpoints: Sequence[str], manage: Manage, timeout_s: float, summary: Summary) -> dict[str, list[str]]:
    """All brokers that those at `endpoints` know, with their addresses; the one that was named comes first."""
    found: dict[str, list[str]] = {}
    for endpoint in endpoints:
        try:
            listed = manage(endpoint, "list", {"what": "network"}, timeout_s)
        except Scale0Error as error:
            summary.failed[endpoint] = str(error).splitlines()[0]
            continue
        for row in listed["rows"]:
            own = [endpoint] if row["is_self"] else []
            addresses = found.setdefault(row["identity"], [])
            addresses += [address for address in [*own, *row["endpoints"]] if address not in addresses]
    return found


def _from_any(
    name: str,
    addresses: list[str],
    place: Place,
    manage: Manage,
    timeout_s: float,
    summary: Summary,
    progress: Progress,
) -> None:
    """By the first address that answers."""
    for index, address in enumerate(addresses):

        def ask(command: str, arguments: dict[str, Any], address: str = address) -> Any:
            return manage(address, command, arguments, timeout_s)

        try:
            _Source(name, place, ask, summary, progress).fetch()
        except Scale0Error:
            if index + 1 == len(addresses):
                raise
        else:
            summary.brokers.append(name)
            return
    raise Scale0Error(f"{name} told no address where it can be asked")


class _Source:
    """One broker, and what is fetched from it."""

    def __init__(
        self,
        name: str,
        place: Place,
        ask: Callable[[str, dict[str, Any]], Any],
        summary: Summary,
        progress: Progress,
    ) -> None:
        self._name, self._place, self._ask, self._summary, self._progress = name, place, ask, summary, progress
        self._consumer = "collect-" + hashlib.sha256(place.url.encode()).hexdigest()[:12]

    def fetch(self) -> None:
        """Everything that is new there."""
        from scale0.telemetry.catalogue import Entry

        number = self._fetched()
        while True:
            answer = self._ask("segments", {"after": number, "consumer": self._consumer})
            entries = msgspec.convert(answer["entries"], list[Entry])
            if not entries:
                return
            for entry in entries:
                self._take(entry)
                number = entry.number
                self._place.write_atomic(self._parts(), msgspec.json.encode(_Fetched(number)))

    def _take(self, entry: Entry) -> None:
        from scale0.telemetry import catalogue, segments
        from scale0.telemetry.spool import as_gap

        here = catalogue.get(self._place, entry.broker, entry.number)
        if here is not None and (here.path, here.sha256, here.boot) == (entry.path, entry.sha256, entry.boot):
            return  # the broker writes to this very place, or it came before
        arriving = msgspec.structs.replace(entry, number=0, source="collect")
        content = None if entry.gap else self._content(entry)
        if content is None:
            catalogue.append(self._place, as_gap(arriving))
            self._summary.gaps += 1
            return
        segments.publish(self._place, arriving, content)
        self._summary.segments += 1
        self._summary.rows += entry.rows
        self._summary.bytes += len(content)

    def _content(self, entry: Entry) -> bytes | None:
        """The segment's bytes, checked; None if it has had its time there meanwhile."""
        pieces: list[bytes] = []
        have = 0
        while have < entry.bytes:
            try:
                wanted = {"path": entry.path, "offset": have, "length": PIECE_BYTES}
                piece: bytes = self._ask("segment", wanted)["data"]
            except TaskRefused as error:
                if error.code == GONE:
                    return None
                raise
            if not piece:
                break
            pieces.append(piece)
            have += len(piece)
            self._progress(f"{self._name}: segment {entry.number}", have, entry.bytes)
        content = b"".join(pieces)
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise Scale0Error(f"{entry.path} of {self._name} is not what its catalogue says; look at the disk there")
        return content

    def _fetched(self) -> int:
        try:
            return msgspec.json.decode(self._place.read_bytes(*self._parts()), type=_Fetched).number
        except FileNotFoundError:
            return 0

    def _parts(self) -> tuple[str, str]:
        from scale0.telemetry.place import quoted

        return DIRECTORY, f"{quoted(self._name)}.json"
