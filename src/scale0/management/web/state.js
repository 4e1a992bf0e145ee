// What the page knows: where it is, and what the stream and the API have told.
//
// Where the page is: `#/workers?filter=state:full&sort=-p99_us&sel=w-12`. The address holds filter, sort and selection,
// so that a link shows somebody else the same.
import { batch, computed, signal } from "./lib.js";

export const SCREENS = [
  ["overview", "o", "Overview"], ["topology", "t", "Topology"], ["brokers", "b", "Brokers"], ["services", "s", "Services"],
  ["workers", "w", "Workers"], ["clients", "c", "Clients"], ["tasks", "k", "Tasks"], ["config", "f", "Config"],
  ["events", "e", "Events"], ["trends", "r", "Trends"],
];

const names = new Set(SCREENS.map(([name]) => name));

export function parse(fragment) {
  const [path, query = ""] = fragment.replace(/^#\/?/, "").split("?");
  return { name: names.has(path) ? path : "overview", params: Object.fromEntries(new URLSearchParams(query)) };
}

export function write(name, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  const text = query.toString();
  return `#/${name}${text ? `?${text}` : ""}`;
}

export const route = signal(parse(globalThis.location?.hash || ""));

export function go(name, params = {}) {
  location.hash = write(name, params);
}

// Changes some keys of the address; without a new entry in the browser's history unless `keep`.
export function adjust(changes, keep = false) {
  const { name, params } = route.value;
  const next = write(name, { ...params, ...changes });
  if (next === location.hash) return;
  if (keep) history.pushState(null, "", next);
  else history.replaceState(null, "", next);
  route.value = parse(next);
}

export function watch() {
  addEventListener("hashchange", () => { route.value = parse(location.hash); });
  addEventListener("popstate", () => { route.value = parse(location.hash); });
}

// --- topics ------------------------------------------------------------------------------------------

// Which listing the stream carries for each screen. Pure.

const TOPICS = {
  overview: "overview", topology: "network", brokers: "network", services: "services", workers: "workers", clients: "clients",
  tasks: "tasks", config: "config_history", events: "events", trends: "overview",
};
const VIEWS = { "workers/gone": "gone_workers", "tasks/dead": "dead_letters", "clients/ignored": "error_clients", "events/audit": "audit" };
const SORTS = { services: "problems", workers: "problems", network: "problems", clients: "-open_tasks" };

export const topicOf = (name, params = {}) => VIEWS[`${name}/${params.view}`] || TOPICS[name];
// The drawing of the network has the order of the document, not of what is wrong today.
export const sortOf = (topic, name) => (name === "topology" ? "" : SORTS[topic] || "");

// --- state ------------------------------------------------------------------------------------------

// What the page knows, as signals. One direction: the stream and the API write here, screens read.

export const me = signal(null);            // who is logged in, and which commands he may give; null: nobody
export const overview = signal(null);      // the newest snapshot of the overview
export const alarms = signal([]);
export const documents = signal({});       // topic → newest listing of the screen that is open
export const events = signal([]);          // newest first, EVENTS_MAX
export const stream = signal("off");       // off, live, stale, lost
export const ageMs = signal(null);         // since the last snapshot
export const seq = signal(0);
export const beat = signal(0);             // counts snapshots of the screen's own topic
export const trouble = signal("");         // why the stream could not be opened: a filter that cannot be read
export const dialog = signal(null);        // the action that asks for confirmation
export const palette = signal(false);
export const help = signal(false);
export const actions = signal([]);         // those under way and the last ones done, newest first
export const notice = signal("");          // a short word at the lower edge: "copied"

export const theme = signal(globalThis.localStorage?.getItem("scale0-theme") || "auto"); // auto, dark, light

export const EVENTS_MAX = 200;
const ACTIONS_MAX = 4;

export const areActionsOff = computed(() => stream.value === "lost");

export function noteEvent(row) {
  batch(() => {
    events.value = [row, ...events.value].slice(0, EVENTS_MAX);
    if (row.command_id) settle(row.command_id, { seen: true });
  });
}

export function addAction(action) {
  const unfinished = actions.value.filter((one) => one.state === "pending");
  const finished = actions.value.filter((one) => one.state !== "pending");
  actions.value = [action, ...unfinished, ...finished].slice(0, ACTIONS_MAX);
}

// Two things end an action: its answer, and the event that tells everybody of it. A refusal has no event to wait for.
export function settle(id, change) {
  actions.value = actions.value.map((one) => {
    if (one.id !== id) return one;
    const next = { ...one, ...change };
    const isOver = next.refusal || (next.answer && next.seen);
    return isOver && next.state === "pending" ? { ...next, state: next.refusal ? "failed" : next.outcome, overAt: performance.now() } : next;
  });
}

export const dismiss = (id) => { actions.value = actions.value.filter((one) => one.id !== id); };

export const isPending = (key) => actions.value.some((one) => one.key === key && one.state === "pending");

let noticeTimer = 0;
export function say(text) {
  notice.value = text;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { notice.value = ""; }, 2500);
}

export function forget() {
  batch(() => {
    me.value = null; overview.value = null; alarms.value = []; documents.value = {}; events.value = [];
    actions.value = []; dialog.value = null; palette.value = false; help.value = false;
  });
}
