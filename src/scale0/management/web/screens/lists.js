// The columns of each listing, in the order in which an operator's question is answered. `isWide`: left out on narrow screens.
import { html } from "../lib.js";
import { Actions, lettersActions } from "../actions.js";
import * as details from "../details.js";
import { Drawer } from "../details.js";
import { UNKNOWN, glyphOf, mebibytes, millis, number, problemsOf, quoted, seconds, signedMillis, tenths, utc, version, visible } from "../format.js";
import { Empty, Names, State, Tabs } from "../parts.js";
import { PROBLEM, toggleProblems } from "../shell.js";
import { adjust, documents, go, me, overview, route, sortOf } from "../state.js";
import { Filter, Table } from "../table.js";

const text = (title, key, more = {}) => ({ title, sort: key, cell: (row) => (row[key] === null || row[key] === undefined || row[key] === "" ? UNKNOWN : visible(row[key])), ...more });
const figure = (title, key, show = number, more = {}) => ({ title, sort: key, isNumber: true, cell: (row) => show(row[key]), ...more });
const pair = (title, key, show) => ({ title, sort: key, isNumber: true, cell: show });

// The state, with the glyph of what is worst about the row and a word for each thing that is wrong.
const state = (topic) => ({
  title: "State", sort: "problems", cell(row) {
    const found = problemsOf(topic, row);
    const word = row.is_absent ? "absent" : row.state ?? "connected";
    const more = found.map(([, one]) => one).filter((one) => one !== word);
    const fill = found.length ? found[0][0] : row.state ? undefined : "ok";
    return html`<${State} state=${row.state ?? "up"} fill=${fill} word=${[word, ...more].join(", ")} />`;
  },
});

const config = {
  title: "Config", sort: "config_version", cell: (row) => html`${version(row.config_version)}${row.is_behind ? html` <span class="glyph warn" aria-label="behind">!</span>` : null}`,
};
const names = (title, key) => ({ title, isWide: true, cell: (row) => html`<${Names} of=${Array.isArray(row[key]) ? row[key] : Object.keys(row[key] || {})} />` });

export const WORKERS = [
  text("Worker", "identity", { isName: true }), state("workers"), names("Services", "services"),
  figure("LRU", "lru"), pair("Busy / cap", "busy", (row) => `${number(row.busy)}/${number(row.capacity)}`),
  pair("Heartbeat / interval s", "heartbeat_age_us", (row) => `${tenths(row.heartbeat_age_us)}/${seconds(row.heartbeat_interval_us)}`),
  config, figure("Clock ±ms", "clock_offset_us", signedMillis, { isWide: true }), figure("p99 ms", "p99_us", millis),
  figure("Sessions / h", "sessions_per_h", number, { isWide: true }),
];

export const GONE_WORKERS = [
  text("Worker", "identity", { isName: true }), state("gone_workers"), { title: "Gone UTC", sort: "at", cell: (row) => utc(row.at) }, text("Why", "why"),
  names("Services", "services"), figure("Sessions / h", "sessions_per_h"),
];

export const SERVICES = [
  text("Service", "name", { isName: true }), state("services"), figure("Workers", "workers"),
  pair("Free / cap", "free", (row) => `${number(row.free)}/${number(row.capacity)}`), figure("Queued", "queued"), figure("Oldest s", "oldest_us", seconds),
  figure("Tasks / s", "tasks_per_s"), figure("p50 ms", "p50_us", millis, { isWide: true }), figure("p99 ms", "p99_us", millis),
  figure("Errors / 5 min", "errors_5m"), { title: "Idempotent", sort: "idempotent", isWide: true, cell: (row) => (row.idempotent === null || row.idempotent === undefined ? UNKNOWN : row.idempotent ? "yes" : "no") },
];

// The other one of the pair, and how it is by the word of who serves: in sync, behind, lost, or serving.
function fallbackOf(row) {
  const partner = (documents.value.network?.rows || []).find((one) => one.identity === row.fallback_broker);
  if (!row.fallback_broker) return UNKNOWN;
  const word = partner && partner.state !== "passive" ? partner.state : row.fallback || "unknown";
  const isNear = word === "in sync" || /^\d/.test(word);
  const shown = word === "in sync" ? (row.lag_us ? `${millis(row.lag_us)} ms` : "in sync") : word;
  return html`<${State} state=${isNear ? "passive" : word} word=${`${row.fallback_broker} ${shown}`} />`;
}

export const BROKERS = [
  text("Broker", "identity", { isName: true }), state("network"), text("Group", "group"), { title: "Fallback", cell: fallbackOf },
  figure("Epoch", "epoch", number, { isWide: true }), figure("Workers", "workers"), figure("Clients", "clients", number, { isWide: true }),
  figure("Tasks / s", "tasks_per_s"), figure("Queued", "queued"), config,
  figure("Heard s", "heard_us", seconds), figure("CPU %", "cpu_percent", number, { isWide: true }), figure("RSS MiB", "rss_bytes", mebibytes, { isWide: true }),
];

export const CLIENTS = [
  text("Client", "identity", { isName: true }), state("clients"), figure("In flight", "open_tasks"), figure("Tasks / s", "tasks_per_s"),
  figure("Errors / 5 min", "errors_5m"), figure("Limit %", "limit_percent"), figure("Heard s", "heard_us", seconds, { isWide: true }), { ...config, isWide: true },
  figure("Clock ±ms", "clock_offset_us", signedMillis, { isWide: true }),
];

export const ERROR_CLIENTS = [
  text("Connection", "connection", { isName: true }), figure("Penalty s", "penalty_us", seconds), figure("Bad", "bad"), figure("Ignored", "ignored"), text("Reason", "reason"),
];

export const TASKS = [
  text("Task", "id", { isName: true }), { title: "State", sort: "state", cell: (row) => html`<${State} state=${row.state} />` }, text("Service", "service"),
  figure("Age s", "age_us", seconds), figure("Deadline s", "deadline_us", seconds), figure("Attempt", "attempt"), text("Worker", "worker"),
  text("Client", "client", { isWide: true }), figure("Bytes", "bytes", number, { isWide: true }),
];

export const DEAD_LETTERS = [
  text("Task", "id", { isName: true }), text("Service", "service"), { title: "Code", sort: "code", isNumber: true, cell: (row) => String(row.code ?? UNKNOWN) },
  text("Why", "text"), figure("Attempts", "attempts"), { title: "Died UTC", sort: "died_at", isWide: true, cell: (row) => utc(row.died_at) }, text("Client", "client", { isWide: true }),
  figure("Bytes", "bytes", number, { isWide: true }),
];

const outcome = (row) => {
  const word = row.outcome ?? row.result;
  if (word === undefined || word === null || word === "") return UNKNOWN;
  const state = typeof word === "string" && glyphOf(word)[0] !== "–" ? word : row.code >= 400 ? "failed" : null;
  return state ? html`<${State} state=${state} word=${word} />` : visible(typeof word === "string" ? word : JSON.stringify(word));
};

export const EVENTS = [
  { title: "UTC", sort: "at", cell: (row) => utc(row.at) }, text("Kind", "kind"), text("Actor", "actor"), text("Door", "door", { isWide: true }),
  text("Command", "command"), text("Target", "target"), { title: "Result", cell: outcome }, text("Broker", "broker", { isWide: true }),
];

export const AUDIT = [
  text("Record", "seq", { isName: true }), { title: "UTC", sort: "at", cell: (row) => utc(row.at) }, text("Actor", "user"), text("Role", "role", { isWide: true }),
  text("Door", "door", { isWide: true }), text("Source", "source", { isWide: true }), text("Command", "command"), text("Target", "target"), { title: "Result", sort: "outcome", cell: outcome }, figure("Code", "code"),
];

// --- lists ------------------------------------------------------------------------------------------

// The screens that are a table: brokers, services, workers, clients, tasks, events. Each answers one question.

const identity = (row) => row.identity;
const stateOf = (row) => row.state ?? "";

function Listing({ topic, kind, title, columns, keyOf = identity, hint, empty, tabs, above, detail, detailTitle }) {
  return html`<div class="screen"><section class="list" aria-label=${title}>
    <div class="tools"><h1>${title}</h1>${tabs || null}<${Filter} hint=${hint} /></div>${above || null}
    <${Table} topic=${topic} kind=${kind} columns=${columns} keyOf=${keyOf} stateOf=${stateOf} sort=${sortOf(topic)} label=${title}
      empty=${(filter) => (filter ? html`<${Empty} text=${`Nothing matches ${filter}.`} command="" />` : empty)} /></section>
    ${detail ? html`<${Drawer} topic=${topic} keyOf=${keyOf} title=${detailTitle}>${detail}<//>` : null}</div>`;
}

// All, those with a problem, and those of a state; the chips only write the filter.
function Problems({ topic, states = [] }) {
  const filter = route.value.params.filter || "";
  const told = documents.value[topic];
  const value = filter.includes(PROBLEM) ? PROBLEM : states.find((state) => filter === `state:${state}`) || (filter ? "filtered" : "");
  const choose = (key) => adjust({ filter: key === "" ? "" : key === PROBLEM ? toggleProblems(filter.includes(PROBLEM) ? filter : "") || PROBLEM : `state:${key}`, sel: "" });
  const counted = told ? number(told.all ?? told.total ?? told.rows.length) : undefined;
  return html`<${Tabs} label="Which rows" value=${value} choose=${choose} of=${[["", "all", counted], [PROBLEM, "problems", told?.problems === undefined ? undefined : number(told.problems)], ...states.map((state) => [state, state])]} />`;
}

export function Workers() {
  const { params } = route.value;
  const tabs = views(params, [["", "connected"], ["gone", "gone"]], "Workers");
  if (params.view === "gone") {
    return html`<${Listing} topic="gone_workers" kind="gone-workers" title="Workers" columns=${GONE_WORKERS} hint="why:silent svc:render*" tabs=${tabs}
      empty=${html`<${Empty} text="No worker left or died within the last hour." command="" />`} />`;
  }
  return html`<${Listing} topic="workers" kind="workers" title="Workers" columns=${WORKERS} hint="state:full svc:render* hb>3s" tabs=${html`${tabs}<${Problems} topic="workers" states=${["full", "draining"]} />`}
    empty=${html`<${Empty} text="No worker is connected. Start one:" command="scale0 worker module:app" />`} detail=${details.Worker} detailTitle="Worker" />`;
}

export function Services() {
  return html`<${Listing} topic="services" kind="services" title="Services" columns=${SERVICES} keyOf=${(row) => row.name} hint="state:full queued>10 p99>50ms" tabs=${html`<${Problems} topic="services" />`}
    empty=${html`<${Empty} text="Nobody serves or asks for anything yet. Start a worker:" command="scale0 worker module:app" />`} detail=${details.Service} detailTitle="Service" />`;
}

export function Brokers() {
  return html`<${Listing} topic="network" kind="brokers" title="Brokers" columns=${BROKERS} hint="state:gone group:eu" tabs=${html`<${Problems} topic="network" />`}
    empty=${html`<${Empty} text="No broker told of itself." command="scale0 network" />`} detail=${details.Broker} detailTitle="Broker" />`;
}

const views = (params, of, label) => html`<${Tabs} label=${label} value=${params.view || ""} choose=${(view) => go(route.value.name, { view })} of=${of} />`;

export function Clients() {
  const { params } = route.value;
  const tabs = views(params, [["", "clients"], ["ignored", "ignored connections"]], "Clients");
  if (params.view === "ignored") {
    return html`<${Listing} topic="error_clients" kind="error-clients" title="Clients" columns=${ERROR_CLIENTS} keyOf=${(row) => row.connection} hint="penalty>10s" tabs=${tabs}
      empty=${html`<${Empty} text="No connection is ignored: nobody sent what could not be read." command="" />`} detail=${details.Ignored} detailTitle="Connection" />`;
  }
  return html`<${Listing} topic="clients" kind="clients" title="Clients" columns=${CLIENTS} hint="in_flight>10 id:web*" tabs=${tabs}
    empty=${html`<${Empty} text="No client is connected. Ask something:" command=${`scale0 call ${quoted(overview.value?.services?.[0]?.name || "echo")} '{}'`} />`} detail=${details.Client} detailTitle="Client" />`;
}

export function Tasks() {
  const { params } = route.value;
  const tabs = views(params, [["", "waiting and in flight"], ["dead", "dead letters"]], "Tasks");
  if (params.view === "dead") {
    const rows = documents.value.dead_letters?.rows || [];
    return html`<${Listing} topic="dead_letters" kind="dead-letters" title="Tasks" columns=${DEAD_LETTERS} keyOf=${(row) => row.id} hint="svc:render code:504" tabs=${tabs}
      above=${rows.length ? html`<${Actions} of=${lettersActions(rows, me.value.network)} />` : null}
      empty=${html`<${Empty} text="No dead letter: every task was settled within its attempts." command="" />`} detail=${details.Letter} detailTitle="Dead letter" />`;
  }
  return html`<${Listing} topic="tasks" kind="tasks" title="Tasks" columns=${TASKS} keyOf=${(row) => row.id} hint="state:queued svc:render age>2s" tabs=${tabs}
    empty=${html`<${Empty} text="No task waits or runs. Send one:" command=${`scale0 call ${quoted(overview.value?.services?.[0]?.name || "echo")} '{}'`} />`} detail=${details.Task} detailTitle="Task" />`;
}

export function Events() {
  const { params } = route.value;
  const audit = me.value.role !== "view";
  const tabs = views(params, [["", "events"], ["audit", audit ? "audit" : "audit (needs the role operate)"]], "Events");
  if (params.view === "audit") {
    return html`<${Listing} topic="audit" kind="audit" title="Audit" columns=${AUDIT} keyOf=${(row) => String(row.seq)} hint="user:anna command:drain outcome:denied" tabs=${tabs}
      empty=${html`<${Empty} text=${audit ? "Nobody changed anything yet. The file is checked by:" : "The audit needs the role operate. An admin gives it:"} command=${audit ? "scale0 ctl audit --verify" : `scale0 user role ${quoted(me.value.user)} operate`} />`} />`;
  }
  return html`<${Listing} topic="events" kind="events" title="Events" columns=${EVENTS} keyOf=${(row) => `${row.at} ${row.kind} ${row.command} ${row.target} ${row.command_id || ""}`} hint="kind:command actor:anna" tabs=${tabs}
    empty=${html`<${Empty} text="Nothing happened since this broker started." command="scale0 ctl events --watch" />`} />`;
}
