// What stands around every screen: whose network this is, who looks at it, how old what he sees is, and the verdict.
import { classes, effect, html, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { begin, brokerActions, whyOff } from "./actions.js";
import * as api from "./api.js";
import { listingLine, number, visible } from "./format.js";
import { copy } from "./parts.js";
import { SCREENS, adjust, ageMs, alarms, dialog, go, help, me, notice, overview, palette, route, stream, theme, topicOf, write } from "./state.js";
import { current } from "./table.js";

const THEMES = { auto: "dark", dark: "light", light: "auto" };

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("scale0-theme", theme.value);
});

export function Header() {
  const who = me.value;
  const state = overview.value?.broker?.state;
  const screens = useRef(null);
  useEffect(() => screens.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [route.value.name]);
  return html`<header class="top"><div class="stripe" style=${{ background: who.colour || "transparent" }}></div>
    <div class="bar"><a class="home" href=${write("overview")}>${visible(who.network || "scale0")}</a><span class="muted by">by ${visible(who.broker)}${state && state !== "active" ? ` (${state})` : ""}</span>
      <span class="room"></span>
      <${Clock} />
      <button type="button" class="quiet" onClick=${() => { palette.value = true; }} data-testid="open-palette">Find <kbd>Ctrl-K</kbd></button>
      <button type="button" class="quiet" onClick=${() => { theme.value = THEMES[theme.value]; }} aria-label=${`Colours: ${theme.value}`} title=${`Colours: ${theme.value}`} data-testid="theme">${{ auto: "◐", dark: "●", light: "○" }[theme.value]}</button>
      <button type="button" class="quiet" onClick=${() => { help.value = true; }} aria-label="Keys">?</button>
      <span class="who" data-testid="who">${visible(who.user)} <span class="muted">${who.role}</span></span>
      <button type="button" class="quiet" data-testid="logout" onClick=${logOut}>Log out</button></div>
    <nav class="screens" ref=${screens} aria-label="Screens">${SCREENS.map(([name, , title]) => html`<a href=${write(name)} aria-current=${route.value.name === name ? "page" : undefined}>${title}${name === "overview" && alarms.value.length ? html` <span class="count">${alarms.value.filter((one) => one.state !== "cleared").length}</span>` : null}</a>`)}</nav></header>`;
}

async function logOut() {
  await api.logout().catch(() => {});
  api.onLoggedOut.call();
}

// Its own component, so that four beats a second draw a few letters and not the page.
function Clock() {
  const age = ageMs.value;
  const word = { live: "live", stale: "stale", lost: "lost", off: "waiting" }[stream.value];
  return html`<span class=${classes("clock", stream.value)} data-testid="clock">${word} <span class="num">${age === null ? "–" : `${(age / 1e3).toFixed(1)} s`}</span></span>`;
}

const GLYPHS = { ok: "●", warn: "!", bad: "✗" };

// The one live region of the page: it is read out when the verdict changes, and never otherwise.
export function Verdict() {
  const told = overview.value?.verdict;
  const level = told?.level || "off";
  const text = told ? visible(told.text).replace(/^[●!✗–]\s*/, "") : "waiting for the broker";
  return html`<div class=${classes("verdict", level)}><span class=${`glyph ${level}`} aria-hidden="true">${GLYPHS[level] || "–"}</span><p role="status" aria-live="polite" data-testid="verdict" data-level=${level}>${text}</p></div>`;
}

export function Banner() {
  if (stream.value !== "lost") return null;
  return html`<div class="banner" role="alert" data-testid="stale-banner"><span class="glyph bad" aria-hidden="true">✗</span> No news from the broker for ${number(Math.floor((ageMs.value || 0) / 1e3))} s. What you see is old, and actions are off. Is it running? <code>scale0 network</code></div>`;
}

export const Notice = () => (notice.value ? html`<p class="notice" data-testid="notice">${visible(notice.value)}</p>` : null);

// --- keys ------------------------------------------------------------------------------------------

// The keyboard: `g` and a letter goes to a screen, `/` filters, `j k` Enter Esc move, open and close, `e` shows problems only,
// `y` copies the command line that shows the same, `?` tells all of this, Ctrl-K opens the palette.

export const KEYS = [
  ["g then a letter", `go to: ${SCREENS.map(([, letter, title]) => `${letter} ${title.toLowerCase()}`).join(", ")}`],
  ["/", "filter, on the server"], ["j k", "next and previous row"], ["Enter", "open the row"], ["Esc", "close, or leave the filter"],
  ["e", "problems only, and all again"], ["y", "copy as command line"], ["Ctrl-K", "palette: screens, objects, actions"], ["?", "this help"],
];

export const PROBLEM = "is:problem";

export function toggleProblems(filter) {
  const words = filter.split(/\s+/).filter(Boolean);
  return (words.includes(PROBLEM) ? words.filter((word) => word !== PROBLEM) : [...words, PROBLEM]).join(" ");
}

export function lineOfScreen() {
  const { name, params } = route.value;
  const topic = topicOf(name, params);
  if (params.sel && topic === "tasks") return `scale0 why ${params.sel}`;
  if (params.sel) return listingLine(topic, `id:${/\s/.test(params.sel) ? `"${params.sel}"` : params.sel}`);
  return listingLine(topic, params.filter, params.sort);
}

let afterG = -Infinity;

function onKey(event) {
  if (!me.value) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    palette.value = !palette.value;
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.value || palette.value || help.value) return;
  const isWriting = event.target.closest?.("input, textarea, select");
  if (event.key === "Escape") return leave(event, isWriting);
  if (isWriting) return;
  const did = press(event.key, event);
  if (did) event.preventDefault();
}

function leave(event, isWriting) {
  if (isWriting) event.target.blur();
  else if (route.value.params.sel) adjust({ sel: "" }, true);
}

function press(key, event) {
  if (performance.now() - afterG < 1500) {
    afterG = -Infinity;
    const screen = SCREENS.find(([, letter]) => letter === key);
    if (screen) { go(screen[0]); return true; }
  }
  switch (key) {
    case "g": afterG = performance.now(); return true;
    case "/": document.getElementById("filter")?.focus(); return true;
    case "j": current.move?.(1); return true;
    case "k": current.move?.(-1); return true;
    case "Enter":
      if (!current.open || event.target.closest?.("button, a:not(.row), summary")) return false;
      current.open();
      return true;
    case "e": adjust({ filter: toggleProblems(route.value.params.filter || ""), sel: "" }); return true;
    case "y": copy(lineOfScreen()); return true;
    case "?": help.value = true; return true;
    default: return false;
  }
}

export const start = () => addEventListener("keydown", onKey);

// --- palette ------------------------------------------------------------------------------------------

// Ctrl-K: screens, services, workers, brokers and actions by name. Names of workers are asked of the server.

const SHOWN_MAX = 12;

function fixedEntries() {
  const brokers = overview.value?.brokers || [];
  const services = overview.value?.services || [];
  return [
    ...SCREENS.map(([name, letter, title]) => ({ text: title, hint: `g ${letter}`, run: () => go(name) })),
    ...services.map((row) => ({ text: `Service ${row.name}`, hint: row.state, run: () => go("services", { sel: row.name }) })),
    ...brokers.map((row) => ({ text: `Broker ${row.identity}`, hint: row.state, run: () => go("brokers", { sel: row.identity }) })),
    ...brokers.flatMap(brokerActions).map((wish) => ({ text: `${wish.verb} ${wish.object}`, hint: whyOff(wish.name) || "action", isOff: Boolean(whyOff(wish.name)), run: () => begin(wish) })),
    { text: "Log out", hint: me.value?.user, run: logOut },
  ];
}

export function Palette() {
  const element = useRef(null);
  const [text, setText] = useState("");
  const [place, setPlace] = useState(0);
  const [found, setFound] = useState([]);
  useLayoutEffect(() => {
    if (!palette.value) return;
    setText("");
    setPlace(0);
    setFound([]);
    if (!element.current.open) element.current.showModal();
  }, [palette.value]);
  useEffect(() => {
    const word = text.trim();
    if (word.length < 2) return setFound([]);
    const timer = setTimeout(() => lookUp(word).then(setFound), 150);
    return () => clearTimeout(timer);
  }, [text]);
  if (!palette.value) return null;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const known = fixedEntries().filter((entry) => words.every((word) => entry.text.toLowerCase().includes(word)));
  const entries = [...known, ...found].slice(0, SHOWN_MAX);
  const close = () => { palette.value = false; };
  const choose = (entry) => {
    if (!entry || entry.isOff) return;
    close();
    entry.run();
  };
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); setPlace(Math.min(Math.max(place + step, 0), entries.length - 1)); }
    if (event.key === "Enter") { event.preventDefault(); choose(entries[place]); }
  };
  return html`<dialog ref=${element} class="palette" data-testid="palette" aria-label="Palette" onClose=${close} onCancel=${close}>
    <input role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${entries.length ? `palette-${place}` : undefined} aria-label="Go to or do"
      placeholder="Go to, look at, do …" value=${text} autofocus spellcheck=${false} onInput=${(event) => { setText(event.currentTarget.value); setPlace(0); }} onKeyDown=${onKey} />
    <ul id="palette-list" role="listbox" aria-label="Matches">${entries.map((entry, index) => html`<li id=${`palette-${index}`} role="option" aria-selected=${String(index === place)} aria-disabled=${entry.isOff ? "true" : undefined}
      onClick=${() => choose(entry)}><span>${visible(entry.text)}</span><span class="muted">${entry.hint}</span></li>`)}</ul>
    ${entries.length === 0 ? html`<p class="muted">Nothing of that name.</p>` : null}
  </dialog>`;
}

async function lookUp(word) {
  const filter = `id:*${word.replace(/["\s]/g, "?")}*`;
  const [workers, clients] = await Promise.all(["workers", "clients"].map((name) => api.listing(name, { filter, limit: 5 }).catch(() => ({ rows: [] }))));
  return [
    ...workers.rows.map((row) => ({ text: `Worker ${row.identity}`, hint: row.state, run: () => go("workers", { sel: row.identity, filter: "" }) })),
    ...clients.rows.map((row) => ({ text: `Client ${row.identity}`, hint: "client", run: () => go("clients", { sel: row.identity }) })),
  ];
}

export function Help() {
  const element = useRef(null);
  useLayoutEffect(() => { if (help.value && !element.current.open) element.current.showModal(); }, [help.value]);
  if (!help.value) return null;
  const close = () => { help.value = false; };
  return html`<dialog ref=${element} data-testid="help" aria-labelledby="help-title" onClose=${close} onCancel=${close}>
    <h2 id="help-title">Keys</h2>
    <dl class="facts">${KEYS.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
    <p class="muted">Filter: <code>state:full svc:render* hb>3s is:problem -id:w-1*</code>; words must all hold.</p>
    <div class="choices"><button type="button" onClick=${close}>Close</button></div></dialog>`;
}
