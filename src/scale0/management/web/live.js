// One event stream a tab. It names the topic of the open screen; overview and alarms always come along. It is closed
// while the tab is hidden, because a browser opens six connections to an origin and hidden tabs must not hold them.
//
// Age is counted from the last snapshot: 3 s is stale (the clock turns amber), 10 s is lost (banner, grey values, no actions).
import { batch, effect } from "./lib.js";
import * as api from "./api.js";
import { actions, ageMs, alarms, beat, dismiss, documents, me, noteEvent, overview, seq, settle, stream, trouble } from "./state.js";

export const STALE_MS = 3000;
export const LOST_MS = 10000;
const RETRY_MS = [500, 1000, 2000, 4000];
const SHOWN_MS = 8000; // what went well is shown so long; what did not stays until it is dismissed
const UNSEEN_MS = 10000; // an answered action whose event did not come

let source = null;
let subject = null;   // what the stream is asked for, as a query
let heardAt = 0;
let tries = 0;
let retryTimer = 0;

// Shows a topic: asks once, so that something is there at once and a wrong filter is told before anything is closed, and
// then follows it. With a filter that cannot be read, what was on the screen goes on.
export async function follow(topic, { filter = "", sort = "", limit = 200 } = {}) {
  const query = new URLSearchParams(api.wanted({ topic, filter, sort, limit })).toString();
  trouble.value = "";
  if (query === subject) return;
  const before = subject;
  subject = query;
  if (heardAt === 0) heardAt = performance.now();
  try {
    const told = topic === "overview" ? await api.overview() : await api.listing(topic, { filter, sort, limit });
    if (subject === query) keep(topic, told);
  } catch (error) {
    if (error.code === 401 || subject !== query) return;
    if (error.code >= 400 && error.code < 500) {
      trouble.value = error.cure ? `${error.message}: ${error.cure}` : error.message;
      const isSame = before !== null && new URLSearchParams(before).get("topic") === topic;
      subject = isSame ? before : "topic=overview";
      if (isSame && source) return;
    }
  }
  if (subject !== null) open();
}

export function end() {
  clearTimeout(retryTimer);
  source?.close();
  source = null;
  subject = null;
  heardAt = 0;
  stream.value = "off";
}

function open() {
  clearTimeout(retryTimer);
  source?.close();
  source = null;
  if (subject === null || document.hidden) return;
  const opened = new EventSource(`api/v1/stream?${subject}`);
  source = opened;
  opened.addEventListener("snapshot", (event) => heard(JSON.parse(event.data)));
  opened.addEventListener("alarms", (event) => { alarms.value = rowsOf(JSON.parse(event.data)); });
  opened.addEventListener("event", (event) => noteEvent(JSON.parse(event.data)));
  opened.addEventListener("bye", () => retry(opened));
  opened.addEventListener("error", () => retry(opened));
}

const rowsOf = (told) => (Array.isArray(told) ? told : told.rows || told.alarms || []);

function heard({ seq: number, at, topic, document: told }) {
  heardAt = performance.now();
  tries = 0;
  batch(() => {
    keep(topic, { at, ...told, seq: number });
    if (topic === new URLSearchParams(subject || "").get("topic")) beat.value += 1;
    seq.value = number;
    stream.value = "live";
    ageMs.value = 0;
  });
}

function keep(topic, told) {
  if (topic !== "overview") {
    documents.value = { ...documents.value, [topic]: told };
    return;
  }
  overview.value = told;
  if (told.alarms) alarms.value = told.alarms;
}

// A refused stream looks to EventSource as one that broke, so the API is asked first whether the session still lives.
function retry(broken) {
  if (broken !== source) return;
  broken.close();
  source = null;
  const delay = RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)];
  retryTimer = setTimeout(async () => {
    try {
      await api.me();
    } catch (error) {
      if (error.code === 401) return;
    }
    if (!source) open();
  }, delay);
}

export function start() {
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (subject !== null) {
      heardAt = performance.now();
      open();
    }
  });
  addEventListener("pagehide", () => source?.close());
  setInterval(look, 250);
  effect(() => {
    const root = document.documentElement;
    root.dataset.stream = stream.value;
    root.dataset.seq = String(seq.value);
  });
}

function look() {
  if (!me.value || subject === null || document.hidden) return;
  const age = performance.now() - heardAt;
  ageMs.value = age;
  stream.value = age < STALE_MS ? (seq.value ? "live" : "off") : age < LOST_MS ? "stale" : "lost";
  for (const one of actions.value) {
    const isUnseen = one.state === "pending" && one.answer && performance.now() - one.answeredAt > UNSEEN_MS;
    if (one.state === "done" && performance.now() - one.overAt > SHOWN_MS) dismiss(one.id);
    if (isUnseen) settle(one.id, { seen: true, note: "its event was not seen in the stream" });
  }
}
