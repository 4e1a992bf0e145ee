// A task's life as a Gantt: a row an attempt; bars for the queue, the worker and the network; whiskers where a time comes from
// another machine's clock and is known only to within its error. `bars` is pure.
import { html, useEffect, useRef, useState } from "./lib.js";
import { Actions, brokerActions, errorClientActions, letterActions, run, taskActions, whyOff, workerActions } from "./actions.js";
import * as api from "./api.js";
import { lineOf, mebibytes, millis, number, problemsOf, signedMillis, span, utc, visible } from "./format.js";
import { CommandLine, Facts, Name, Names, State, cureOf } from "./parts.js";
import { adjust, beat, documents, events, me, route, write } from "./state.js";

const WIDE = 400;
const ROW = 26;
const LEFT = 96;

// [{ label, bars: [{ part, from, to }], whisker: { at, error } | null }], in µs since the broker received it.
export function bars(life) {
  const main = life.rows?.find((row) => row.role !== "relay") || life.rows?.[0];
  const end = life.latency_us;
  if (!main) return [{ label: "whole", bars: [{ part: "worker", from: 0, to: end }], whisker: null }];
  const at = (us) => us - life.received_us;
  const rows = [];
  let before = 0;
  for (const attempt of main.attempts || []) {
    const [from, to] = [at(attempt.dispatched_us), at(attempt.ended_us ?? attempt.dispatched_us)];
    rows.push({ label: attempt.via || attempt.worker, bars: solid([["queue", before, from], ["lost", from, to]]), whisker: null });
    before = to;
  }
  if (main.dispatched_us === null || main.dispatched_us === undefined) return [...rows, { label: "queue", bars: solid([["queue", before, end]]), whisker: null }];
  return [...rows, lastAttempt(main, at, before, end)];
}

function lastAttempt(main, at, before, end) {
  const from = at(main.dispatched_us);
  const label = main.via || main.worker || "?";
  const isTold = main.worker_us !== null && main.worker_us !== undefined && main.worker_offset_us !== null && main.worker_offset_us !== undefined;
  if (!isTold) return { label, bars: solid([["queue", before, from], ["worker", from, end]]), whisker: null };
  const replied = Math.min(Math.max(at(main.worker_us - main.worker_offset_us), from), end);
  const began = Math.max(replied - (main.work_us || 0) - (main.wait_us || 0), from);
  const error = main.worker_error_us;
  return {
    label, bars: solid([["queue", before, from], ["network", from, began], ["worker", began, replied], ["network", replied, end]]),
    whisker: error ? { at: replied, error } : null,
  };
}

const solid = (parts) => parts.filter(([, from, to]) => to > from).map(([part, from, to]) => ({ part, from, to }));

export function Gantt({ life }) {
  const rows = bars(life);
  const [unit, divisor] = life.latency_us >= 1e6 ? ["s", 1e6] : ["ms", 1e3];
  const x = (us) => LEFT + (Math.min(Math.max(us, 0), life.latency_us) / Math.max(life.latency_us, 1)) * (WIDE - LEFT - 8);
  const time = (us) => (us === null ? "–" : `${us < 0 ? "−" : "+"}${Math.abs(us / divisor).toFixed(3)}`);
  return html`<div class="gantt" data-testid="gantt">
    <p><b>${life.code} ${visible(life.service)}</b> ${number(life.latency_us / divisor)} ${unit}, ${visible(life.record || "")}</p>
    ${life.cause ? html`<p>Cause: ${visible(life.cause)}</p>` : null}
    <svg viewBox=${`0 0 ${WIDE} ${rows.length * ROW + 18}`} role="img" aria-label=${`${rows.length} attempts; ${(life.shares || []).map((one) => `${one.part} ${Math.round(one.share * 100)} %`).join(", ")}`}>
      ${rows.map((row, index) => html`<g key=${index}>
        <text x="0" y=${index * ROW + 17}>${visible(row.label).slice(0, 14)}</text>
        ${row.bars.map((bar) => html`<rect class=${`part ${bar.part}`} x=${x(bar.from)} y=${index * ROW + 6} width=${Math.max(x(bar.to) - x(bar.from), 1)} height="14"><title>${`${bar.part} ${number((bar.to - bar.from) / divisor)} ${unit}`}</title></rect>`)}
        ${row.whisker ? html`<path class="whisker" d=${`M${x(row.whisker.at - row.whisker.error)} ${index * ROW + 9}v8m0 -4H${x(row.whisker.at + row.whisker.error)}m0 -4v8`} />` : null}</g>`)}
      <text class="axis" x=${LEFT} y=${rows.length * ROW + 14}>0</text><text class="axis" x=${WIDE - 8} y=${rows.length * ROW + 14} text-anchor="end">${number(life.latency_us / divisor)} ${unit}</text>
    </svg>
    <p class="legend">${(life.shares || []).map((one) => html`<span><i class=${`part ${one.part === "lost attempts" ? "lost" : one.part}`}></i>${one.part} ${number(one.us / divisor)} ${unit} (${Math.round(one.share * 100)} %)</span> `)}</p>
    <ol class="steps">${(life.steps || []).map((step) => html`<li><span class="num">${time(step.at_us)}${step.error_us ? ` ±${(step.error_us / divisor).toFixed(3)}` : ""}</span> ${visible(step.text)}</li>`)}</ol></div>`;
}

// --- drawer ------------------------------------------------------------------------------------------

// The drawer on the right: what is known of the row that is selected. Its row comes from the stream while it is among the
// streamed ones, else from the API, once a snapshot.

export function Drawer({ topic, keyOf, title, children }) {
  const chosen = route.value.params.sel;
  const row = useRow(topic, keyOf, chosen);
  if (!chosen) return null;
  return html`<aside class="drawer" data-testid="drawer" data-key=${chosen} aria-label=${`${title} ${visible(chosen)}`}>
    <header><h2><span class="muted">${title}</span> <span class="name">${visible(chosen)}</span></h2>
      <button type="button" class="quiet" aria-label="Close" data-testid="drawer-close" onClick=${() => adjust({ sel: "" }, true)}>×</button></header>
    <div class="inside">${row === undefined ? html`<p class="muted">…</p>` : row === null ? html`<p data-testid="drawer-missing">It is not in the listing any more.</p>` : children(row)}</div></aside>`;
}

// undefined: not known yet; null: not there.
function useRow(topic, keyOf, chosen) {
  const [fetched, setFetched] = useState({ key: undefined, row: undefined });
  const streamed = chosen === undefined ? undefined : documents.value[topic]?.rows?.find((row) => keyOf(row) === chosen);
  useEffect(() => {
    if (!chosen || streamed || !documents.value[topic]) return undefined;
    let isWanted = true;
    const filter = `id:"${chosen.replace(/["[\]*?]/g, "?")}"`.slice(0, 400);
    api.listing(topic, { filter, limit: 20 }).then((told) => {
      if (isWanted) setFetched({ key: chosen, row: told.rows.find((row) => keyOf(row) === chosen) ?? null });
    }).catch((error) => { if (isWanted && error.code >= 400 && error.code < 500) setFetched({ key: chosen, row: null }); });
    return () => { isWanted = false; };
  }, [topic, chosen, Boolean(streamed), beat.value]);
  if (streamed) return streamed;
  return fetched.key === chosen ? fetched.row : undefined;
}

const SAMPLES_MAX = 120;

// What a figure of the selected row did while the drawer was open, a sample a snapshot.
export function Trace({ of, label, most }) {
  const samples = useRef([]);
  const last = useRef(null);
  if (last.current !== beat.value) {
    last.current = beat.value;
    samples.current = [...samples.current, of ?? null].slice(-SAMPLES_MAX);
  }
  const top = Math.max(most || 0, ...samples.current.map((value) => value ?? 0), 1e-9);
  const points = samples.current.map((value, index) => (value === null ? "" : `${((index + SAMPLES_MAX - samples.current.length) * 300) / SAMPLES_MAX},${34 - (value / top) * 30}`)).filter(Boolean).join(" ");
  return html`<figure class="trace"><figcaption>${label}</figcaption><svg viewBox="0 0 300 36" role="img" aria-label=${`${label}, since this was opened`} preserveAspectRatio="none"><polyline points=${points} /></svg></figure>`;
}

// --- details ------------------------------------------------------------------------------------------

// What the drawer shows of a broker, a service, a worker, a client, a task, a dead letter, an ignored connection.

const Problems = ({ topic, row }) => {
  const found = problemsOf(topic, row);
  return found.length ? html`<ul class="problems">${found.map(([fill, word]) => html`<li><${State} state=${row.state} fill=${fill} word=${word} /></li>`)}</ul>` : null;
};

const Link = ({ to, params, children }) => html`<a class="elsewhere" href=${write(to, params)}>${visible(children)}</a>`;

// What happened to it lately, from the events that this page has seen.
function History({ of }) {
  const told = events.value.filter((row) => row.target === of || row.actor === of).slice(0, 12);
  if (told.length === 0) return null;
  return html`<h3>Lately</h3><ul class="history">${told.map((row) => html`<li><span class="muted">${utc(row.at)}</span> ${visible(row.command || row.kind)} ${visible(row.result ?? "")}</li>`)}</ul>`;
}

export const Broker = (row) => html`<${Problems} topic="network" row=${row} /><${Actions} of=${brokerActions(row)} />
  <${Facts} of=${[
    ["State", html`<${State} state=${row.state} />`], ["Group", row.group], ["Role in its pair", row.star], ["Fallback broker", row.fallback_broker],
    ["Fallback", row.fallback], ["Fallback groups", html`<${Names} of=${row.fallback_groups} />`], ["Epoch", number(row.epoch)], ["Workers", number(row.workers)],
    ["Clients", number(row.clients)], ["Queued", number(row.queued)], ["Link", row.link && html`<${State} state=${row.link} />`], ["Heard", row.is_self ? "it is this broker" : span(row.heard_us)],
    ["Forwarded to it", number(row.forwarded)], ["Received from it", number(row.received)], ["Config", row.config_version], ["Sequences the config", row.is_sequencer ? "yes" : "no"],
    ["Endpoints", html`<${Names} of=${row.endpoints} />`], ["CPU %", number(row.cpu_percent)],
    ["Memory MiB", mebibytes(row.rss_bytes)], ["Connections", number(row.connections)],
  ]} />
  <h3>Services there</h3><${Names} of=${Object.entries(row.services || {}).map(([name, count]) => `${name} (${count})`)} />
  <${History} of=${row.identity} />`;

export const Service = (row) => html`<${Problems} topic="services" row=${row} />
  ${row.state === "no worker" ? html`<p>No worker serves <${Name}>${row.name}<//>. Start one:</p><${CommandLine}>scale0 worker module:app<//>` : null}
  <${Facts} of=${[
    ["State", html`<${State} state=${row.state} />`], ["Workers", html`<${Link} to="workers" params=${{ filter: `svc:${row.name}` }}>${number(row.workers)}<//>`],
    ["Free / capacity", `${number(row.free)}/${number(row.capacity)}`], ["Queued", number(row.queued)], ["Oldest", span(row.oldest_us)], ["Tasks / s", number(row.tasks_per_s)],
    ["p50 · p99", `${millis(row.p50_us)} · ${millis(row.p99_us)} ms`], ["Errors in 5 min", number(row.errors_5m)],
    ...Object.entries(row.errors_by_family || {}).map(([family, count]) => [`  ${family}`, number(count)]),
    ["Idempotent", row.idempotent ? "yes: a lost task is tried again" : "no: a lost task is an error"], ["Attempts at most", number(row.max_attempts)],
  ]} />
  <${Trace} of=${row.queued} label="Queued" /><${Trace} of=${row.tasks_per_s} label="Tasks / s" />
  <h3>Test task</h3><${TestTask} key=${row.name} service=${row.name} />`;

function TestTask({ service }) {
  const [body, setBody] = useState("null");
  const [limit, setLimit] = useState("5");
  const [answer, setAnswer] = useState(null);
  const [isUnderWay, setUnderWay] = useState(false);
  const mayCall = me.value?.services === null || me.value?.services === undefined || me.value.services.some((one) => one === service || one === "*");
  const off = whyOff("test_task") || (mayCall ? "" : `your account may not call ${service}`);
  const args = { service, body, timeout_s: Number(limit) || 5 };
  const send = async (event) => {
    event.preventDefault();
    setUnderWay(true);
    setAnswer(null);
    const told = await run({ name: "test_task", verb: "Test", object: service, args });
    setAnswer(told);
    setUnderWay(false);
  };
  return html`<form class="test" onSubmit=${send}>
    <label>Body, as JSON<textarea rows="2" data-testid="test-body" spellcheck=${false} value=${body} onInput=${(event) => setBody(event.currentTarget.value)}></textarea></label>
    <label>Time limit s<input type="number" min="0.1" max="60" step="any" value=${limit} onInput=${(event) => setLimit(event.currentTarget.value)} /></label>
    <button type="submit" data-testid="action-test_task" disabled=${Boolean(off) || isUnderWay}>${isUnderWay ? "◒ " : ""}Send a test task${off ? html` <span class="why">${off}</span>` : null}</button>
    <${CommandLine}>${lineOf("test_task", args)}<//>
    ${answer ? html`<${TestAnswer} of=${answer} />` : null}</form>`;
}

function TestAnswer({ of: told }) {
  if (told instanceof api.Refusal) return html`<p class="wrong" data-testid="test-answer">${told.code} ${visible(told.message)}</p>`;
  const result = told.result || {};
  return html`<div data-testid="test-answer"><${Facts} of=${[
    ["Answer", html`<${State} state=${result.code < 400 ? "done" : "failed"} word=${`${result.code} ${result.text || ""}`} />`],
    ["Took", result.duration_us === undefined ? null : `${millis(result.duration_us)} ms`], ["Worker", result.worker && visible(result.worker)]]} />
    <pre>${visible(typeof result.body === "string" ? result.body : JSON.stringify(result.body))}</pre></div>`;
}

export const Worker = (row) => html`<${Problems} topic="workers" row=${row} /><${Actions} of=${workerActions(row)} />
  <${Facts} of=${[
    ["State", html`<${State} state=${row.state} />`], ["Services", html`<${Names} of=${row.services} />`], ["Place in the LRU queue", number(row.lru)], ["Busy / capacity", `${number(row.busy)}/${number(row.capacity)}`],
    ["Heartbeat age", span(row.heartbeat_age_us)], ["Heartbeat interval", span(row.heartbeat_interval_us)], ["Config", row.config_version], ["Clock, against the broker's", row.clock_offset_us === null ? null : `${signedMillis(row.clock_offset_us)} ms`],
    ["p99", row.p99_us === undefined ? undefined : `${millis(row.p99_us)} ms`], ["Sessions / h", number(row.sessions_per_h)], ["Connected", row.connected_us === undefined ? undefined : span(row.connected_us)], ["Dispatched", number(row.dispatched)], ["Stuck tasks", number(row.stuck)],
    ["Broker", row.broker && html`<${Link} to="brokers" params=${{ sel: row.broker }}>${row.broker}<//>`], ["Process", row.process && visible(typeof row.process === "string" ? row.process : JSON.stringify(row.process))],
    ["Dialect", row.dialect], ["Key", row.key ? html`<span class="name wrap">${row.key}</span>` : "none: not encrypted"],
  ]} />
  <${Trace} of=${row.busy} label="Busy" most=${row.capacity} /><${Trace} of=${row.heartbeat_age_us === null ? null : row.heartbeat_age_us / 1e6} label="Heartbeat age s" />
  <h3>Tasks in flight</h3>${row.tasks?.length ? html`<ul class="history">${row.tasks.map((id) => html`<li><${Link} to="tasks" params=${{ sel: id }}>${id}<//></li>`)}</ul>` : html`<p class="muted">none</p>`}
  <${History} of=${row.identity} />`;

export const Client = (row) => html`<${Problems} topic="clients" row=${row} /><${Facts} of=${[
    ["In flight", number(row.open_tasks)], ["Tasks / s", number(row.tasks_per_s)], ["Errors in 5 min", number(row.errors_5m)], ["Of its limit", row.limit_percent === undefined || row.limit_percent === null ? null : `${number(row.limit_percent)} %`],
    ["Outcomes kept for it", number(row.outcomes_kept)], ["Heard", span(row.heard_us)], ["Config", row.config_version], ["Clock, against the broker's", row.clock_offset_us === null ? null : `${signedMillis(row.clock_offset_us)} ms`],
    ["Dialect", row.dialect], ["Key", row.key ? html`<span class="name wrap">${row.key}</span>` : "none: not encrypted"],
  ]} /><p><${Link} to="tasks" params=${{ filter: `client:${row.identity}` }}>Its tasks<//></p><${History} of=${row.identity} />`;

export const Ignored = (row) => html`<${Actions} of=${errorClientActions(row)} /><${Facts} of=${[
  ["Penalty left", span(row.penalty_us)], ["Bad messages, decaying", number(row.bad)], ["Ignored since", number(row.ignored)], ["Reason", row.reason && visible(row.reason)]]} />`;

export const Task = (row) => html`<${Actions} of=${taskActions(row)} /><${Facts} of=${[
    ["State", html`<${State} state=${row.state} />`], ["Service", html`<${Link} to="services" params=${{ sel: row.service }}>${row.service}<//>`], ["Client", html`<${Link} to="clients" params=${{ sel: row.client }}>${row.client}<//>`],
    ["Age", span(row.age_us)], ["Deadline in", span(row.deadline_us)], ["Attempt", number(row.attempt)], ["Worker", row.worker && html`<${Link} to="workers" params=${{ sel: row.worker }}>${row.worker}<//>`],
    ["Priority", number(row.priority)], ["Bytes", number(row.bytes)],
  ]} /><${Why} key=${row.id} task=${row.id} />`;

export const Letter = (row) => html`<${Actions} of=${letterActions(row)} /><${Facts} of=${[
    ["Answer", html`<${State} state="failed" word=${`${row.code} ${row.text}`} />`], ["Service", html`<${Link} to="services" params=${{ sel: row.service }}>${row.service}<//>`], ["Client", row.client && visible(row.client)],
    ["Attempts", number(row.attempts)], ["Died", `${utc(row.died_at)} UTC`], ["Bytes", number(row.bytes)],
  ]} /><${Why} key=${row.id} task=${row.id} />`;

// The task's life from the record, drawn; or which command makes it known.
function Why({ task }) {
  const [life, setLife] = useState(null);
  useEffect(() => {
    let isWanted = true;
    api.why(task).then((told) => isWanted && setLife(told)).catch((error) => isWanted && setLife(error));
    return () => { isWanted = false; };
  }, [task]);
  if (life === null) return html`<h3>Why</h3><p class="muted">…</p>`;
  if (life instanceof api.Refusal) {
    const cure = cureOf(life.cure);
    return html`<h3>Why</h3><p class="muted" data-testid="why-missing">${visible(life.message)}${cure.text ? `; ${visible(cure.text)}` : ""}</p><${CommandLine}>${cure.command || `scale0 why ${task}`}<//>`;
  }
  return html`<h3>Why</h3><${Gantt} life=${life} /><${CommandLine}>${`scale0 why ${task}`}<//>`;
}

