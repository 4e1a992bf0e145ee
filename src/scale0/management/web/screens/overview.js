// The login: by name and password, or by a one-time token that came in the address and was taken out of it at once.
import { html, useMemo, useState } from "../lib.js";
import * as api from "../api.js";
import { Chart, byMinute, errors, latency } from "../charts.js";
import { millis, number, seconds, visible } from "../format.js";
import { Empty, State } from "../parts.js";
import { SERVICES } from "./lists.js";
import { alarms, overview, write } from "../state.js";

export function Login({ enter, trouble }) {
  const [wrong, setWrong] = useState(trouble || "");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const password = event.currentTarget.elements.password;
    setBusy(true);
    setWrong("");
    try {
      await api.login(given.get("user"), given.get("password"));
      await enter();
    } catch (error) {
      setWrong(error.cure ? `${error.message}: ${error.cure}` : error.message);
      password.value = "";
      password.focus();
    }
    setBusy(false);
  };
  return html`<main class="login"><form onSubmit=${submit} data-testid="login"><h1>Scale0</h1>
    <label>User<input name="user" required autocomplete="username" autofocus autocapitalize="none" maxlength="128" /></label>
    <label>Password<input name="password" type="password" required autocomplete="current-password" maxlength="1024" /></label>
    <button type="submit" class="main" disabled=${isBusy}>Log in</button>
    ${wrong ? html`<p class="wrong" role="alert" data-testid="login-trouble">${wrong}</p>` : null}
    <p class="muted">No account yet? On the broker's machine:<br /><code>scale0 user add NAME</code></p></form></main>`;
}

// --- overview ------------------------------------------------------------------------------------------

// Is all well? The verdict is above every screen; here are the five figures, what is wrong and what to do, the worst services,
// and the last 15 minutes.

// The few columns of services that fit here.
const WANTED = ["Service", "State", "Queued", "Oldest s", "Tasks / s", "p99 ms", "Errors / 5 min"];
const columns = SERVICES.filter((column) => WANTED.includes(column.title));

const Figure = ({ title, unit, testid, children }) => html`<div class="figure" data-testid=${testid}><dt>${title}</dt><dd>${children} <span class="unit">${unit}</span></dd></div>`;

export function Overview() {
  const told = overview.value;
  if (!told) return html`<p class="waiting">Waiting for the first snapshot …</p>`;
  const figures = told.figures || {};
  return html`<div class="screen overview"><h1 class="hidden">Overview</h1>
    <dl class="figures">
      <${Figure} title="Tasks" unit="/s" testid="figure-tasks">${number(figures.tasks_per_s)}<//>
      <${Figure} title="p50 · p99" unit="ms" testid="figure-latency">${millis(figures.p50_us)} · ${millis(figures.p99_us)}<//>
      <${Figure} title="Queued · oldest" unit="s" testid="figure-queued">${number(figures.queued)} · ${seconds(figures.oldest_us)}<//>
      <${Figure} title="Errors" unit="/min" testid="figure-errors">${number(figures.errors_per_min)}<//>
      <${Figure} title="Free / capacity" unit="slots" testid="figure-free">${number(figures.free)}/${number(figures.capacity)}<//>
    </dl>
    <div class="halves"><${Alarms} /><${WorstServices} rows=${told.services || []} /></div>
    <${History} of=${told.history} />
  </div>`;
}

function Alarms() {
  const raised = alarms.value.filter((one) => one.state !== "cleared");
  return html`<section class="panel" aria-labelledby="alarms-title"><h2 id="alarms-title">Alarms</h2>
    ${raised.length === 0 ? html`<p class="muted" data-testid="no-alarms">None raised.</p>` : html`<ul class="alarms">${raised.map((one) => html`<li key=${`${one.name} ${one.subject}`} data-testid="alarm" data-name=${one.name}>
      <${State} state=${one.severity} word=${`${one.name}${one.subject ? ` ${one.subject}` : ""}`} />
      <p>${visible(one.cause)}</p><p class="cure">→ ${visible(one.cure)}${safeLink(one.link) ? html` · <a href=${safeLink(one.link)}>look</a>` : null}</p></li>`)}</ul>`}</section>`;
}

// Links lead within the page, whatever a broker says.
function safeLink(link) {
  if (typeof link !== "string" || !link) return "";
  if (link.startsWith("#/")) return link;
  return /^\/?[a-z]+(\?|$)/.test(link) ? `#/${link.replace(/^\//, "")}` : "";
}

function WorstServices({ rows }) {
  return html`<section class="panel" aria-labelledby="worst-title"><h2 id="worst-title">Services, the worst ${rows.length || ""}</h2>
    ${rows.length === 0 ? html`<${Empty} text="Nobody serves anything yet. Start a worker:" command="scale0 worker module:app" />` : html`<table aria-labelledby="worst-title"><thead><tr>${columns.map((one) => html`<th scope="col" class=${one.isNumber ? "num" : ""}>${one.title}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.name} data-testid="worst-row" data-key=${row.name} data-state=${row.state}>${columns.map((one) => html`<td class=${one.isNumber ? "num" : ""}>${one.isName ? html`<a href=${write("services", { sel: row.name })}>${visible(row.name)}</a>` : one.cell(row)}</td>`)}</tr>`)}</tbody></table>`}</section>`;
}

function History({ of: history }) {
  const times = useMemo(() => (history?.at_us || []).map((us) => us / 1e6), [history]);
  const waits = useMemo(() => [times, ...["p50_us", "p90_us", "p99_us"].map((key) => (history?.[key] || []).map((us) => (us ? us / 1e3 : null)))], [history]);
  const bars = useMemo(() => byMinute(times, { ...history?.errors, failed: history?.failed }), [history]);
  if (times.length === 0) return html`<p class="muted">The last 15 minutes are drawn as soon as there is something to draw.</p>`;
  return html`<div class="halves charts">
    <${Chart} title="Latency ms, 15 min" testid="chart-latency" data=${waits} build=${latency} sync="live" />
    <${Chart} title="Errors a minute by family, 15 min" testid="chart-errors" data=${bars} build=${errors} sync="live" /></div>`;
}
