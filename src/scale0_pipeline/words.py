"""How figures, times and names read, in the report and on the terminal alike.

Three significant digits, units that fit the size, UTC, and a dash for what nobody measured: never a 0 that was not
counted. Names are chosen by strangers, so every character of them that a reader would not see, or that would move the
others, is spelt out.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

from scale0_pipeline.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US

UNKNOWN = "–"
"""What nobody measured."""


HIDDEN = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
"""The categories of characters that cannot be seen, or that change the order of others."""

NAME_CHARACTERS_MAX = 80
"""A longer name is cut in the middle: both ends tell names apart."""


def visible(text: object) -> str:
    """`text` from elsewhere, with every character visible: controls, bidi marks and line breaks as escapes."""
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return "".join(_spelt(character) for character in plain)


def _spelt(character: str) -> str:
    if character.isprintable() and unicodedata.category(character) not in HIDDEN:
        return character
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def name(text: object) -> str:
    """A name as it is shown: visible, and no longer than a line can bear."""
    shown = visible(text) if text not in (None, "") else UNKNOWN
    if len(shown) <= NAME_CHARACTERS_MAX:
        return shown
    half = (NAME_CHARACTERS_MAX - 1) // 2
    return f"{shown[:half]}…{shown[-half:]}"


def figure(value: float | None) -> str:
    """Three significant digits, thousands parted."""
    if value is None or value != value:
        return UNKNOWN
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}".removesuffix(".0")
    if size >= 0.9995:
        return f"{value:.2f}".rstrip("0").removesuffix(".")
    return f"{value:.3g}" if size >= 0.001 else ("<0.001" if value > 0 else ">−0.001")


def count(value: float | None) -> str:
    """A number of things: whole up to a million, then in millions."""
    if value is None:
        return UNKNOWN
    if abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{figure(value / 1e6)} M" if abs(value) < 1e9 else f"{figure(value / 1e9)} G"


def percent(share: float | None) -> str:
    """A share of 1. Close to all or nothing it keeps the digits that matter: 99.98 %, 0.004 %."""
    if share is None or share != share:
        return UNKNOWN
    value = share * 100
    if 99 < value < 100:
        lacking = 100 - value
        exact = f"{value:.{2 if lacking >= 0.01 else 4}f}".rstrip("0").removesuffix(".")
        return f"{exact} %"
    return f"{figure(value)} %"


def duration(us: float | None) -> str:
    """A duration with the unit that fits it: 12 µs, 8.2 ms, 3.41 s, 14 min, 2.5 h, 3 d."""
    if us is None or us != us:
        return UNKNOWN
    size = abs(us)
    for limit, unit_us, unit in (
        (1e3, 1, "µs"),
        (1e6, 1e3, "ms"),
        (120e6, 1e6, "s"),
        (120 * MINUTE_US, MINUTE_US, "min"),
        (48 * HOUR_US, HOUR_US, "h"),
    ):
        if size < limit * 0.9995:
            return f"{figure(us / unit_us)} {unit}"
    return f"{figure(us / DAY_US)} d"


def size(octets: float | None) -> str:
    """Bytes with the unit that fits them."""
    if octets is None:
        return UNKNOWN
    for limit, unit in ((1e3, "B"), (1e6, "kB"), (1e9, "MB"), (1e12, "GB")):
        if abs(octets) < limit:
            return f"{figure(octets / (limit / 1e3))} {unit}"
    return f"{figure(octets / 1e12)} TB"


def signed(text: str, value: float | None) -> str:
    """`text` with a plus where the value is positive, and a true minus."""
    if value is None or value == 0:
        return text
    return f"+{text}" if value > 0 else text.replace("-", "−", 1)


def moment(us: int, *, is_long: bool = False) -> str:
    """A time of day in UTC, with the date where the period is longer than a day; seconds if they are not zero."""
    at = utc(us)
    clock = f"{at:%H:%M}" if at.second == 0 else f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b} {clock}" if is_long else clock


def date_and_time(us: int) -> str:
    """A time in full, for tables: 2026-03-02 14:05:07."""
    return f"{utc(us):%Y-%m-%d %H:%M:%S}"


def utc(us: int) -> datetime:
    return datetime.fromtimestamp(us / SECOND_US, UTC)


def plural(number: float, one: str, many: str = "") -> str:
    """`3 workers`, `1 worker`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def listed(words: list[str], most: int = 3) -> str:
    """`a, b and c`; the rest as a number."""
    shown, rest = words[:most], len(words) - most
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
