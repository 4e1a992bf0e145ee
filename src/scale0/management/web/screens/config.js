// What runs, who lags? Versions on the left, of which two can be compared; a document that is edited here is checked by the
// broker, shown as what it would change, and only then applied.
import { html, useEffect, useState } from "../lib.js";
import { begin, whyOff } from "../actions.js";
import * as api from "../api.js";
import { diff, lineOf, number, plural, span, utcOfMicros, version, visible } from "../format.js";
import { CommandLine, Empty, Names, State } from "../parts.js";
import { adjust, areActionsOff, beat, documents, me, overview, route } from "../state.js";

export function Config() {
  const rows = documents.value.config_history?.rows;
  const [current, setCurrent] = useState(null);
  useEffect(() => { api.listing("config").then((told) => setCurrent(told.rows[0] || null)).catch(() => {}); }, [Math.floor(beat.value / 3), rows?.[0]?.version]);
  if (!rows) return html`<p class="waiting">Waiting for the first snapshot …</p>`;
  if (rows.length === 0) return html`<${Empty} text="No version yet. Write a document and apply it:" command="scale0 config apply network.toml" />`;
  const isEditing = route.value.params.view === "edit";
  return html`<div class="screen config"><section class="list" aria-label="Config"><div class="tools"><h1>Config</h1><${Reach} current=${current} /></div>
    <div class="halves"><${Versions} rows=${rows} />${isEditing ? html`<${Editor} key="editor" row=${rows[0]} />` : html`<${Compare} rows=${rows} />`}</div></section></div>`;
}

// v42 current: 5/6 brokers, 50/51 workers
function Reach({ current }) {
  if (!current) return null;
  const behind = current.behind || [];
  const unknown = current.unknown || [];
  const counts = overview.value?.counts || {};
  const brokers = current.brokers || 1;
  const late = counts.workers_behind;
  const workers = counts.workers !== undefined && late !== undefined ? `, ${number(counts.workers - late)}/${number(counts.workers)} workers` : "";
  return html`<p data-testid="config-reach"><${State} state=${behind.length ? "behind" : "current"} word=${`${version(current.version)} current: ${brokers - behind.length - unknown.length}/${brokers} brokers${workers}`} />
    ${behind.length ? html` · behind: <${Names} of=${behind} />` : null}${unknown.length ? html` · not heard: <${Names} of=${unknown} />` : null}
    ${late ? html` · <a href="#/workers?filter=is_behind:true">${plural(late, "worker")} behind</a>` : null}</p>`;
}

const shortOf = (row) => version(row.version);

function Versions({ rows }) {
  const picked = pickedOf(rows);
  const pick = (row) => {
    const others = picked.filter((one) => one !== row.version);
    const next = picked.includes(row.version) ? others : [...others.slice(-1), row.version];
    adjust({ sel: next.join(","), view: "" });
  };
  const now = Date.now() * 1e3;
  return html`<div class="versions"><table aria-label="Versions"><thead><tr><th scope="col">Pick two</th><th scope="col">Version</th><th scope="col">State</th><th scope="col">Author</th><th scope="col">Age</th><th scope="col" class="wide">Comment</th><th scope="col"><span class="hidden">Do</span></th></tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${row.version} data-testid="config-row" data-key=${row.version} data-state=${row.state}>
      <td><input type="checkbox" aria-label=${`Compare ${shortOf(row)}`} checked=${picked.includes(row.version)} onChange=${() => pick(row)} /></td>
      <td title=${row.version}>${shortOf(row)} <span class="muted name">${String(row.version).split(".").slice(2).join(".").slice(0, 8)}</span></td><td><${State} state=${row.state} /></td><td>${visible(row.author || "–")}</td>
      <td title=${utcOfMicros(row.time_us)}>${row.time_us ? span(now - row.time_us) : "–"}</td><td class="wide">${visible(row.comment || "")}</td>
      <td>${index === 0 ? html`<button type="button" data-testid="action-config-edit" onClick=${() => adjust({ view: "edit" })}>Edit…</button>` : html`<${RollBack} row=${row} rows=${rows} />`}</td></tr>`)}</tbody></table></div>`;
}

function RollBack({ row, rows }) {
  const off = whyOff("config_rollback");
  const changes = rows[0].document && row.document ? diff(rows[0].document, row.document) : null;
  const wish = {
    name: "config_rollback", verb: "Roll back to", object: shortOf(row), args: { version: String(row.version) },
    effect: changes ? `${plural(changes.length, "key")} ${changes.length === 1 ? "changes" : "change"}; it becomes a new version.` : "Its document becomes a new version.", detail: changes ? html`<${Changes} of=${changes} />` : null,
  };
  return html`<button type="button" data-testid="action-config_rollback" disabled=${Boolean(off)} title=${off || undefined} onClick=${() => begin(wish)}>Roll back…${off ? html` <span class="why">${off}</span>` : null}</button>`;
}

// Those of the address; without any, the two newest.
function pickedOf(rows) {
  const asked = (route.value.params.sel || "").split(",").filter((one) => rows.some((row) => row.version === one));
  return asked.length ? asked : rows.slice(0, 2).map((row) => row.version);
}

function Compare({ rows }) {
  const picked = pickedOf(rows).map((one) => rows.findIndex((row) => row.version === one)).sort((a, b) => b - a);
  const [before, after] = picked.map((index) => rows[index]);
  if (!after) return html`<div class="panel"><h2>${shortOf(before)}</h2><${Document} row=${before} /></div>`;
  if (!before.document || !after.document) return html`<${Empty} text="One of these documents is too old to be shown." command="scale0 ctl config show --version N" />`;
  return html`<div class="panel" data-testid="config-diff"><h2>${shortOf(before)} → ${shortOf(after)}</h2><${Changes} of=${diff(before.document, after.document)} />
    <${CommandLine}>${`scale0 ctl config diff ${shortOf(before).slice(1)} ${shortOf(after).slice(1)}`}<//><details><summary>The document of ${shortOf(after)}</summary><${Document} row=${after} /></details></div>`;
}

const Document = ({ row }) => html`<pre tabindex="0" role="group" aria-label=${`Document of ${shortOf(row)}`}>${visibleLines(JSON.stringify(row.document, null, 2))}</pre>`;
const visibleLines = (text) => (text ?? "").split("\n").map(visible).join("\n");

function Changes({ of }) {
  if (of.length === 0) return html`<p class="muted" data-testid="no-changes">They are the same.</p>`;
  const known = overview.value?.brokers || [];
  return html`<table class="changes" aria-label="Changes"><thead><tr><th scope="col">Key</th><th scope="col">Before</th><th scope="col">After</th><th scope="col">Touches</th></tr></thead>
    <tbody>${of.map((one) => html`<tr key=${one.key} data-testid="change" data-key=${one.key}><td class="name">${visible(one.key)}</td><td>${one.before === undefined || one.before === null ? html`<i>not set</i>` : visible(one.before)}</td><td>${one.after === undefined || one.after === null ? html`<i>not set</i>` : visible(one.after)}</td><td>${one.touches ?? touched(one, known)}</td></tr>`)}</tbody></table>`;
}

// Whom a change concerns, from what is known of the network.
function touched(change, brokers) {
  for (const row of brokers) {
    const key = `broker.${row.identity}`;
    const moves = (change.key === key && change.after === undefined) || (change.key === `${key}.state` && change.after === "disabled");
    if (moves && row.workers) return html`<span class="glyph warn" aria-hidden="true">!</span> ${plural(row.workers, "worker")} move`;
  }
  const service = /^service\.(.+?)(\.[a-z_]+)?$/.exec(change.key)?.[1];
  const count = service ? brokers.reduce((sum, row) => sum + (row.services?.[service] || 0), 0) : 0;
  return count ? plural(count, "worker") : "";
}

function Editor({ row }) {
  const [base] = useState(row);
  const [text, setText] = useState(() => JSON.stringify(row.document, null, 2));
  const [comment, setComment] = useState("");
  const [checked, setChecked] = useState(null);
  const isOld = base.version !== row.version;
  const change = (event) => { setText(event.currentTarget.value); setChecked(null); };
  const check = async () => {
    try {
      const told = await api.command("config_check", { document: text }, "own", "");
      setChecked({ text, result: told.result, changes: changesOf(told.result, base.document, text) });
    } catch (error) {
      setChecked({ text, wrong: error });
    }
  };
  const isGood = checked && !checked.wrong && checked.text === text && checked.changes.length > 0;
  const off = whyOff("config_apply");
  const apply = () => begin({
    name: "config_apply", verb: "Apply config to", object: me.value.network || "the network", typed: me.value.network || me.value.broker,
    args: { document: text, base: base.version, ...(comment ? { comment } : {}) }, effect: `${plural(checked.changes.length, "key")} ${checked.changes.length === 1 ? "changes" : "change"}, for every broker, worker and client.`, detail: html`<${Changes} of=${checked.changes} />`,
  });
  return html`<div class="panel editor"><h2>Edit ${shortOf(base)}</h2>
    ${isOld ? html`<p class="wrong" role="alert">The config is at ${shortOf(row)} by now; what is applied from here will be refused. <button type="button" onClick=${() => adjust({ view: "" })}>Leave</button></p>` : null}
    <textarea data-testid="config-text" aria-label="Document, as JSON" spellcheck=${false} rows="24" value=${text} onInput=${change}></textarea>
    <label>Comment<input data-testid="config-comment" maxlength="200" value=${comment} onInput=${(event) => setComment(event.currentTarget.value)} /></label>
    <div class="choices"><button type="button" class="quiet" onClick=${() => adjust({ view: "" })}>Leave it as it is</button>
      <button type="button" data-testid="action-config_check" disabled=${areActionsOff.value} onClick=${check}>Check</button>
      <button type="button" class="danger" data-testid="action-config_apply" disabled=${!isGood || Boolean(off)} title=${off || (isGood ? undefined : "check it first")} onClick=${apply}>Apply…${off ? html` <span class="why">${off}</span>` : null}</button></div>
    <${CommandLine}>${lineOf("config_apply", { document: "", comment })}<//>
    ${checked?.wrong ? html`<p class="wrong" role="alert" data-testid="config-wrong">${visible(checked.wrong.message)}${checked.wrong.cure ? `: ${visible(checked.wrong.cure)}` : ""}</p>` : null}
    ${checked && !checked.wrong ? html`<div data-testid="config-checked"><h3>What it would change</h3><${Changes} of=${checked.changes} /></div>` : null}</div>`;
}

// The broker's own word on what changes; where it gives none, the comparison is made here.
function changesOf(result, before, text) {
  const told = result?.changes || result?.diff;
  if (!Array.isArray(told)) return diff(before, JSON.parse(text));
  return told.map((one) => ({ key: one.key, before: one.before ?? undefined, after: one.after ?? undefined, touches: one.affects ?? one.touches }));
}
