"""How the page looks, and its one script.

Colours are variables: two sets of them, for light and for dark, and everything else refers to them. The script makes
the values under the pointer readable: it moves a line along every chart that shares the time axis and writes the row
of the chart's own table below it. It holds no data, so its text, and with it its hash in the page's security policy,
never changes. Without it the page says the same.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final

LIGHT: Final = {
    "ok": "#1668dc", "warn": "#c07f00", "bad": "#a40e26", "off": "#68717d",
    "bg": "#f7f8fa", "surface": "#ffffff", "line": "#dde2e8", "text": "#14181e", "muted": "#566170",
    "teal": "#0f8a78", "violet": "#6a4fd0",
}  # fmt: skip
DARK: Final = {
    "ok": "#4aa8ff", "warn": "#ffd75e", "bad": "#f4503f", "off": "#7d8794",
    "bg": "#0e1116", "surface": "#161b22", "line": "#2b333e", "text": "#e6eaf0", "muted": "#9aa5b4",
    "teal": "#8fe3d0", "violet": "#b9a6ff",
}  # fmt: skip

CIVIDIS: Final = (
    "#00224e", "#1b3a6e", "#3f4c6b", "#5b606d", "#757575", "#918c78", "#b0a473", "#d1bd63", "#fee838",
)  # fmt: skip
"""Nine steps from dark to light; on a light page they run the other way, so that more is always further from paper."""

FILLS: Final = {
    "ok": "ok", "warn": "warn", "bad": "bad", "off": "off",
    "late": "warn", "lost": "bad", "refused": "teal", "caller": "violet", "failed": "off",
    "queue": "warn", "worker": "ok", "network": "teal", "text": "text",
}  # fmt: skip
"""What each thing that is drawn is coloured with."""

BASE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:13px/1.5 system-ui,sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:1040px;margin:0 auto;padding:20px 20px 60px}
h1{font-size:24px;line-height:1.3;margin:6px 0 4px;font-weight:650;text-wrap:balance}
h2{font-size:17px;line-height:1.35;margin:2px 0 10px;font-weight:600;text-wrap:balance}
h3{font-size:13px;margin:18px 0 6px;font-weight:600}
h1,h2,h3,p,li,.id{overflow-wrap:anywhere}
.kicker,.muted,.legend,.readout,summary{color:var(--muted)}
.kicker{font-size:12px;margin:0}
section,.card{background:var(--surface);border:1px solid var(--line);border-radius:6px}
section{padding:14px 16px;margin:14px 0}
.cards{display:grid;grid-template-columns:repeat(6,1fr);gap:10px;margin:16px 0}
.card{padding:10px 12px}
.card b{display:block;font-size:20px;line-height:1.25;font-weight:600;white-space:nowrap}
.card span{display:block;font-size:12px;color:var(--muted)}
.findings{list-style:none;margin:0;padding:0}
.findings>li{padding:8px 0 8px 22px;border-top:1px solid var(--line);position:relative}
.findings>li:first-child{border-top:0}
.findings .glyph{position:absolute;left:2px}
.findings strong{font-weight:600}.findings code{display:inline-block}
code,.id{font-family:ui-monospace,monospace;font-size:12px}
code{background:var(--bg);border:1px solid var(--line);border-radius:4px;padding:1px 5px;overflow-wrap:anywhere}
.glyph{font-weight:700;font-style:normal}
.badge{border:1px solid var(--warn);border-radius:4px;padding:0 5px;margin-left:8px;color:var(--text)}
figure{margin:8px 0}
svg{display:block;width:100%;height:auto}
svg.defs{position:absolute;width:0;height:0}
svg.spark{width:100%;height:24px;margin-top:4px}
svg text{fill:var(--muted);font-size:11px}
svg .name{fill:var(--text);font-size:12px}
svg .note{fill:var(--text);font-size:11px}
.e{text-anchor:end}.m{text-anchor:middle}
.grid{stroke:var(--line);fill:none}.axis{stroke:var(--muted);fill:none}
.mark{stroke:var(--muted);fill:none;stroke-dasharray:2 3}
.cursor{stroke:var(--text);fill:none;opacity:0;transition:opacity .12s}
.on .cursor{opacity:.6}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.thin{stroke-width:1.1}.dot{stroke-width:4}.dash{stroke-dasharray:4 3}
.soft{opacity:.42}.faint{opacity:.2}
.hatch{fill:url(#hatch)}.stripe{stroke:var(--muted);stroke-width:1;opacity:.55;fill:none}
.trough{stroke:var(--bg);stroke-width:12}
.bar{stroke-width:12;fill:none}.cells path{stroke-width:1;fill:none;shape-rendering:crispEdges}
.legend{margin:0 0 4px;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:12px}
.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px;vertical-align:-2px}
.legend i[class^=l-]{height:0;border-width:2px 0 0;border-style:solid;border-radius:0;vertical-align:3px}
.legend i.dash{border-top-style:dashed}
.legend.heat i{margin:0;border-radius:0;width:16px}
.readout{display:block;min-height:20px;font-size:12px}
.stamps{display:grid;grid-template-columns:repeat(3,1fr);gap:4px 16px;margin-top:10px}
.pairs{grid-template-columns:repeat(2,1fr)}
figcaption{font-size:12px}
.scroll{overflow-x:auto;background-repeat:no-repeat;background-size:48px 100%,48px 100%,7px 100%,7px 100%;
background-image:linear-gradient(90deg,var(--surface) 30%,transparent),
linear-gradient(270deg,var(--surface) 30%,transparent),
linear-gradient(90deg,var(--muted),transparent),linear-gradient(270deg,var(--muted),transparent);
background-position:left,right,left,right;background-attachment:local,local,scroll,scroll}
details{margin:6px 0}
summary{cursor:pointer;font-size:12px}
details>.scroll{max-height:420px;overflow:auto;margin-top:6px}
table{border-collapse:collapse;min-width:50%}
th,td{text-align:left;padding:0 14px 0 0;height:28px;white-space:nowrap;border-bottom:1px solid var(--line)}
table.data td,table.data th{height:22px}
td{max-width:420px;white-space:normal;overflow-wrap:break-word}
th{font-weight:600;color:var(--muted);position:sticky;top:0;background:var(--surface)}
.n{text-align:right;white-space:nowrap}
.empty{margin:4px 0;color:var(--muted)}
.methods{margin:0;padding-left:18px;max-width:75ch}
footer{color:var(--muted);font-size:12px;margin-top:18px}
:focus-visible{outline:2px solid var(--ok);outline-offset:2px}
@media(max-width:820px){
main{padding:12px 10px 40px}section{padding:12px}.cards{grid-template-columns:repeat(2,1fr)}
.stamps,.pairs{grid-template-columns:1fr}.small{max-width:360px}figure>.scroll>svg{min-width:680px}h1{font-size:20px}
}
@media print{
body{background:#fff;font-size:11px}main{max-width:none;padding:0}
section,.card{border-color:#bbb;break-inside:avoid}.readout,.cursor,details:not([open]){display:none}
}
"""

SCRIPT: Final = """
for (const svg of document.querySelectorAll("figure svg[data-bins]")) {
  const { since, bins } = svg.dataset;
  const peers = [...document.querySelectorAll(`svg[data-since="${since}"][data-bins="${bins}"]`)];
  const show = (share) => peers.forEach((peer) => {
    const { left, right } = peer.dataset;
    const index = Math.min(bins - 1, Math.floor(share * bins));
    const x = +left + ((index + 0.5) / bins) * (right - left);
    peer.classList.add("on");
    peer.querySelector(".cursor").setAttribute("transform", `translate(${x} 0)`);
    const figure = peer.closest("figure");
    const table = figure.querySelector("table.data"), out = figure.querySelector("output");
    if (!table || !out) return;
    const heads = table.tHead.rows[0].cells, cells = table.tBodies[0].rows[index].cells;
    const words = [...cells].map((cell, i) => (i ? heads[i].textContent + " " : "") + cell.textContent);
    out.textContent = words.join("  \\u00b7  ");
  });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), wide = svg.viewBox.baseVal.width;
    const x = ((event.clientX - box.left) / box.width) * wide;
    const share = (x - svg.dataset.left) / (svg.dataset.right - svg.dataset.left);
    if (share >= 0 && share <= 1) show(share);
  });
  svg.addEventListener("pointerleave", () => peers.forEach((peer) => peer.classList.remove("on")));
}
"""


def css() -> str:
    """The style sheet: both sets of colours, what is filled with them, and the rest."""
    light, dark = (_variables(colours, steps) for colours, steps in ((LIGHT, CIVIDIS[::-1]), (DARK, CIVIDIS)))
    fills = "".join(
        f".fill-{name}{{fill:var(--{token})}}.s-{name}{{stroke:var(--{token})}}.b-{name}{{background:var(--{token})}}"
        f".l-{name}{{border-color:var(--{token})}}.g-{name}{{color:var(--{token})}}"
        for name, token in FILLS.items()
    )
    heat = "".join(f".heat{n}{{stroke:var(--c{n})}}.bg-heat{n}{{background:var(--c{n})}}" for n in range(1, 10))
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}" + fills + heat + BASE
    )


def _variables(colours: dict[str, str], steps: tuple[str, ...]) -> str:
    named = [f"--{name}:{colour}" for name, colour in colours.items()]
    return ";".join(named + [f"--c{index}:{colour}" for index, colour in enumerate(steps, 1)])


def script_hash() -> str:
    """What the security policy calls the script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()


def policy() -> str:
    """The page may style itself and run its one script; it loads nothing from anywhere."""
    only = "base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src '{script_hash()}'; {only}"
