// What operators may do: which command, how surely it must be meant, what it will do, and what came of it.
//
// Roles and tiers come from the server (`me.commands`), so that the page cannot know them otherwise than it. An action is
// pending until its answer *and* the event with its command id are there; the page never shows a change that it only hopes for.
import { classes, html, useLayoutEffect, useRef, useState } from "./lib.js";
import * as api from "./api.js";
import { lineOf, number, plural, visible } from "./format.js";
import { CommandLine, State } from "./parts.js";
import { actions, addAction, areActionsOff, dialog, dismiss, isPending, me, settle } from "./state.js";

export const commandOf = (name) => me.value?.commands.find((one) => one.name === name);

// Why a control is off, or nothing.
export function whyOff(name) {
  const command = commandOf(name);
  if (!command) return "this broker does not know it";
  if (!command.allowed) return `needs the role ${command.role}`;
  return areActionsOff.value ? "the stream is lost" : "";
}

// { name, verb, object, args, brokers, effect, tier?, typed? }: `Drain eu-2`. `typed`: what must be typed, the object if not told.
export function begin(wish) {
  if (whyOff(wish.name)) return;
  const tier = wish.tier ?? commandOf(wish.name).tier;
  if (tier === 1) run(wish);
  else dialog.value = { ...wish, tier };
}

export async function run(wish) {
  const id = crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const many = wish.many || [wish.args || {}];
  addAction({ id, key: keyOf(wish), title: `${wish.verb} ${wish.object}`, state: "pending", results: [], started: Date.now() });
  let last;
  for (const [place, args] of many.entries()) {
    last = await attempt(wish, args, many.length > 1 ? `${id}.${place}` : id, id);
    if (last instanceof api.Refusal && many.length === 1) break;
  }
  const known = actions.value.find((one) => one.id === id);
  if (many.length > 1 && known) settle(id, { answer: true, seen: true, outcome: known.failures ? "partial" : "done" });
  return last;
}

async function attempt(wish, args, commandId, id) {
  const isOne = commandId === id;
  try {
    const answer = await api.command(wish.name, args, wish.brokers || "own", commandId);
    const outcome = answer.results && !answer.complete ? "partial" : "done";
    const isChange = commandOf(wish.name)?.is_change ?? wish.name !== "config_check";
    if (isOne) settle(id, { answer, answeredAt: performance.now(), outcome, results: answer.results || [], seen: seenOf(id) || !isChange });
    return answer;
  } catch (error) {
    const known = actions.value.find((one) => one.id === id);
    if (isOne) settle(id, { refusal: { code: error.code, text: error.message, cure: error.cure } });
    else settle(id, { failures: (known?.failures || 0) + 1, results: [...(known?.results || []), { broker: args.task || "", code: error.code, text: error.message }] });
    return error;
  }
}

const seenOf = (id) => actions.value.find((one) => one.id === id)?.seen || false;

export const keyOf = (wish) => `${wish.name} ${wish.object}`;

export const lineOfWish = (wish) => (wish.many ? wish.many.map((args) => lineOf(wish.name, args, wish.brokers)).join("; ") : lineOf(wish.name, wish.args, wish.brokers));

// --- what can be done with what ------------------------------------------------------------------------------------

const onBroker = (name, verb, row, effect, more = {}) => ({
  name, verb, object: row.identity, args: {}, brokers: row.is_self ? "own" : [row.identity], effect, ...more,
});

export function brokerActions(row) {
  const workers = row.workers ? plural(row.workers, "worker") : "no worker";
  const waiting = row.queued ? `, ${plural(row.queued, "queued task")} ${row.queued === 1 ? "finishes" : "finish"} here` : "";
  const move = `${workers} ${row.workers === 1 ? "moves" : "move"} to other brokers${waiting}`;
  const isOff = ["disabled", "disabling", "draining"].includes(row.state);
  return [
    isOff && onBroker("enable", "Enable", row, "It accepts tasks again."),
    !isOff && onBroker("drain", "Drain", row, `${move}; it accepts nothing new until it is enabled.`),
    row.state !== "disabled" && onBroker("disable", "Disable", row, `It accepts nothing more, also after a restart; ${move}.`),
    { name: "failback", verb: "Fail back to", object: row.identity, args: { broker: row.identity }, brokers: "all", effect: "Those who came from it to other brokers are sent back." },
    onBroker("reload_config", "Reload config of", row, ""),
    row.fallback_broker && onBroker("handover", "Hand over", row, `${row.fallback_broker} serves instead; nothing is lost.`),
    ["gone", "unknown"].includes(row.state) && !row.is_self && {
      name: "forget_broker", verb: "Forget", object: row.identity, args: { broker: row.identity }, effect: "It is taken out of the network's config.",
    },
  ].filter(Boolean);
}

export function workerActions(row) {
  const busy = row.busy || 0;
  return [{
    name: "kick_worker", verb: "Kick", object: row.identity, args: { worker: row.identity }, tier: busy > 0 ? 3 : 2,
    effect: busy ? `${plural(busy, "task")} in flight ${busy === 1 ? "is" : "are"} lost and tried again where the service is idempotent. It may connect again.` : "Its session ends; no task is in flight. It may connect again.",
  }];
}

export const taskActions = (row) => [{
  name: "cancel_task", verb: "Cancel", object: row.id, label: "Cancel this task", args: { task: row.id },
  effect: row.state === "queued" ? "It leaves the queue; its client hears 499." : `Its client hears 499; ${row.worker || "its worker"} is told, and what it replies is discarded.`,
}];

export const letterActions = (row) => [{
  name: "retry_dead_letter", verb: "Retry", object: row.id, label: "Retry this task", args: { task: row.id },
  effect: `A new task of ${row.service}, asked by the broker itself; the letter leaves the list if it succeeds.`,
}];

export const lettersActions = (rows, network) => [
  rows.length > 1 && {
    name: "retry_dead_letter", verb: "Retry", object: `${number(rows.length)} dead letters`, many: rows.map((row) => ({ task: row.id })), tier: 3, typed: network,
    effect: `${number(rows.length)} new tasks, one after another; each letter leaves the list if it succeeds.`,
  },
  { name: "clear_dead_letters", verb: "Clear", object: "all dead letters", args: {}, effect: "They are forgotten; nobody can retry them any more." },
].filter(Boolean);

export const errorClientActions = (row) => [{
  name: "clear_error_client", verb: "Forgive", object: row.connection, args: { connection: row.connection },
  effect: "What it sends is read again.",
}];

// --- dialogs ------------------------------------------------------------------------------------------

// Buttons that do something, the dialogs that ask whether it is meant, and what came of it, broker by broker.

// `wish` as in actions.js. A control that may not be used says which role it needs.
export function Action({ wish, label }) {
  const off = whyOff(wish.name);
  const isBusy = isPending(keyOf(wish));
  return html`<button type="button" class=${classes("action", isBusy && "pending")} data-testid=${`action-${wish.name}`} disabled=${Boolean(off) || isBusy}
    title=${off || undefined} onClick=${() => begin(wish)}>${isBusy ? "◒ " : ""}${label || wish.label || `${wish.verb} ${visible(wish.object)}`}${off ? html` <span class="why">${off}</span>` : null}</button>`;
}

export const Actions = ({ of }) => (of.length ? html`<div class="actions">${of.map((wish) => html`<${Action} key=${keyOf(wish)} wish=${wish} />`)}</div>` : null);

export function Confirm() {
  const wish = dialog.value;
  const element = useRef(null);
  const [typed, setTyped] = useState("");
  // With the layout, so that a dialog that can be seen can be closed: Escape does nothing to one that is not open yet.
  useLayoutEffect(() => {
    setTyped("");
    if (wish && !element.current.open) element.current.showModal();
  }, [wish]);
  if (!wish) return null;
  const title = `${wish.verb} ${visible(wish.object)}`;
  const name = wish.typed || wish.object;
  const off = whyOff(wish.name);
  const isMeant = !off && (wish.tier < 3 || typed === name);
  const close = () => { dialog.value = null; };
  const confirm = (event) => {
    event.preventDefault();
    if (!isMeant) return;
    close();
    run(wish);
  };
  return html`<dialog ref=${element} data-testid="confirm" aria-labelledby="confirm-title" onClose=${close} onCancel=${close}>
    <form method="dialog" onSubmit=${confirm}>
      <h2 id="confirm-title">${title}?</h2>
      <p data-testid="confirm-effect">${visible(wish.effect)}</p>
      ${wish.detail || null}
      ${wish.tier === 3 ? html`<label class="typed"><span>Type <b class="name">${visible(name)}</b> to go on</span>
        <input data-testid="confirm-name" value=${typed} autocomplete="off" spellcheck=${false} onInput=${(event) => setTyped(event.currentTarget.value)} /></label>` : null}
      <p class="muted">The same on the command line:</p>
      <${CommandLine}>${lineOfWish(wish)}<//>
      ${off ? html`<p class="wrong">${off}</p>` : null}
      <div class="choices"><button type="button" class="quiet" onClick=${close} data-testid="confirm-cancel">Leave it as it is</button>
        <button type="submit" class="danger" disabled=${!isMeant} data-testid="confirm-go">${title}</button></div>
    </form></dialog>`;
}

// What is under way and what came of it, at the lower edge; not a live region: the verdict alone is read out.
export function Progress() {
  if (actions.value.length === 0) return null;
  return html`<section class="progress" aria-label="Actions">${actions.value.map((one) => html`<${Outcome} key=${one.id} of=${one} />`)}</section>`;
}

function Outcome({ of: one }) {
  const isOver = one.state !== "pending";
  const refused = one.results.filter((result) => result.code >= 400);
  return html`<div class=${classes("outcome", one.state)} data-testid="outcome" data-state=${one.state}>
    <${State} state=${one.state} word=${`${one.title}: ${WORDS[one.state]}`} />
    ${one.refusal ? html`<p>${one.refusal.code ? `${one.refusal.code} ` : ""}${visible(one.refusal.text)}</p>` : null}
    ${one.refusal?.cure ? html`<p class="muted">${visible(one.refusal.cure)}</p>` : null}
    ${one.note ? html`<p class="muted">${one.note}</p>` : null}
    ${one.results.length ? html`<ul class="results">${one.results.map((result) => html`<li data-testid="outcome-broker" data-code=${result.code}>
      <${State} state=${result.code < 400 ? "done" : "failed"} word=${`${result.broker} ${result.code}`} />${result.text ? ` ${visible(result.text)}` : ""}</li>`)}</ul>` : null}
    ${refused.length ? html`<p class="muted">${one.results.length - refused.length} of ${one.results.length} did it</p>` : null}
    ${isOver ? html`<button type="button" class="quiet close" aria-label=${`Dismiss ${one.title}`} onClick=${() => dismiss(one.id)}>×</button>` : null}
  </div>`;
}

const WORDS = { pending: "pending …", done: "done", partial: "done in part", failed: "refused" };
