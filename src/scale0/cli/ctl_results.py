"""What a command's answer looks like: one sentence, what came of it below, and a line a broker if it went to several.

Partial failure is never rounded up: the sentence says how many of how many, and the exit code is 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from rich.text import Text

from scale0.cli import render
from scale0.cli.ctl_doors import Answer, BrokerAnswer
from scale0.cli.failures import Exit
from scale0.cli.render import Column
from scale0.cli.views import count
from scale0.management.vocabulary import Command

VALUE_CHARACTERS_MAX: Final = 200  # of one value; --json has all of it
_UNITS: Final = {"_us": "ms", "_s": "s", "_bytes": "bytes", "_percent": "%"}
_COLUMNS: Final = (Column("BROKER"), Column("RESULT"))


def draw(command: Command, answer: Answer, target: str = "") -> list[Text]:
    """The lines that a person reads."""
    if answer.results is not None:
        return _draw_several(command, answer.results, target)
    what = _what(command, target)
    if isinstance(answer.result, dict) and "code" in answer.result:
        return _draw_outcome(what, answer.result)
    lines = [render.verdict("ok", f"{what}: done")]
    return lines + [Text("  " + line) for line in _pairs(answer.result)]


def end(answer: Answer) -> Exit:
    """What the shell is told."""
    if answer.results is not None:
        if answer.is_good:
            return Exit.GOOD
        return Exit.PARTIAL if any(one.is_good for one in answer.results) else Exit.REFUSED
    return Exit.GOOD if _is_good(answer.result) else Exit.BAD_ANSWER


def _what(command: Command, target: str) -> str:
    name = command.name.replace("_", " ")
    return render.safe(f"{name} {target}" if target else name)


def _is_good(result: Any) -> bool:
    """A task of our own may have failed, though the command did what it should."""
    code = result.get("code") if isinstance(result, dict) else None
    return not isinstance(code, int) or code < 400


def _draw_outcome(what: str, result: dict[str, Any]) -> list[Text]:
    """Of a task that the broker sent for us."""
    code, took, worker = result.get("code"), result.get("duration_us"), result.get("worker")
    is_good = _is_good(result)
    by = f" by {render.safe(worker)}" if worker else ""
    span = f" in {render.ms(took)} ms" if isinstance(took, int | float) else ""
    told = "answered" if is_good else f"{render.safe(code)} {render.safe(result.get('text') or 'failed')}"
    lines = [render.verdict("ok" if is_good else "bad", f"{what}: {told}{by}{span}")]
    if result.get("body") not in (None, ""):
        lines.append(Text("  " + _value("body", result["body"])))
    rest = {key: result[key] for key in ("task", "attempts", "via") if result.get(key) not in (None, "", [])}
    if rest:
        lines.append(Text("  " + ", ".join(_pairs(rest)), style="dim"))
    return lines


def _draw_several(command: Command, results: Sequence[BrokerAnswer], target: str) -> list[Text]:
    good = sum(one.is_good for one in results)
    what = _what(command, target)
    if good == len(results):
        lines = [render.verdict("ok", f"{what}: done by {count(good, 'broker')}")]
    else:
        bad = ", ".join(render.safe(one.broker) for one in results if not one.is_good)
        fill = "warn" if good else "bad"
        lines = [render.verdict(fill, f"{what}: {good:,} of {count(len(results), 'broker')}; not {bad}")]
    rows = [(render.safe(one.broker), _row(one)) for one in sorted(results, key=lambda one: (one.is_good, one.broker))]
    return lines + render.table(_COLUMNS, rows)


def _row(one: BrokerAnswer) -> Text:
    if one.is_good:
        return Text.assemble(("●", render.STYLES["ok"]), " ", ", ".join(_pairs(one.result)) or "done")
    return Text.assemble(("✗", render.STYLES["bad"]), f" {one.code} {render.safe(one.text)}")


def _pairs(result: Any) -> list[str]:
    """What a result says, a thing a line."""
    if isinstance(result, dict):
        return [f"{_title(key)} {_value(key, value)}" for key, value in result.items() if value is not None]
    if isinstance(result, list):
        return [_value("", value) for value in result]
    return [] if result is None or result == "" else [_value("", result)]


def _title(key: str) -> str:
    for ending in _UNITS:
        if key.endswith(ending):
            key = key.removesuffix(ending)
    return render.safe(key.replace("_", " "))


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        unit = next((unit for ending, unit in _UNITS.items() if key.endswith(ending)), "")
        return f"{render.ms(value) if unit == 'ms' else render.figure(value)}{f' {unit}' if unit else ''}"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        shown = ", ".join(value) or render.UNKNOWN
    else:
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = shown if len(shown) <= VALUE_CHARACTERS_MAX else shown[:VALUE_CHARACTERS_MAX] + "… (all of it: --json)"
    return render.safe(cut)
