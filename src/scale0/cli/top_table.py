"""A listing on the screen of `scale0 top`: a heading, and a table whose cursor stays on its row while rows come and go.

Cells are made elsewhere, as text without markup: what a worker calls itself stays text.
"""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from scale0.cli.top_state import Lines
from scale0.cli.views import Row


class ListingTable(Vertical):
    """A listing with its heading."""

    def __init__(self, listing: str, *, id: str) -> None:
        super().__init__(id=id)
        self.listing = listing
        self._rows: list[Row] = []
        self._titles: list[str] = []
        self._is_wanted = False

    def compose(self) -> ComposeResult:
        yield Static("", classes="heading")
        yield DataTable(cursor_type="row", show_row_labels=False, cursor_foreground_priority="renderable")
        yield Static("", classes="empty")

    @property
    def table(self) -> DataTable[Text]:
        found: DataTable[Text] = self.query_one(DataTable)
        return found

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        place = self.table.cursor_row
        return self._rows[place] if 0 <= place < len(self._rows) else None

    def focus_table(self) -> None:
        """Take the cursor; a table without rows takes it when it has some."""
        self._is_wanted = True
        self.table.focus()

    def move(self, by: int) -> None:
        self.table.move_cursor(row=self.table.cursor_row + by)

    def show(self, lines: Lines) -> None:
        """Show these rows. Cells are changed in place while the rows are the same, so that nothing flickers."""
        self.query_one(".heading", Static).update(lines.title)
        empty, table = self.query_one(".empty", Static), self.table
        empty.display = not lines.rows
        empty.update(Text(lines.empty))
        table.display = bool(lines.rows)
        keys = _unique([key for key, _cells in lines.rows])
        titles = [column.title for column in lines.columns]
        self._rows = lines.kept
        if titles == self._titles and keys == [str(key.value) for key in table.rows]:
            for place, (_key, cells) in enumerate(lines.rows):
                for at, cell in enumerate(cells):
                    table.update_cell_at((place, at), _aligned(cell, lines, at))  # type: ignore[arg-type]
            return
        self._rebuild(lines, keys, titles)

    def _rebuild(self, lines: Lines, keys: list[str], titles: list[str]) -> None:
        table = self.table
        under = self._key_under_cursor()
        place, offset = table.cursor_row, table.scroll_offset
        table.clear(columns=titles != self._titles)
        if titles != self._titles:
            for at, column in enumerate(lines.columns):
                table.add_column(Text(column.title, justify="right" if column.is_number else "left"), key=str(at))
        self._titles = titles
        for key, (_key, cells) in zip(keys, lines.rows, strict=True):
            table.add_row(*(_aligned(cell, lines, at) for at, cell in enumerate(cells)), key=key)
        if not keys:
            return
        there = keys.index(under) if under in keys else min(place, len(keys) - 1)
        table.move_cursor(row=there, animate=False)
        table.scroll_to(y=offset.y, animate=False)
        if self._is_wanted and self.app.focused is None:
            table.focus()

    def _key_under_cursor(self) -> str | None:
        keys = [str(key.value) for key in self.table.rows]
        place = self.table.cursor_row
        return keys[place] if 0 <= place < len(keys) else None


def _aligned(cell: Text, lines: Lines, at: int) -> Text:
    made = cell.copy()
    made.justify = "right" if lines.columns[at].is_number else "left"
    return made


def _unique(keys: list[str]) -> list[str]:
    """A table wants each key once; of two alike the second gets a mark."""
    seen: dict[str, int] = {}
    made = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        made.append(key if seen[key] == 1 else f"{key} ({seen[key]})")
    return made
