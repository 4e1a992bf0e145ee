// The rows of one listing, of which the page holds only some. Pure; the table draws what it gives.
//
// The stream brings the first rows each second, the API brings those that somebody scrolls to. While the pointer or the
// focus is inside the table its order is frozen: values go on changing, rows stay where they are, so that nobody clicks
// on a row that has just taken the place of another.
import { classes, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import * as api from "./api.js";
import { number, visible } from "./format.js";
import { adjust, documents, route, say, trouble } from "./state.js";

export class Rows {
  constructor(keyOf) {
    this.keyOf = keyOf;
    this.order = [];       // index → key; holes are rows that were not asked for yet
    this.byKey = new Map();
    this.matched = 0;
    this.isFrozen = false;
    this.arrived = 0;      // rows that came while the order was frozen, and have no place yet
    this.present = null;   // while frozen: the keys that are still there, where all of them are known
  }

  take(offset, rows, matched) {
    if (this.isFrozen) return this.refresh(offset, rows, matched);
    this.matched = matched;
    this.arrived = 0;
    rows.forEach((row, place) => {
      const key = this.keyOf(row);
      this.order[offset + place] = key;
      this.byKey.set(key, row);
    });
    this.order.length = Math.min(this.order.length, matched);
    if (this.byKey.size > 2 * this.order.length + 100) this.sweep();
  }

  refresh(offset, rows, matched) {
    const placed = new Set(this.order);
    this.matched = Math.max(this.matched, this.order.length);
    this.arrived = 0;
    const isWhole = offset === 0 && rows.length >= matched;
    this.present = isWhole ? new Set(rows.map(this.keyOf)) : null;
    rows.forEach((row, place) => {
      const key = this.keyOf(row);
      const isHole = this.order[offset + place] === undefined && offset + place < matched;
      if (placed.has(key)) this.byKey.set(key, row);
      else if (isHole) {
        this.order[offset + place] = key;
        this.byKey.set(key, row);
      } else this.arrived += 1;
    });
  }

  // [{ index, key, row }] from `first` to `last`; `row` is undefined where it must be fetched.
  window(first, last) {
    const shown = [];
    for (let index = first; index < Math.min(last, this.matched); index++) {
      const key = this.order[index];
      const hasLeft = this.isFrozen && Boolean(this.present) && key !== undefined && !this.present.has(key);
      shown.push({ index, key, row: key === undefined ? undefined : this.byKey.get(key), hasLeft });
    }
    return shown;
  }

  sweep() {
    const placed = new Set(this.order);
    for (const key of this.byKey.keys()) if (!placed.has(key)) this.byKey.delete(key);
  }
}

// --- table ------------------------------------------------------------------------------------------

// A real table whose rows are virtual: 28 px each, so that 5,000 of them cost as much as 40. Filter, sort and counts are
// the server's; the first rows come with the stream, those further down are fetched while somebody looks at them.

export const ROW_PX = 28;
export const STREAMED = 200;  // rows that come with each snapshot
const PAGE = 100;
const OVERSCAN = 8;

// What keys do in the table that is on the screen: set by it, used by keys.js.
export const current = { move: null, open: null };

export function Table({ topic, kind, columns, keyOf, stateOf, sort: usual, empty, label }) {
  const { params } = route.value;
  const sort = params.sort ?? usual;
  const filter = params.filter ?? "";
  const store = useMemo(() => new Rows(keyOf), [topic, sort, filter]);
  const [view, setView] = useState({ first: 0, count: 40 });
  const [, redraw] = useState(0);
  const [cursor, setCursor] = useState(0);
  const box = useRef(null);
  const pointer = useRef({ isInside: false, hasFocus: false });
  const told = documents.value[topic];

  useMemo(() => {
    if (told && told.rows) store.take(0, told.rows, told.total ?? told.rows.length);
  }, [told, store]);

  useEffect(() => setCursor(0), [topic, sort, filter]);
  usePages(topic, { sort, filter }, store, view, told, redraw);
  useSize(box, setView);
  useKeys(store, box, setCursor);

  const freeze = (change) => {
    Object.assign(pointer.current, change);
    const isFrozen = pointer.current.isInside || pointer.current.hasFocus;
    if (isFrozen === store.isFrozen) return;
    store.isFrozen = isFrozen;
    if (!isFrozen && told?.rows) store.take(0, told.rows, told.total ?? told.rows.length);
    redraw((n) => n + 1);
  };
  const first = Math.max(0, view.first - OVERSCAN);
  const shown = store.window(first, view.first + view.count + OVERSCAN);
  const below = Math.max(0, store.matched - first - shown.length);
  if (!told) return html`<p class="waiting">Waiting for the first snapshot …</p>`;
  if (store.matched === 0 || told.total === 0) return empty(filter);
  return html`
    <div class="rows" ref=${box} data-testid=${`${kind}-rows`} onScroll=${() => setView(seen(box.current))}
      onPointerEnter=${() => freeze({ isInside: true })} onPointerLeave=${() => freeze({ isInside: false })}
      onFocusIn=${() => freeze({ hasFocus: true })} onFocusOut=${(event) => freeze({ hasFocus: !!box.current?.contains(event.relatedTarget) })}>
      <table aria-label=${label} aria-rowcount=${store.matched + 1}>
        <${Head} columns=${columns} sort=${sort} />
        <tbody>
          <${Spacer} rows=${first} wide=${columns.length} />
          ${shown.map(({ index, key, row, hasLeft }) => html`<${Line} key=${key ?? `hole-${index}`} ...${{ kind, index, row, hasLeft, columns, stateOf, id: key }}
            isChosen=${key !== undefined && key === params.sel} isCursor=${index === cursor} />`)}
          <${Spacer} rows=${below} wide=${columns.length} />
        </tbody>
      </table>
    </div>
    <p class="foot"><${Count} told=${told} matched=${store.matched} />${store.isFrozen ? html` · <span data-testid="frozen">order held while you are here${store.arrived ? `, ${store.arrived} new` : ""}</span>` : null}</p>`;
}

function Count({ told, matched }) {
  const all = told.all ?? matched;
  const problems = told.problems ? `, ${number(told.problems)} with a problem` : "";
  return html`<span data-testid="count">${matched < all ? `${number(matched)} of ${number(all)}` : `${number(all)} in all`}${problems}</span>`;
}

const Spacer = ({ rows, wide }) =>
  rows > 0 ? html`<tr class="spacer" aria-hidden="true"><td colspan=${wide} style=${{ height: `${rows * ROW_PX}px` }}></td></tr>` : null;

function Head({ columns, sort }) {
  const name = sort.replace(/^-/, "");
  return html`<thead><tr aria-rowindex="1">${columns.map((column) => {
    const isSorted = column.sort && column.sort === name;
    const order = isSorted ? (sort.startsWith("-") ? "descending" : "ascending") : column.sort ? "none" : undefined;
    const next = isSorted && !sort.startsWith("-") ? `-${name}` : isSorted ? name : `${column.isNumber ? "-" : ""}${column.sort}`;
    return html`<th scope="col" class=${classes(column.isNumber && "num", column.isWide && "wide")} aria-sort=${order}>${column.sort
      ? html`<button type="button" onClick=${() => adjust({ sort: next })}>${column.title}${isSorted ? html`<span aria-hidden="true">${sort.startsWith("-") ? " ↓" : " ↑"}</span>` : null}</button>`
      : column.title}</th>`;
  })}</tr></thead>`;
}

function Line({ kind, index, id, row, hasLeft, columns, stateOf, isChosen, isCursor }) {
  if (!row) return html`<tr class="hole"><td colspan=${columns.length}>…</td></tr>`;
  const choose = (event) => {
    if (event.target.closest("button, input, a.elsewhere")) return;
    event.preventDefault();
    adjust({ sel: isChosen ? "" : id }, true);
  };
  return html`<tr data-testid=${hasLeft ? `${kind}-left` : `${kind}-row`} class=${hasLeft ? "left" : ""} data-key=${id} data-state=${stateOf(row)} aria-rowindex=${index + 2} aria-current=${isChosen ? "true" : undefined} onClick=${choose}>
    ${columns.map((column) => html`<td class=${classes(column.isNumber && "num", column.isWide && "wide", column.isName && "key")}>${column.isName
      ? html`<a class="row" href="#" tabindex=${isCursor ? 0 : -1} data-index=${index}>${visible(column.cell(row))}</a>`
      : column.cell(row)}</td>`)}
  </tr>`;
}

const seen = (element) => ({
  first: Math.floor(element.scrollTop / ROW_PX),
  count: Math.ceil((element.clientHeight || 800) / ROW_PX),
});

function useSize(box, setView) {
  useLayoutEffect(() => {
    if (!box.current) return undefined;
    const watcher = new ResizeObserver(() => box.current && setView(seen(box.current)));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [box.current]);
}

// Rows beyond the streamed ones are fetched when they come into sight, and again with each snapshot while they stay there.
function usePages(topic, { sort, filter }, store, view, told, redraw) {
  const last = view.first + view.count;
  useEffect(() => {
    if (!told || last <= STREAMED || view.first >= store.matched) return undefined;
    let isWanted = true;
    const offset = Math.max(0, Math.floor(view.first / PAGE) * PAGE);
    const timer = setTimeout(async () => {
      try {
        const page = await api.listing(topic, { filter, sort, offset, limit: last - offset + PAGE });
        if (!isWanted) return;
        store.take(offset, page.rows, page.total);
        redraw((n) => n + 1);
      } catch (error) {
        if (isWanted && error.code !== 401) say(error.message);
      }
    }, 60);
    return () => { isWanted = false; clearTimeout(timer); };
  }, [topic, sort, filter, store, Math.floor(view.first / PAGE), Math.floor(last / PAGE), told?.seq]);
}

// The place is kept beside what is drawn, for keys come faster than frames. -1: nobody has walked here yet.
function useKeys(store, box, setCursor) {
  const place = useRef(-1);
  useEffect(() => { place.current = -1; }, [store]);
  useEffect(() => {
    current.move = (step) => {
      const next = Math.max(Math.min(place.current + step, store.matched - 1), 0);
      place.current = next;
      setCursor(next);
      reveal(box.current, next);
      requestAnimationFrame(() => requestAnimationFrame(() => box.current?.querySelector(`a.row[data-index="${place.current}"]`)?.focus()));
    };
    current.open = () => {
      const key = store.order[Math.max(place.current, 0)];
      if (key !== undefined) adjust({ sel: key }, true);
    };
    return () => { current.move = null; current.open = null; };
  });
}

function reveal(element, index) {
  if (!element) return;
  const [top, bottom] = [index * ROW_PX, (index + 1) * ROW_PX + ROW_PX];
  if (top < element.scrollTop) element.scrollTop = top;
  else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
}

export function Filter({ hint }) {
  const asked = route.value.params.filter ?? "";
  const [text, setText] = useState(asked);
  const timer = useRef(0);
  useEffect(() => setText(asked), [asked]);
  const write = (event) => {
    const value = event.currentTarget.value;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => adjust({ filter: value.trim(), sel: "" }), 200);
  };
  return html`<div class="filter"><input id="filter" type="search" value=${text} placeholder=${hint} aria-label="Filter" aria-invalid=${trouble.value ? "true" : undefined}
    autocomplete="off" spellcheck=${false} maxlength="400" onInput=${write} />
    ${trouble.value ? html`<p class="wrong" role="alert" data-testid="filter-trouble">${trouble.value}</p>` : null}</div>`;
}
