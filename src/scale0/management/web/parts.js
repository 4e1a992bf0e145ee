// Small pieces that every screen uses: states, facts, empty places, copying.
import { classes, html } from "./lib.js";
import { UNKNOWN, glyphOf, visible } from "./format.js";
import { say } from "./state.js";

const FILL_GLYPHS = { ok: "●", warn: "!", bad: "✗", off: "–" };

// A state is always a glyph and a word; only the glyph has the colour.
export function State({ state, fill, word }) {
  const [own, token] = glyphOf(state);
  const glyph = !fill || fill === token ? own : FILL_GLYPHS[fill];
  return html`<span class="state"><span class=${classes("glyph", fill || token)} aria-hidden="true">${glyph}</span>${" "}${visible(word ?? state ?? "unknown").replace(/_/g, " ")}</span>`;
}

export const Name = ({ children }) => html`<span class="name">${visible(children)}</span>`;

export const Names = ({ of }) => (of && of.length ? html`<span class="name">${of.map(visible).join(" ")}</span>` : UNKNOWN);

// [["Heartbeat age", "2.9 s"], …]; what is undefined has no line.
export function Facts({ of }) {
  const lines = of.filter(([, value]) => value !== undefined);
  return html`<dl class="facts">${lines.map(([label, value]) => html`<dt>${label}</dt><dd>${value === null || value === "" ? UNKNOWN : value}</dd>`)}</dl>`;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say(`copied: ${text}`);
  } catch {
    say(text);
  }
}

export function CommandLine({ children }) {
  const text = Array.isArray(children) ? children.join("") : children;
  return html`<div class="line"><code data-testid="command-line">${visible(text)}</code><button class="quiet" type="button" onClick=${() => copy(text)} aria-label=${`Copy ${text}`}>Copy</button></div>`;
}

// "start it so: scale0 broker --telemetry" is a sentence and a command line.
export function cureOf(text) {
  const found = /^(.*?):? ?(scale0 [^;]+)$/s.exec(text || "");
  return found ? { text: found[1].trim(), command: found[2].trim() } : { text: text || "", command: "" };
}

// Says what is missing and which command comes next.
export function Empty({ text, command }) {
  return html`<div class="empty" data-testid="empty-state"><p>${text}</p>${command && html`<${CommandLine}>${command}<//>`}</div>`;
}

export function Tabs({ of, value, choose, label }) {
  return html`<nav class="tabs" aria-label=${label}>${of.map(([key, text, count]) => html`
    <button type="button" aria-pressed=${String(key === value)} data-testid=${`tab-${key || "all"}`} onClick=${() => choose(key)}>${text}${count !== undefined && count !== null ? html` <span class="count">${count}</span>` : null}</button>`)}</nav>`;
}

// Completeness stands beside any figure that is under 99.9 %.
export function Completeness({ share, lost }) {
  if (share === null || share === undefined || share >= 0.999) return null;
  return html`<span class="incomplete"><span class="glyph warn" aria-hidden="true">!</span> ${(share * 100).toFixed(1)} % recorded${lost ? `; recorder lost ${lost.toLocaleString("en-US")} events` : ""}</span>`;
}
