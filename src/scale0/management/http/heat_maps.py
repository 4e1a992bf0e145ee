"""The heat map of latency: every recorded task of a period in one picture.

Time goes right, latency goes up by quarters of an octave, and the shade is the logarithm of the count, in nine steps of
cividis. Two kinds of tasks, a slow worker or a time limit show as bands that no percentile could show. It is read from
the facts of each minute, and drawn here rather than in the page: a picture needs no script.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Final

from scale0.management.http.shapes import Heat, Refused

COLUMNS_MAX: Final = 180
DAYS_MAX: Final = 8  # a fact is a minute of one service: more of them are a report's work, not a page's
PERIOD_US: Final = 3 * 3_600_000_000
PER_OCTAVE: Final = 4
ROWS_MIN: Final = 12
SHADES: Final = (
    "#00224e", "#1b3a6e", "#3f4c6b", "#5b606d", "#757575", "#918c78", "#b0a473", "#d1bd63", "#fee838",
)  # fmt: skip
INK: Final = {False: "#9aa5b4", True: "#586374"}  # of words, by whether the ground is light
WIDTH, HEIGHT, LEFT, BOTTOM = 720, 236, 52, 20
LABEL: Final = 'fill="{ink}" font-family="system-ui" font-size="11"'


def read(place: str, service: str, since: int | None, until: int | None) -> Heat:
    """Counts of latency in a bounded number of steps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from scale0_pipeline.buckets import NONE
    from scale0_pipeline.buckets import PER_OCTAVE as FINE
    from scale0_pipeline.gold import STEPS_US, Gold
    from scale0_pipeline.units import DAY_US

    gold = Gold(place)
    gold.check()
    minute_us = STEPS_US["minute_us"]
    until = until if until is not None else (gold.extent() or (0, round(time.time() * 1e6)))[1]
    since = (since if since is not None else until - PERIOD_US) // minute_us * minute_us
    if until - since > DAYS_MAX * DAY_US:
        raise Refused(
            413, f"over {DAYS_MAX} days", "ask for a shorter period, or write a report: scale0 pipeline report"
        )
    minutes = max(1, -(-(until - since) // minute_us))
    step_us = -(-minutes // COLUMNS_MAX) * minute_us
    chosen = pc.field("bucket") != NONE
    if service:
        chosen &= pc.field("service") == service
    kept = gold.rows("facts/minute", since, until, ["minute_us", "bucket", "count"], chosen)
    column = pc.divide(pc.subtract(kept["minute_us"], since), step_us)
    row = pc.divide(pc.max_element_wise(kept["bucket"], 0), FINE // PER_OCTAVE)
    cells = pa.table({"column": column, "row": row, "count": kept["count"]}).group_by(["column", "row"])
    summed = cells.aggregate([("count", "sum")]).filter(pc.field("count_sum") > 0)
    summed = summed.sort_by([("column", "ascending"), ("row", "ascending")])
    found = (summed[name].to_pylist() for name in ("column", "row", "count_sum"))
    return Heat("scale0.heat/1", since, step_us, -(-minutes * minute_us // step_us), *found)


def picture(heat: Heat, *, is_light: bool) -> str:
    """The map as SVG, without styles or scripts; it names nothing that came from outside."""
    first, last = min(heat.row, default=0), max(heat.row, default=0) + 1
    last = max(last, first + ROWS_MIN)
    wide, high = (WIDTH - LEFT) / max(1, heat.columns), (HEIGHT - BOTTOM) / (last - first)
    shades = SHADES[::-1] if is_light else SHADES
    most = math.log1p(max(heat.count, default=1))
    strokes: dict[str, list[str]] = {}
    for column, row, count in zip(heat.column, heat.row, heat.count, strict=True):
        shade = shades[math.ceil(math.log1p(count) / most * len(shades)) - 1]
        strokes.setdefault(shade, []).append(f"M{column} {last - 1 - row}h1v1h-1z")
    cells = "".join(f'<path fill="{shade}" d="{"".join(strokes[shade])}"/>' for shade in shades if shade in strokes)
    label = LABEL.format(ink=INK[is_light])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>Latency of {sum(heat.count):,} tasks over time</title>"
        f'<g transform="translate({LEFT} 0) scale({wide:.4f} {high:.4f})" shape-rendering="crispEdges">{cells}</g>'
        f"{_levels(first, last, high, label)}{_times(heat, label)}</svg>"
    )


def _levels(first: int, last: int, high: float, label: str) -> str:
    """Round latencies on the left: powers of ten, and what lies between where there would be too few."""
    places = {us: math.log2(us) * PER_OCTAVE for us in (lead * 10**zeros for zeros in range(9) for lead in (1, 2, 5))}
    seen = [us for us, row in places.items() if first <= row <= last]
    tens = [us for us in seen if str(us)[0] == "1"]
    marks = []
    for us in tens if len(tens) > 1 else seen:
        y = min(HEIGHT - BOTTOM - 1, max(10, (last - places[us]) * high))
        marks.append(f'<text x="{LEFT - 6}" y="{y:.0f}" text-anchor="end" {label}>{_duration(us)}</text>')
    return "".join(marks)


def _duration(us: int) -> str:
    unit_us, unit = next((one, name) for one, name in ((10**6, "s"), (1000, "ms"), (1, "µs")) if us >= one)
    return f"{us // unit_us} {unit}"


def _times(heat: Heat, label: str) -> str:
    """When it begins and ends, in UTC; with the day if that differs."""
    ends = (heat.since_us, heat.since_us + heat.columns * heat.step_us)
    moments = [datetime.fromtimestamp(at / 1e6, UTC) for at in ends]
    form = "%H:%M" if ends[1] - ends[0] <= 86_400_000_000 else "%m-%d %H:%M"
    spots = ((LEFT, "start", moments[0]), (WIDTH, "end", moments[1]))
    return "".join(
        f'<text x="{x}" y="{HEIGHT - 5}" text-anchor="{anchor}" {label}>{at.strftime(form)}</text>'
        for x, anchor, at in spots
    )
