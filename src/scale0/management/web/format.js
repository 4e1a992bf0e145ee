// How values become text: three significant digits, units in headers, unknown is a dash and never 0. Pure.

export const UNKNOWN = "–";

const GLYPHS = {
  active: ["●", "ok"], ready: ["●", "ok"], full: ["●", "ok"], ok: ["●", "ok"], up: ["●", "ok"], current: ["●", "ok"], "at peers": ["●", "ok"],
  "in sync": ["●", "ok"], done: ["●", "ok"], in_flight: ["●", "ok"], self: ["●", "ok"], cleared: ["●", "ok"], allowed: ["●", "ok"],
  serves: ["!", "warn"], passive: ["○", "ok"], joining: ["○", "warn"], negotiating: ["○", "ok"], queued: ["○", "ok"], past: ["○", "off"], replaced: ["○", "off"], begun: ["○", "ok"],
  draining: ["◒", "warn"], disabling: ["◒", "warn"], holding: ["◒", "warn"], pending: ["◒", "warn"],
  behind: ["!", "warn"], flapping: ["!", "warn"], stuck: ["!", "warn"], late: ["!", "warn"], warn: ["!", "warn"],
  dialing: ["!", "warn"], partial: ["!", "warn"], denied: ["!", "warn"], conflict: ["!", "warn"],
  gone: ["✗", "bad"], cut: ["✗", "bad"], "no worker": ["✗", "bad"], absent: ["✗", "bad"], down: ["✗", "bad"], lost: ["✗", "bad"],
  bad: ["✗", "bad"], failed: ["✗", "bad"], dead: ["✗", "bad"], raised: ["✗", "bad"], silent: ["✗", "bad"],
};

// The glyph and the colour token of a state; a state that is not known here is grey.
export const glyphOf = (state) => GLYPHS[state] || ["–", "off"];

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  if (size < 0.001) return value === 0 ? "0" : value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

const scaled = (divisor) => (us) => (us === null || us === undefined ? UNKNOWN : number(us / divisor));
export const seconds = scaled(1e6);
export const millis = scaled(1e3);
export const mebibytes = scaled(1048576);

// A time that jumps every second reads better with one digit after the point than with three that matter.
export const tenths = (us) => (us === null || us === undefined ? UNKNOWN : (us / 1e6).toFixed(1));

export function signedMillis(us) {
  if (us === null || us === undefined) return UNKNOWN;
  return (us > 0 ? "+" : us < 0 ? "−" : "") + number(Math.abs(us) / 1e3);
}

// A span as people say it: 4 s, 12 min, 3.5 h, 2 d.
export function span(us) {
  if (us === null || us === undefined) return UNKNOWN;
  const s = us / 1e6;
  if (s < 1) return `${number(us / 1e3)} ms`;
  if (s < 120) return `${number(s)} s`;
  if (s < 7200) return `${number(Math.round(s / 6) / 10)} min`;
  return s < 172800 ? `${number(Math.round(s / 360) / 10)} h` : `${number(Math.round(s / 8640) / 10)} d`;
}

// 1.42.7f3a… → v42, as the command line has it: epoch and hash are for the details.
export function version(text) {
  if (!text) return UNKNOWN;
  const parts = String(text).split(".");
  return `v${parts.length > 1 ? parts[1] : parts[0].replace(/^v/, "")}`;
}

export const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

export const utc = (iso) => (iso ? String(iso).replace("T", " ").replace(/\.\d+/, "").replace(/Z|\+00:00/, "") : UNKNOWN);
export const utcOfMicros = (us) => (us ? utc(new Date(us / 1e3).toISOString()) : UNKNOWN);

// Characters that would be invisible, or would turn the text around, made visible.
export const visible = (text) =>
  String(text ?? UNKNOWN).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A word as a POSIX shell reads it, for lines that people copy.
export const quoted = (word) =>
  /^[\w@%+=:,./-]+$/.test(word) ? String(word) : `'${String(word).replace(/'/g, `'"'"'`)}'`;

// --- families ------------------------------------------------------------------------------------------

// The families of errors: late 408 and 504, lost 502, a handler that failed, refused 429 and 503, and what the caller did wrong.
export const FAMILIES = ["late", "lost", "failed", "refused", "caller"];

// --- problems ------------------------------------------------------------------------------------------

// What is wrong with a row, in a word each; the worst first. Pure. The server's `is:problem` means the same.

export const LATE_INTERVALS = 2;

const sayState = (row) => glyphOf(row.state)[1] === "warn" && ["warn", row.state];

const sayWorker = (row) => [
  row.state === "gone" && ["bad", "gone"],
  row.is_absent && ["bad", "absent"],
  row.stuck > 0 && ["warn", `${row.stuck} stuck`],
  isLate(row) && ["warn", "late"],
  row.is_behind && ["warn", "behind"],
  sayState(row),
];

const sayService = (row) => [
  row.state === "no worker" && ["bad", "no worker"],
  row.oldest_us >= 1e6 && ["warn", "waits"], // a busy service has a short queue always
  row.errors_5m > 0 && ["warn", "errors"],
];

const sayBroker = (row) => [
  ["gone", "unknown"].includes(row.state) && ["bad", row.state],
  sayState(row),
  row.state === "disabled" && ["off", "disabled"],
  !row.is_self && ["down", "dialing"].includes(row.link) && ["bad", "not linked"],
  row.is_behind && ["warn", "behind"],
  row.fallback === "lost" && ["warn", "fallback lost"],
];

const sayClient = (row) => [row.is_absent && ["off", "absent"], row.errors_5m > 0 && ["warn", "errors"], row.limit_percent >= 90 && ["warn", "near its limit"]];

const SAYERS = { workers: sayWorker, services: sayService, network: sayBroker, clients: sayClient };

export function isLate(row) {
  return row.heartbeat_interval_us > 0 && row.heartbeat_age_us > LATE_INTERVALS * row.heartbeat_interval_us;
}

export const problemsOf = (topic, row) => (SAYERS[topic]?.(row) || []).filter(Boolean);

// --- ctl ------------------------------------------------------------------------------------------

// The command line that does the same, for each thing on the page: what `y` copies and what dialogs show. Pure.

const SHORT = { kick_worker: "kick", cancel_task: "cancel", retry_dead_letter: "retry", reload_config: "reload", forget_broker: "forget" };
const BARE = ["worker", "task", "service", "body", "version", "broker", "connection", "peer"]; // by position, in this order
const OPTIONS = { timeout_s: "task-timeout", for_s: "for" };

// `scale0 ctl drain eu-2`, `scale0 ctl kick w-12 --on eu-2`. `brokers`: "own", "all" or names.
export function lineOf(name, args = {}, brokers = "own") {
  const isConfig = name.startsWith("config_");
  const words = ["scale0", "ctl", ...(isConfig ? name.split("_") : [SHORT[name] || name.replace(/_/g, "-")])];
  const given = Object.entries(args).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  const bare = BARE.filter((key) => given.some(([one]) => one === key)).map((key) => String(args[key]));
  if (args.document !== undefined) bare.push("network.json");
  words.push(...bare);
  for (const [key, value] of given) {
    if (BARE.includes(key) || ["document", "base", "force"].includes(key)) continue;
    words.push(`--${OPTIONS[key] || key.replace(/_/g, "-")}`, String(value));
  }
  if (brokers === "all") words.push("--all");
  else if (Array.isArray(brokers)) words.push(...brokers.flatMap((broker) => (bare.length ? ["--on", broker] : [broker])));
  return words.map(quoted).join(" ");
}

export function listingLine(name, filter = "", sort = "") {
  const words = ["scale0", "ctl", ...(name === "config" ? ["list", "config"] : [name.replace(/_/g, "-")])];
  if (filter) words.push("--filter", filter);
  if (sort && sort !== "problems") words.push("--sort", sort);
  return words.map(quoted).join(" ");
}

// --- diff ------------------------------------------------------------------------------------------

// What differs between two config documents, key by key, as `scale0 config diff` tells it. Pure.

const NAMES = ["identity", "name", "key", "worker"];
const SINGULAR = { brokers: "broker", services: "service", groups: "group" };

// [{ key: "service.render.timeout", before: "10", after: "5" }]; undefined: it was not there, or is not there any more.
export function diff(before, after, path = "") {
  if (same(before, after)) return [];
  if (isNamed(before) && isNamed(after) && before.length + after.length > 0) return diffNamed(before, after, path);
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return keys.flatMap((key) => diff(before[key], after[key], join(path, key)));
  }
  return [{ key: path, before: shown(before), after: shown(after) }];
}

function diffNamed(before, after, path) {
  const base = path.replace(/[^.]+$/, (last) => SINGULAR[last] || last);
  const [old, fresh] = [byName(before), byName(after)];
  const names = [...new Set([...old.keys(), ...fresh.keys()])];
  return names.flatMap((name) => diff(old.get(name), fresh.get(name), join(base, name)));
}

const join = (path, key) => (path ? `${path}.${key}` : key);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const nameOf = (entry) => NAMES.map((key) => entry[key]).find((value) => typeof value === "string");
const isNamed = (value) => Array.isArray(value) && value.every((entry) => isObject(entry) && nameOf(entry) !== undefined);
const byName = (entries) => new Map(entries.map((entry) => [nameOf(entry), entry]));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function shown(value) {
  if (value === undefined) return undefined;
  if (typeof value === "string") return value || "(empty)";
  if (!isObject(value)) return JSON.stringify(value);
  const told = Object.entries(value).filter(([key]) => !NAMES.includes(key)).map(([key, one]) => `${key} ${JSON.stringify(one)}`);
  return told.join(", ") || "as by default";
}
