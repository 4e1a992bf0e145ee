"""A change of the config as people read it: what was, what will be, and whom it touches.

Whom it touches comes from the rows of `scale0.network`, which one broker knows of all: a broker that is disabled or
taken out of the document sends its workers elsewhere, and a service's setting concerns those who serve it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from scale0.cli import render
from scale0.cli.views import Row, count
from scale0.protocol.network_diff import Change

SHOWN_CELLS_MAX = 100  # of what was and will be; an entry that came may be long


def draw(changes: Sequence[Change], rows: Sequence[Row], title: str) -> list[Text]:
    """The verdict, and a line a change: key, before → after, whom it touches."""
    told = [(render.safe(change.key), shorten(render.safe(change.text))) for change in changes]
    effects = [touched(change, rows) for change in changes]
    fill = "warn" if any(effect.plain.startswith("!") for effect in effects) else "ok"
    lines = [render.verdict(fill, f"{render.safe(title)}: {count(len(changes), 'change')}")]
    key_cells = max((cell_len(key) for key, _text in told), default=0)
    text_cells = max((cell_len(text) for _key, text in told), default=0)
    for (key, text), effect in zip(told, effects, strict=True):
        line = Text(f"{key}{' ' * (key_cells - cell_len(key))} {text}")
        if effect:
            line.append(" " * (text_cells - cell_len(text) + 2))
            line.append(effect)
        lines.append(line)
    return lines


def shorten(text: str, most: int = SHOWN_CELLS_MAX) -> str:
    """At most `most` characters, the last of them an ellipsis if some are missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def touched(change: Change, rows: Sequence[Row]) -> Text:
    """Whom a change touches: `! 9 workers move`, `12 workers`, or nobody that is known."""
    for row in rows:
        broker = f"broker.{row.get('identity')}"
        is_taken_out = change.key == broker and change.after is None
        is_disabled = change.key == f"{broker}.state" and change.after == "disabled"
        workers = row.get("workers")
        if (is_taken_out or is_disabled) and isinstance(workers, int) and workers:
            verb = "moves" if workers == 1 else "move"
            return Text.assemble(("!", render.STYLES["warn"]), f" {count(workers, 'worker')} {verb}")
    service = _service(change, rows)
    serving = sum(_workers(row, service) for row in rows) if service else 0
    return Text(count(serving, "worker") if serving else "")


def _service(change: Change, rows: Sequence[Row]) -> str:
    """The service that a key is about. Names may have dots in them, so the longest that fits is meant."""
    names = {str(name) for row in rows if isinstance(served := row.get("services"), dict) for name in served}
    fitting = [name for name in names if f"{change.key}.".startswith(f"service.{name}.")]
    return max(fitting, key=len, default="")


def _workers(row: Row, service: str) -> int:
    served = row.get("services")
    workers = served.get(service) if isinstance(served, dict) else None
    return workers if isinstance(workers, int) else 0
