"""HTML that cannot be forged: text is escaped unless it was made here.

`el` builds one element. A child or attribute that is a plain `str` came from outside and is escaped, hidden characters
spelt out; only `Html`, which nothing but this module makes, goes in as it is. So a service may be called
`<img src=x onerror=alert(1)>` and is read as just that.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from scale0_pipeline import words

VOID: Final = {"meta", "br", "col"}
UNCLOSED: Final = {"td", "th", "tr"}
"""Elements whose end tag HTML lets go; in tables of thousands of cells they are half the page."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Html | str | None


def text(raw: object) -> Html:
    """Anything as text of a page."""
    return raw if isinstance(raw, Html) else Html(escape(words.visible(raw), quote=True))


def el(tag: str, *children: Child, **attributes: object) -> Html:
    """One element. `class_` is class, underscores are hyphens, None leaves an attribute out, True has no value."""
    given = {key: value for key, value in attributes.items() if value is not None and value is not False}
    head = tag + "".join(_attribute(key, value) for key, value in given.items())
    if tag in VOID:
        return Html(f"<{head}>")
    inside = "".join(text(child) for child in children if child is not None)
    return Html(f"<{head}>{inside}" if tag in UNCLOSED else f"<{head}>{inside}</{tag}>")


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(value)}"'


def join(parts: Iterable[Child], between: str = "") -> Html:
    """Pieces in a row."""
    return Html(text(between).join(text(part) for part in parts if part is not None))


def table(
    heads: list[str], rows: Iterable[list[Child]], *, numbers: set[int] | None = None, **attributes: object
) -> Html:
    """A real table. `numbers` are the columns that stand to the right; by default all but the first."""
    right = numbers if numbers is not None else set(range(1, len(heads)))
    columns = [{"class_": "n"} if index in right else {} for index in range(len(heads))]
    head = el("tr", *(el("th", title, scope="col", **columns[index]) for index, title in enumerate(heads)))
    body = join(
        Html("<tr>" + "".join(el("td", cell, **columns[index]) for index, cell in enumerate(row))) for row in rows
    )
    return el("div", el("table", el("thead", head), el("tbody", body), **attributes), class_="scroll")


def details(summary: str, *inside: Child) -> Html:
    """What is there for whoever wants it."""
    return el("details", el("summary", summary), *inside)
