"""A life on the terminal: verdict, cause, a line for each thing that happened, and bars of where the time went."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scale0_pipeline import words
from scale0_pipeline.why.life import Life, Step

SCHEMA: Final = "scale0.why/1"
BAR: Final = "█"
BAR_WIDTH_MAX: Final = 24
COLOURS: Final = {"ok": "\x1b[94m", "warn": "\x1b[33m", "bad": "\x1b[31m", "off": "\x1b[90m"}
PARTS: Final = {"queue": "warn", "worker": "ok", "network": "off", "lost attempts": "bad"}
BOLD: Final = "\x1b[1m"
PLAIN: Final = "\x1b[0m"


def render(life: Life, width: int | None = None, colour: bool = False) -> str:
    """The life as text. Without a width, lines are as long as they need to be."""
    unit_us, unit = (1_000_000, "s") if life.latency_us >= 1_000_000 else (1_000, "ms")
    fill = "ok" if life.is_good else "bad" if life.code in (500, 502, 504, 408) else "warn"
    glyph = {"ok": "●", "warn": "!", "bad": "✗"}[fill]
    took = "refused" if life.outcome == "refused" else f"{life.latency_us / unit_us:,.3f} {unit}"
    head = f"{life.code} {words.name(life.service)} {took}, {life.record}"
    lines = [f"{_painted(glyph, fill, colour)} {_bold(_cut(head, width, 2), colour)}"]
    if life.cause:
        lines.append(_cut(f"{'Cause' if not life.is_good else 'Spent'}: {life.cause}", width))
    lines.append(_cut(f"Task {words.visible(life.task_id)}, settled {words.date_and_time(life.settled_us)} UTC", width))
    if life.settlements > 1:
        lines.append(_cut(f"Settled {life.settlements} times, around a fail-over; it counts once", width))
    times = [_time(step, unit_us) for step in life.steps]
    wide = max((len(one) for one in times), default=0)
    lines += [
        _cut(f"{shown:<{wide}}  {step.text}", width) for shown, step in zip(_aligned(times), life.steps, strict=True)
    ]
    if life.steps and unit == "ms":
        lines.append(_cut(f"times in ms since {words.name(life.broker)} received it", width))
    bars = _bars(life, unit_us, unit, width, colour)
    return "\n".join([*lines, bars] if bars else lines)


def _time(step: Step, unit_us: int) -> str:
    """`+3.412 ±0.004`; exact times have no error, unknown ones are a dash."""
    if step.at_us is None:
        return words.UNKNOWN
    value = f"{step.at_us / unit_us:+,.3f}".replace("-", "−")
    if step.error_us is None:
        return f"{value} ±{words.UNKNOWN}"
    return f"{value} ±{step.error_us / unit_us:,.3f}" if step.error_us else value


def _aligned(times: list[str]) -> list[str]:
    """Points under points."""
    before = max((len(one.partition(".")[0]) for one in times), default=0)
    padded = [
        " " * (before - len(one.partition(".")[0])) + one if "." in one else " " * (before - 1) + one for one in times
    ]
    wide = max((len(one) for one in padded), default=0)
    return [f"{one:<{wide}}" for one in padded]


def _bars(life: Life, unit_us: int, unit: str, width: int | None, colour: bool) -> str:
    pieces: list[str] = []
    for share in life.shares:
        length = max(1, round(share.share * BAR_WIDTH_MAX))
        text = f"{share.us / unit_us:,.3f} {unit} {share.share * 100:.0f}%"
        pieces.append(f"{share.part} {_painted(BAR * length, PARTS.get(share.part, 'off'), colour)} {text}")
    line = "  ".join(pieces)
    plain = sum(len(piece) for piece in pieces) + 2 * len(pieces)
    return "\n".join(pieces) if width is not None and plain > width else line


def _cut(text: str, width: int | None, taken: int = 0) -> str:
    if width is None or len(text) + taken <= width:
        return text
    return text[: max(width - taken - 1, 1)] + "…"


def _painted(text: str, fill: str, colour: bool) -> str:
    return f"{COLOURS[fill]}{text}{PLAIN}" if colour else text


def _bold(text: str, colour: bool) -> str:
    return f"{BOLD}{text}{PLAIN}" if colour else text


def to_dict(life: Life) -> dict[str, Any]:
    """The life for machines: raw units, and every row that it was told from."""
    told: dict[str, Any] = msgspec.to_builtins(life, builtin_types=(bytes,))
    return {"schema": SCHEMA, "complete": not life.missing, "record": life.record, **told}
