"""The small windows of `scale0 top`: help, a row in full, what can be done with it, and "are you sure".

Whoever confirms reads verb and object on the button; what is dangerous wants the object's name to be typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static

from scale0.cli import render
from scale0.cli.top_actions import Action
from scale0.cli.top_state import SCREENS
from scale0.cli.views import Row

KEYS = (
    ("/", "filter the lower table: state:full svc:render* hb>3s"),
    ("j k", "next and previous row"),
    ("Tab", "services, and the table below"),
    ("Enter", "all of a row"),
    ("e", "problems only, and all again"),
    ("g then a letter", ", ".join(f"{letter} {title}" for letter, (_name, title) in SCREENS.items())),
    ("y", "copy the command line that shows the same"),
    ("x", "what can be done with the row (with --operate)"),
    ("Esc", "close, or end the filter"),
    ("q, Ctrl-C", "leave"),
)


class Window(ModalScreen[None]):
    """A window that Esc closes."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss_window", "Close")]

    def action_dismiss_window(self) -> None:
        self.dismiss(None)


class Help(Window):
    """The keys."""

    def compose(self) -> ComposeResult:
        width = max(len(key) for key, _what in KEYS)
        text = Text("\n").join(Text.assemble((key.ljust(width + 2), "bold"), what) for key, what in KEYS)
        with Vertical(classes="window"):
            yield Static(Text("Keys", style="bold"), classes="title")
            yield Static(text)


class Detail(Window):
    """One row, key by key, in raw units."""

    def __init__(self, title: str, row: Row) -> None:
        super().__init__()
        self._title, self._row = title, row

    def compose(self) -> ComposeResult:
        width = max((len(key) for key in self._row), default=0)
        lines = [
            Text.assemble((render.safe(key).ljust(width + 2), "dim"), _shown(value)) for key, value in self._row.items()
        ]
        with Vertical(classes="window"):
            yield Static(Text(render.safe(self._title), style="bold"), classes="title")
            with VerticalScroll():
                yield Static(Text("\n").join(lines))


def _shown(value: object) -> str:
    if value is None:
        return render.UNKNOWN
    return render.safe(value if isinstance(value, str) else msgspec.json.encode(value).decode())


class Choice(ModalScreen[Action | None]):
    """What can be done with a row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "nothing", "Close"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__()
        self._actions = list(actions)

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            yield Static(Text("What shall be done?", style="bold"), classes="title")
            yield OptionList(*(Text(action.title) for action in self._actions), id="choices")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._actions[event.option_index])

    def action_nothing(self) -> None:
        self.dismiss(None)

    def action_down(self) -> None:
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        self.query_one(OptionList).action_cursor_up()


class Confirm(ModalScreen[bool]):
    """Is it meant? Tier 2 wants the button, tier 3 the name."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "no", "Close")]

    def __init__(self, action: Action) -> None:
        super().__init__()
        self._action = action

    @property
    def _is_typed(self) -> bool:
        return self._action.tier > 2

    def compose(self) -> ComposeResult:
        action = self._action
        with Vertical(classes="window"):
            yield Static(Text(f"{action.title}?", style="bold"), classes="title")
            yield Static(Text(action.effect or action.command.summary))
            yield Static(Text(action.line, style="dim"), classes="command")
            if self._is_typed:
                yield Static(Text(f"Type {render.safe(action.object)} to go on:"))
                yield Input(id="typed")
            with Horizontal(classes="buttons"):
                yield Button(Text(action.title), variant="primary", id="do", disabled=self._is_typed)
                yield Button(Text("Leave it"), id="leave")

    def on_mount(self) -> None:
        self.query_one("#typed" if self._is_typed else "#leave").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.query_one("#do", Button).disabled = event.value.strip() != self._action.object

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip() == self._action.object:
            self.dismiss(True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "do")

    def action_no(self) -> None:
        self.dismiss(False)
