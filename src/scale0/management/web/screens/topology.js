// Who serves, who stands by? The drawing is `layout` made visible; a hidden table says the same to those who do not see it, and
// narrow screens get a list.
import { classes, html, useEffect, useRef, useState } from "../lib.js";
import * as api from "../api.js";
import { Broker, Drawer } from "../details.js";
import { glyphOf, millis, number, plural, problemsOf, span, version, visible } from "../format.js";
import { layout } from "../layout.js";
import { Empty, State } from "../parts.js";
import { adjust, beat, documents, go, route } from "../state.js";

const WORKERS_COUNTED_MAX = 2000; // of all brokers; with more of them the bars show only how many there are

export function Topology() {
  const rows = documents.value.network?.rows;
  const rates = useRates(rows);
  const workers = useWorkerStates(rows);
  if (!rows) return html`<p class="waiting">Waiting for the first snapshot …</p>`;
  if (rows.length === 0) return html`<${Empty} text="No broker told of itself." command="scale0 network" />`;
  const drawn = layout(rows, rates);
  return html`<div class="screen"><section class="list topology" aria-label="Topology"><div class="tools"><h1>Topology</h1></div>
    <div class="scroll" tabindex="0" role="group" aria-label="Drawing of the network"><${Drawing} of=${drawn} workers=${workers} /></div>
    <${Mirror} rows=${rows} />
    ${rows.length === 1 ? html`<${Empty} text="One broker, alone. Start a second that joins it:" command=${`scale0 broker --join ${rows[0].endpoints?.[0] || "tcp://HOST:5555"}`} />` : null}</section>
    <${Drawer} topic="network" keyOf=${(row) => row.identity} title="Broker">${Broker}<//></div>`;
}

// How many tasks a second this broker forwards to each, from two snapshots.
function useRates(rows) {
  const before = useRef(null);
  const rates = useRef({});
  const now = performance.now() / 1e3;
  if (rows && rows !== before.current?.rows) {
    const past = before.current;
    if (past && now > past.at + 0.2) {
      const old = Object.fromEntries(past.rows.map((row) => [row.identity, row.forwarded]));
      rates.current = Object.fromEntries(rows.map((row) => [row.identity, Math.max(0, (row.forwarded - (old[row.identity] ?? row.forwarded)) / (now - past.at))]));
    }
    before.current = { rows, at: now };
  }
  return rates.current;
}

// broker → { ready, full, draining }, for the bars.
function useWorkerStates(rows) {
  const [states, setStates] = useState({});
  const total = (rows || []).reduce((sum, row) => sum + (row.workers || 0), 0);
  useEffect(() => {
    if (!rows || total === 0 || total > WORKERS_COUNTED_MAX) return;
    api.listing("network_workers", { limit: WORKERS_COUNTED_MAX }).then((told) => {
      const counted = {};
      for (const row of told.rows) {
        counted[row.broker] ??= {};
        counted[row.broker][row.state] = (counted[row.broker][row.state] || 0) + 1;
      }
      setStates(counted);
    }).catch(() => {});
  }, [Math.floor(beat.value / 5), Boolean(rows), total > WORKERS_COUNTED_MAX]);
  return states;
}

function Drawing({ of: drawn, workers }) {
  return html`<svg class="network" width=${drawn.width} height=${drawn.height} viewBox=${`0 0 ${drawn.width} ${drawn.height}`} aria-hidden="true">
    <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" /></marker>
      <marker id="red" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="bad" d="M0 0L8 4L0 8z" /></marker></defs>
    ${drawn.frames.map((frame) => html`<g key=${`f ${frame.name}`}><rect class="group" x=${frame.x} y=${frame.y} width=${frame.w} height=${frame.h} rx="6" />
      <text class="group" x=${frame.x + 10} y=${frame.y + 19}>${visible(frame.name || "no group")}</text></g>`)}
    ${drawn.links.filter((link) => link.kind !== "fault").map((link, index) => html`<${Link} key=${index} link=${link} />`)}
    ${drawn.boxes.map((box) => html`<${Box} key=${box.id} box=${box} counts=${workers[box.id]} />`)}
    ${drawn.links.filter((link) => link.kind === "fault").map((link) => html`<${Link} key=${link.to} link=${link} />`)}
  </svg>`;
}

function Link({ link }) {
  if (link.kind === "rail") return html`<path class="rail" d=${`M${link.x} ${link.y1}V${link.y2}${link.stubs.map((y) => `M${link.x} ${y}H${link.to}`).join("")}`} />`;
  if (link.kind === "bus") return html`<path class="rail" d=${`M${link.x1} ${link.y}H${link.x2}`} />`;
  const middle = (link.x1 + link.x2) / 2;
  if (link.kind === "stream") {
    const [, token] = glyphOf(link.word === "in sync" || /^\d/.test(link.word) ? "ok" : link.word);
    return html`<g><path class=${classes("stream", token)} d=${`M${link.x1} ${link.y1}H${link.x2}`} />
      <text class="note" x=${middle} y=${link.y1 - 5} text-anchor="middle">${link.lag_us === null ? link.word : `${millis(link.lag_us)} ms`}</text></g>`;
  }
  if (link.kind === "standin") {
    const told = [link.order, link.per_s ? `${number(link.per_s)}/s` : "idle"].join(" · ");
    return html`<g><path class=${classes("standin", link.isIdle && "idle")} marker-end="url(#arrow)" d=${`M${link.x1} ${link.y1}V${link.y}H${link.x2}V${link.y2 + 2}`} />
      <text class="note" x=${middle} y=${link.y - 4} text-anchor="middle">${told}</text></g>`;
  }
  const [x, y] = [(link.x1 + 2 * link.cx + link.x2) / 4, (link.y1 + 2 * link.cy + link.y2) / 4];
  return html`<g data-testid="fault" data-to=${link.to}><path class="fault" marker-end=${link.isOneWay ? "url(#red)" : undefined} d=${`M${link.x1} ${link.y1}Q${link.cx} ${link.cy} ${link.x2} ${link.y2}`} />
    <text class="cross" x=${x} y=${y + 5} text-anchor="middle">✗</text>${link.heard_us ? html`<text class="note" x=${link.x2 + 10} y=${link.noteY}>silent ${span(link.heard_us)}</text>` : null}</g>`;
}

function Box({ box, counts }) {
  const choose = () => (box.kind === "group" ? go("brokers", { filter: `group:${box.id}` }) : adjust({ sel: box.id }, true));
  const isChosen = route.value.params.sel === box.id;
  if (box.kind === "group") {
    return html`<g class="box" onClick=${choose} data-testid="box" data-key=${box.id}><rect x=${box.x} y=${box.y} width=${box.w} height=${box.h} rx="5" />
      <text class="title" x=${box.x + 12} y=${box.y + 22}>${visible(box.id || "no group")}</text>
      ${Object.entries(box.counts).map(([state, count], index) => html`<text key=${state} x=${box.x + 12} y=${box.y + 42 + index * 15}>${`${glyphOf(state)[0]} ${count} ${state}`}</text>`)}</g>`;
  }
  const { row } = box;
  const [fill] = problemsOf("network", row)[0] || [];
  const [glyph, token] = glyphOf(row.state);
  const isDocked = box.kind === "fallback";
  return html`<g class=${classes("box", isChosen && "chosen", box.serves && "serves", fill === "bad" && "bad")} onClick=${choose} data-testid="box" data-key=${box.id} data-state=${row.state}>
    <rect x=${box.x} y=${box.y} width=${box.w} height=${box.h} rx="5" />
    <text class=${`glyph ${token}`} x=${box.x + 10} y=${box.y + 19}>${glyph}</text>
    <text class="title" x=${box.x + 26} y=${box.y + 19}>${cut(row.identity, isDocked ? 12 : 22)}</text>
    <text x=${box.x + 10} y=${box.y + 37}>${isDocked ? `${row.state}${box.serves ? `, epoch ${number(row.epoch)}` : ""}` : cut(problemWords(row), 30)}</text>
    ${isDocked ? null : html`<text class="muted" x=${box.x + 10} y=${box.y + 53}>${`${plural(row.workers, "worker")} · ${version(row.config_version)}`}</text>
      <${Bar} x=${box.x + 10} y=${box.y + 60} w=${box.w - 20} counts=${row.workers && counts} total=${row.workers} />`}</g>`;
}

const problemWords = (row) => [row.state, ...problemsOf("network", row).map(([, word]) => word).filter((word) => word !== row.state), row.is_self ? "this one" : ""].filter(Boolean).join(", ");
const cut = (text, most) => { const shown = visible(text); return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown; };

function Bar({ x, y, w, counts, total }) {
  const parts = counts ? ["ready", "full", "draining"].map((state) => [state, counts[state] || 0]) : [["some", total || 0]];
  const sum = parts.reduce((all, [, count]) => all + count, 0);
  let left = x;
  return html`<g><rect class="ground" x=${x} y=${y} width=${w} height="5" />${sum ? parts.map(([state, count]) => {
    const wide = (w * count) / sum;
    left += wide;
    return count ? html`<rect key=${state} class=${`bar ${state}`} x=${left - wide} y=${y} width=${wide} height="5"><title>${`${count} ${state}`}</title></rect>` : null;
  }) : null}</g>`;
}

// The same as a table: for screen readers always, for the eye on narrow screens.
function Mirror({ rows }) {
  return html`<table class="mirror" aria-label="Brokers of the network" data-testid="mirror"><thead><tr><th scope="col">Group</th><th scope="col">Broker</th><th scope="col">State</th><th scope="col">Fallback</th><th scope="col" class="num">Workers</th><th scope="col">Config</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.identity}><td>${visible(row.group || "–")}</td><td><a href="#" class="name" onClick=${(event) => { event.preventDefault(); adjust({ sel: row.identity }, true); }}>${visible(row.identity)}</a></td>
      <td><${State} state=${row.state} fill=${problemsOf("network", row)[0]?.[0]} word=${problemWords(row)} /></td><td>${row.fallback_broker ? `${visible(row.fallback_broker)} ${row.fallback || ""}` : "–"}</td><td class="num">${number(row.workers)}</td><td>${version(row.config_version)}</td></tr>`)}</tbody></table>`;
}
