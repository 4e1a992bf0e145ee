"""How `scale0 top` looks: the colours of the design, and where each part of the screen stands."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

THEME: Final = Theme(
    name="scale0",
    primary="#4aa8ff",
    warning="#ffd75e",
    error="#f4503f",
    background="#0e1116",
    surface="#161b22",
    panel="#2b333e",
    foreground="#e6eaf0",
    dark=True,
)

SHEET: Final = """
#head { height: auto; padding: 0 1; }
#verdict { width: 1fr; height: auto; max-height: 3; }
#clock { width: auto; height: 1; padding-left: 2; }
#figures { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
#alarms { height: auto; padding: 0 1; }
#banner { height: auto; padding: 0 1; background: $error 40%; }
#filter { height: 1; border: none; padding: 0 1; background: $surface; }
ListingTable { padding: 0 1; height: auto; }
#services { max-height: 45%; }
#below { height: 1fr; }
.heading { height: 1; margin-top: 1; text-wrap: nowrap; text-overflow: ellipsis; }
.empty { height: auto; color: $foreground 60%; }
DataTable { height: auto; max-height: 100%; background: $background; }
#services DataTable { max-height: 16; }
DataTable > .datatable--header { background: $background; color: $foreground 60%; text-style: none; }
DataTable > .datatable--cursor { background: $panel; }
DataTable:focus > .datatable--cursor { background: $primary 35%; }
.stale ListingTable, .stale #figures, .stale #verdict, .stale #alarms { opacity: 50%; }
.window { width: 80%; max-width: 100; height: auto; max-height: 80%; padding: 1 2; }
.window { background: $surface; border: round $panel; }
Window, Choice, Confirm { align: center middle; }
.title { height: 1; margin-bottom: 1; }
.command { margin: 1 0; }
.buttons { height: auto; margin-top: 1; }
.buttons Button { margin-right: 2; }
VerticalScroll { height: auto; max-height: 30; }
"""
