// Charts over uPlot: latency as bands in one hue on a log scale, throughput as two lines whose gap is the story, errors as
// bars stacked by family. Gaps stay gaps. Cursors of charts with the same `sync` move together; a drag zooms.
import { html, useEffect, useMemo, useRef, useState } from "./lib.js";
import * as api from "./api.js";
import { FAMILIES, number, utcOfMicros, visible } from "./format.js";
import { CommandLine, Completeness, Empty, Tabs, cureOf } from "./parts.js";
import { adjust, overview, route, theme } from "./state.js";

export { FAMILIES };
const HEIGHT = 200;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function fade(colour, share) {
  return colour + Math.round(share * 255).toString(16).padStart(2, "0");
}

// Times in seconds, columns of numbers or null. `onZoom(from_s, to_s)` when somebody has dragged.
export function Chart({ title, testid, data, build, sync, onZoom, gaps = [], markers = [] }) {
  const host = useRef(null);
  const plot = useRef(null);
  const latest = useRef({});
  latest.current = { gaps, markers, onZoom };
  const points = data[0]?.length || 0;
  useEffect(() => {
    const make = () => {
      if (!host.current) return;
      plot.current?.destroy();
      plot.current = new globalThis.uPlot(options(build, host.current.clientWidth, sync, latest), data, host.current);
    };
    make();
    const watcher = new ResizeObserver(() => host.current && plot.current?.setSize({ width: host.current.clientWidth, height: HEIGHT }));
    watcher.observe(host.current);
    const scheme = matchMedia("(prefers-color-scheme: light)");
    scheme.addEventListener("change", make);
    return () => { watcher.disconnect(); scheme.removeEventListener("change", make); plot.current?.destroy(); plot.current = null; };
  }, [theme.value]);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  const last = data.slice(1).map((column) => column.findLast((value) => value !== null && value !== undefined));
  return html`<figure class="chart"><figcaption>${title}</figcaption>
    <div ref=${host} class="plot" role="img" data-testid=${testid} data-points=${points} aria-label=${`${title}; ${points} points, the last: ${last.map(number).join(", ")}`}></div></figure>`;
}

function options(build, width, sync, latest) {
  const lines = { stroke: css("--line"), width: 1 }; // of the grid, and the ticks
  const muted = css("--muted");
  const made = build();
  return {
    width, height: HEIGHT, legend: { live: true, show: true }, padding: [8, 28, 0, 0],
    cursor: { sync: sync ? { key: sync } : undefined, drag: { x: true, y: false, setScale: !sync || sync === "live" }, points: { size: 5 } },
    axes: [
      { stroke: muted, grid: lines, ticks: lines, font: "11px system-ui", space: 64, values: (_, ticks, __, ___, step) => ticks.map((tick) => moment(tick, step)) },
      { stroke: muted, grid: { ...lines, ...made.axis }, ticks: { ...lines, ...made.axis }, font: "11px system-ui", size: 52, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick))) },
    ],
    scales: { x: { time: true }, y: made.scale || {} },
    series: [{ label: "UTC", value: (_, at) => (at === null ? "–" : new Date(at * 1000).toISOString().slice(11, 19)) }, ...made.series],
    bands: made.bands || [],
    tzDate: (at) => globalThis.uPlot.tzDate(new Date(at * 1e3), "UTC"),
    hooks: {
      drawClear: [(chart) => hatch(chart, latest.current.gaps)],
      draw: [(chart) => mark(chart, latest.current.markers)],
      setSelect: [(chart) => {
        const { left, width: wide } = chart.select;
        if (wide > 4 && latest.current.onZoom) latest.current.onZoom(chart.posToVal(left, "x"), chart.posToVal(left + wide, "x"));
        if (latest.current.onZoom) chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }],
    },
  };
}

// UTC on the axis: the time of day, or the day where steps are as long as that.
function moment(at, step) {
  const text = new Date(at * 1e3).toISOString();
  return step >= 86400 ? text.slice(5, 10) : step < 60 ? text.slice(11, 19) : text.slice(11, 16);
}

// Where nothing was recorded the ground is hatched: no data is not the same as no tasks.
function hatch(chart, gaps) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = fade(css("--off"), 0.35);
  ctx.beginPath();
  for (const [from, to] of gaps) {
    const left = Math.max(bbox.left, chart.valToPos(from, "x", true));
    const right = Math.min(bbox.left + bbox.width, chart.valToPos(to, "x", true));
    if (!(right > left)) continue;
    ctx.save();
    ctx.rect(left, bbox.top, right - left, bbox.height);
    for (let x = left - bbox.height; x < right; x += 9) {
      ctx.moveTo(Math.max(x, left), bbox.top + bbox.height - Math.max(0, left - x));
      ctx.lineTo(Math.min(x + bbox.height, right), bbox.top + Math.max(0, x + bbox.height - right));
    }
    ctx.restore();
  }
  ctx.stroke();
  ctx.restore();
}

function mark(chart, markers) {
  const { ctx, bbox } = chart;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.strokeStyle = css("--muted");
  ctx.fillStyle = css("--muted");
  ctx.font = `${10 * ratio}px system-ui`;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  let free = -Infinity;
  for (const { at, text } of markers) {
    const x = chart.valToPos(at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (x < free) continue;
    ctx.fillText(text, x + 3 * ratio, bbox.top + 10 * ratio);
    free = x + ctx.measureText(text).width + 8 * ratio;
  }
  ctx.restore();
}

// --- what each chart is made of ------------------------------------------------------------------------------------

const shown = (unit) => (_, value) => (value === null || value === undefined ? "–" : `${number(value)}${unit}`);

// On a logarithmic axis lines at the powers of ten alone: nine a decade would hide what is drawn over them.
export const decades = (_, splits) => splits.map((at) => (/^[0.]*1[0.]*$/.test(at) ? at : null));

// Columns: p50, p90, p99 in ms.
export const latency = () => {
  const hue = css("--ok");
  return {
    scale: { distr: 3, log: 10 },
    axis: { filter: decades },
    series: [
      { label: "p50", stroke: hue, width: 2, points: { show: false }, value: shown(" ms") },
      { label: "p90", stroke: fade(hue, 0.5), width: 1, points: { show: false }, value: shown(" ms") },
      { label: "p99", stroke: fade(hue, 0.35), width: 1, points: { show: false }, value: shown(" ms") },
    ],
    bands: [{ series: [3, 2], fill: fade(hue, 0.14) }, { series: [2, 1], fill: fade(hue, 0.3) }],
  };
};

export const throughput = () => ({
  scale: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] },
  series: [
    { label: "accepted", stroke: css("--muted"), width: 1, dash: [4, 3], points: { show: false }, value: shown("/s") },
    { label: "replied", stroke: css("--ok"), width: 2, points: { show: false }, value: shown("/s") },
  ],
});

// Columns: cumulated sums, the whole first, so that each bar is drawn over the one that contains it; see `stack`.
export const errors = () => {
  const fills = { late: css("--warn"), lost: css("--bad"), failed: css("--failed"), refused: css("--refused"), caller: css("--caller") };
  return {
    scale: { range: (_, low, high) => [0, Math.max(high || 0, 1) * 1.1] },
    series: [...FAMILIES].reverse().map((name, place) => ({
      label: name, stroke: fills[name], fill: fills[name], width: 0, points: { show: false }, paths: globalThis.uPlot.paths.bars({ size: [0.8, 14] }),
      value: (chart, value, series, index) => (index === null || value === null || value === undefined ? "–" : number(value - (chart.data[place + 2]?.[index] ?? 0))),
    })),
  };
};

// Points of a few seconds, summed to bars of a minute; a minute of which nothing is known stays a gap.
export function byMinute(times, families) {
  const last = Math.floor((times.at(-1) ?? 0) / 60) * 60;
  const minutes = Array.from({ length: 15 }, (_, index) => last - 60 * (14 - index));
  const place = new Map(minutes.map((at, index) => [at, index]));
  const sums = Object.fromEntries(FAMILIES.map((name) => [name, new Array(minutes.length).fill(null)]));
  times.forEach((at, index) => {
    const minute = place.get(Math.floor(at / 60) * 60);
    for (const name of FAMILIES) {
      const value = families[name]?.[index];
      if (minute !== undefined && value !== null && value !== undefined) sums[name][minute] = (sums[name][minute] ?? 0) + value;
    }
  });
  return stack(minutes, sums);
}

export function stack(times, families) {
  const sums = FAMILIES.map(() => new Array(times.length).fill(null));
  times.forEach((_, index) => {
    let sum = null;
    FAMILIES.forEach((name, place) => {
      const value = families[name]?.[index];
      if (value !== null && value !== undefined) sum = (sum ?? 0) + value;
      sums[place][index] = sum;
    });
  });
  return [times, ...sums.reverse()];
}

export const mean = (label) => () => ({
  scale: { range: (_, low, high) => [0, Math.max(high || 0, 0.001) * 1.1] },
  series: [{ label, stroke: css("--ok"), fill: fade(css("--ok"), 0.15), width: 1.5, points: { show: false }, value: shown(" ms") }],
});

// --- trend ------------------------------------------------------------------------------------------

// From rows of a gold table to what charts draw. Pure. A step of which there is no row is a gap, and stays one.

export const STEPS_US = { service_1m: 60e6, service_1h: 3600e6, service_1d: 86400e6 };

// The finest table that covers the period in a bounded number of points.
export function tableFor(fromUs, toUs) {
  const span = toUs - fromUs;
  if (span <= 8 * 3600e6) return "service_1m";
  return span <= 21 * 86400e6 ? "service_1h" : "service_1d";
}

const SUMS = ["count", "replied", "errors", "failed", "refused", "late", "lost", "over_limit", "queue_us", "worker_us", "network_us", "network_count"];
const WORST = ["p50_us", "p90_us", "p99_us"];

// { times, accepted, replied, p50, p90, p99, families, queue, worker, network, gaps }; times and gaps in s, waits in ms, rates per s.
export function series(columns, stepUs) {
  const starts = (columns.minute_us || columns.hour_us || (columns.day || []).map((day) => Date.parse(day) * 1e3)).map(Number);
  const steps = new Map();
  starts.forEach((start, index) => {
    const sum = steps.get(start) || {};
    for (const key of SUMS) if (columns[key]) sum[key] = (sum[key] || 0) + (columns[key][index] || 0);
    for (const key of WORST) sum[key] = Math.max(sum[key] ?? 0, columns[key]?.[index] ?? 0) || null;
    steps.set(start, sum);
  });
  const made = { times: [], accepted: [], replied: [], p50: [], p90: [], p99: [], families: Object.fromEntries(FAMILIES.map((name) => [name, []])), queue: [], worker: [], network: [], gaps: [] };
  if (steps.size === 0) return made;
  const [first, last] = [Math.min(...steps.keys()), Math.max(...steps.keys())];
  for (let start = first; start <= last; start += stepUs) add(made, start / 1e6, steps.get(start), stepUs / 1e6);
  return made;
}

function add(made, at, sum, step) {
  made.times.push(at);
  const accepted = sum ? sum.count - sum.refused : null;
  made.accepted.push(sum ? accepted / step : null);
  made.replied.push(sum ? sum.replied / step : null);
  for (const key of WORST) made[key.slice(0, -3)].push(sum?.[key] ? sum[key] / 1e3 : null);
  const { late, lost, failed = 0, over_limit: refused } = sum || {};
  const told = sum && { late, lost, failed, refused, caller: Math.max(0, sum.errors + sum.refused - late - lost - refused) };
  for (const name of FAMILIES) made.families[name].push(told?.[name] ?? null);
  made.queue.push(accepted ? sum.queue_us / accepted / 1e3 : null);
  made.worker.push(accepted ? sum.worker_us / accepted / 1e3 : null);
  made.network.push(sum?.network_count ? sum.network_us / sum.network_count / 1e3 : null);
  if (sum) return;
  const open = made.gaps.at(-1);
  if (open && open[1] === at) open[1] = at + step;
  else made.gaps.push([at, at + step]);
}

// --- trends ------------------------------------------------------------------------------------------

// What changed? From the gold tables: throughput, latency, errors, where time goes. A drag zooms, cursors move together.

const SPANS = { "3h": 3 * 3600e6, "24h": 86400e6, "7d": 7 * 86400e6, "60d": 60 * 86400e6 };
const MARKED = { config_apply: "config", config_rollback: "rollback", drain: "drain", handover: "handover", takeover: "fail-over", failback: "failback", disable: "disable" };

export function Trends() {
  const { params } = route.value;
  const span = SPANS[params.span] ? params.span : "3h";
  const [told, setTold] = useState(null);
  const [markers, setMarkers] = useState([]);
  useEffect(() => {
    let isWanted = true;
    const to = Number(params.to) || Date.now() * 1e3;
    const from = Number(params.from) || to - SPANS[span];
    const table = tableFor(from, to);
    api.trends({ table, service: params.service || "", from: digits(from), to: digits(to) })
      .then((answer) => isWanted && setTold({ ...answer, table, from, to })).catch((error) => isWanted && setTold({ error }));
    api.listing("events", { limit: 1000 }).then((answer) => isWanted && setMarkers(marksOf(answer.rows))).catch(() => {});
    return () => { isWanted = false; };
  }, [params.service, params.from, params.to, span]);
  const services = [...new Set([...(overview.value?.services || []).map((row) => row.name), ...(params.service ? [params.service] : [])])].sort();
  return html`<div class="screen trends"><section class="list" aria-label="Trends"><div class="tools"><h1>Trends</h1>
      <${Tabs} label="Period" value=${params.from ? "zoom" : span} choose=${(key) => adjust({ span: key, from: "", to: "" })} of=${[...Object.keys(SPANS).map((key) => [key, key]), ...(params.from ? [["zoom", "zoomed"]] : [])]} />
      <label class="inline">Service <select data-testid="trend-service" value=${params.service || ""} onChange=${(event) => adjust({ service: event.currentTarget.value })}><option value="">all</option>${services.map((name) => html`<option value=${name}>${visible(name)}</option>`)}</select></label>
      ${params.from ? html`<button type="button" data-testid="zoom-out" onClick=${() => adjust({ from: "", to: "" })}>Zoom out</button>` : null}</div>
    <div class="scroll"><${Body} told=${told} markers=${markers} service=${params.service} /></div></section></div>`;
}

const digits = (us) => String(Math.round(us));
const isLight = () => theme.value === "light" || (theme.value === "auto" && matchMedia("(prefers-color-scheme: light)").matches);
const marksOf = (rows) => rows.map((row) => ({ at: Date.parse(row.at) / 1e3, text: MARKED[row.command] || (["config", "fail-over", "takeover"].includes(row.kind) ? row.kind : "") })).filter((one) => one.text && one.at).sort((a, b) => a.at - b.at);

function Unread({ error }) {
  const cure = cureOf(error.cure);
  return html`<${Empty} text=${`Trends are drawn from what was recorded, and ${visible(error.message)}.${cure.text ? ` To mend it, ${visible(cure.text)}:` : ""}`} command=${cure.command} />`;
}

function Body({ told, markers, service }) {
  const made = useMemo(() => (told?.columns ? series(told.columns, STEPS_US[told.table]) : null), [told]);
  if (!told) return html`<p class="waiting">Reading the tables …</p>`;
  if (told.error) return html`<${Unread} error=${told.error} />`;
  if (made.times.length === 0) return html`<${Empty} text=${`Nothing was recorded between ${utcOfMicros(told.from)} and ${utcOfMicros(told.to)} UTC. Make the tables up to now:`} command="scale0 pipeline run --once" />`;
  const zoom = (from, to) => adjust({ from: digits(from * 1e6), to: digits(to * 1e6) }, true);
  const common = { sync: "trends", onZoom: zoom, gaps: made.gaps, markers };
  const of = service ? "" : ", the slowest service of each step";
  return html`<p><${Completeness} share=${told.completeness} lost=${told.lost} /></p>
    <div class="halves charts">
    <${Chart} title="Tasks / s: accepted and replied" testid="chart-throughput" data=${[made.times, made.accepted, made.replied]} build=${throughput} ...${common} />
    <${Chart} title=${`Latency ms${of}`} testid="chart-latency" data=${[made.times, made.p50, made.p90, made.p99]} build=${latency} ...${common} />
    <${Chart} title="Errors by family" testid="chart-errors" data=${stack(made.times, made.families)} build=${errors} ...${common} />
    <${Chart} title="Mean wait in the queue ms" testid="chart-queue" data=${[made.times, made.queue]} build=${mean("queue")} ...${common} />
    <${Chart} title="Mean time in workers ms" testid="chart-worker" data=${[made.times, made.worker]} build=${mean("worker")} ...${common} />
    <${Chart} title="Mean time on the network ms" testid="chart-network" data=${[made.times, made.network]} build=${mean("network")} ...${common} />
    ${told.to - told.from <= 8 * 86400e6 ? html`<figure class="chart"><figcaption>Latency of every task</figcaption><img class="plot" data-testid="chart-heat" alt="Heat map of latency over time" src=${api.heatMap({ service, from: digits(told.from), to: digits(told.to), theme: isLight() ? "light" : "" })} /></figure>` : null}</div>
    ${made.gaps.length ? html`<p class="muted">Hatched: nothing was recorded.</p>` : null}
    <${CommandLine}>${`scale0 pipeline report --out report.html`}<//>`;
}
