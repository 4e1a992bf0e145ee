"""The plot of a run: one panel a comparison, horizontal bars, Scale0's own in blue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from report import Bars, Result, figure

_OURS, _OTHERS, _TEXT = "#1668dc", "#9aa5b4", "#14181e"


def draw(results: Sequence[Result], path: Path) -> bool:
    """Write the PNG; False where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [bars for result in results for bars in result.bars if bars.values]
    if not panels:
        return False
    rows = (len(panels) + 1) // 2
    canvas, axes = plt.subplots(rows, 2, figsize=(13, 2.4 * rows), squeeze=False, layout="constrained")
    for axis, bars in zip(axes.flat, panels, strict=False):
        _panel(axis, bars)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    canvas.savefig(path, dpi=120)
    plt.close(canvas)
    return True


def _panel(axis: object, bars: Bars) -> None:
    names = list(bars.values)
    has_names = any("scale0" in name for name in names)
    colours = [_OURS if "scale0" in name or not has_names else _OTHERS for name in names]
    drawn = axis.barh(names, list(bars.values.values()), color=colours)  # type: ignore[attr-defined]
    axis.bar_label(drawn, labels=[figure(value) for value in bars.values.values()], padding=3, color=_TEXT, fontsize=8)  # type: ignore[attr-defined]
    axis.invert_yaxis()  # type: ignore[attr-defined]
    axis.margins(x=0.15)  # type: ignore[attr-defined]
    axis.set_title(f"{bars.title} ({bars.unit})", fontsize=10, loc="left", color=_TEXT)  # type: ignore[attr-defined]
    axis.tick_params(labelsize=8)  # type: ignore[attr-defined]
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)  # type: ignore[attr-defined]
