// Where everything of the topology stands: a pure function from rows of `network` to boxes and links, in pixels.
//
// No forces and no measuring: sizes are constants, so the same network is always drawn the same, and an operator finds a
// broker where it was yesterday. Groups stand left to right, a group before those that stand in for it. Peers share one rail
// a group instead of n² lines; only what is broken gets a line of its own.

export const CARD = { w: 208, h: 74 };
export const DOCKED = { w: 124, h: 46 };
export const BROKERS_MAX = 24; // above it a group is one card

const MARGIN = 24;
const TITLE = 30;     // a group's name
const RAIL = 22;      // between a group's edge and its cards, where the rail runs
const ROW_GAP = 18;
const STREAM = 78;    // the state-stream link between a broker and its fallback
const GROUP_GAP = 44;
const LANE = 22;      // between arrows to fallback groups
const HEARD_US = 3e6; // a broken link over which something was heard so lately is cut one way

export function layout(rows, rates = {}) {
  const fallbacks = new Set(rows.map((row) => row.fallback_broker).filter(Boolean));
  const isCollapsed = rows.length > BROKERS_MAX;
  const groups = orderGroups(rows);
  const boxes = [];
  const links = [];
  const frames = [];
  let x = MARGIN;
  for (const name of groups) {
    const members = rows.filter((row) => groupOf(row) === name);
    const frame = isCollapsed ? collapsed(name, members, x, boxes) : stacked(name, members, rows, fallbacks, x, boxes, links);
    frames.push(frame);
    x += frame.w + GROUP_GAP;
  }
  const bottom = Math.max(MARGIN, ...frames.map((frame) => frame.y + frame.h));
  for (const frame of frames) links.push(...rail(frame, boxes));
  if (frames.length > 1) links.push(bus(frames));
  links.push(...faults(rows, boxes));
  const lanes = standIns(rows, frames, bottom, rates);
  links.push(...lanes);
  const width = x - GROUP_GAP + MARGIN;
  return { boxes, links, frames, isCollapsed, width: Math.max(width, CARD.w), height: bottom + MARGIN + lanes.length * LANE };
}

const groupOf = (row) => row.group || "";

// A group comes before its fallback groups; otherwise they stay in the document's order. A circle is cut where it closes.
export function orderGroups(rows) {
  const after = new Map();
  for (const row of rows) {
    if (!after.has(groupOf(row))) after.set(groupOf(row), []);
    for (const next of row.fallback_groups || []) after.get(groupOf(row)).push(next);
  }
  const stoodIn = new Set([...after.values()].flat());
  const ordered = [];
  const visit = (name) => {
    if (!after.has(name) || ordered.includes(name)) return;
    ordered.push(name);
    for (const next of after.get(name)) visit(next);
  };
  for (const name of after.keys()) if (!stoodIn.has(name)) visit(name);
  for (const name of after.keys()) visit(name);
  return ordered;
}

function stacked(name, members, rows, fallbacks, x, boxes, links) {
  const inner = x + RAIL;
  const shown = members.filter((row) => !fallbacks.has(row.identity) || isOrphan(row, rows));
  const hasDocked = shown.some((row) => partnerOf(row, rows));
  let y = MARGIN + TITLE;
  for (const row of shown) {
    const box = { kind: "broker", id: row.identity, x: inner, y, ...CARD, row };
    boxes.push(box);
    const partner = partnerOf(row, rows);
    if (partner) boxes.push(dock(row, partner, box, links));
    y += CARD.h + ROW_GAP;
  }
  const width = RAIL + CARD.w + (hasDocked ? STREAM + DOCKED.w : 0) + 12;
  return { name, x, y: MARGIN, w: width, h: Math.max(y - ROW_GAP + 12 - MARGIN, TITLE + CARD.h), brokers: members.length };
}

// A fallback broker whose primary is not in the document is a broker like any other.
const isOrphan = (row, rows) => !rows.some((one) => one.fallback_broker === row.identity);
const partnerOf = (row, rows) => rows.find((one) => one.identity === row.fallback_broker);

function dock(primary, partner, box, links) {
  const serves = partner.state === "active" && primary.state !== "active";
  const y = box.y + (CARD.h - DOCKED.h) / 2;
  const docked = { kind: "fallback", id: partner.identity, x: box.x + CARD.w + STREAM, y, ...DOCKED, row: partner, serves };
  const middle = y + DOCKED.h / 2;
  links.push({
    kind: "stream", from: primary.identity, to: partner.identity, x1: box.x + CARD.w, y1: middle, x2: docked.x, y2: middle,
    lag_us: (serves ? partner : primary).lag_us ?? null, word: serves ? "serves" : primary.fallback || partner.state,
  });
  return docked;
}

function collapsed(name, members, x, boxes) {
  const counts = {};
  for (const row of members) counts[row.state] = (counts[row.state] || 0) + 1;
  boxes.push({ kind: "group", id: name, x: x + RAIL, y: MARGIN + TITLE, ...CARD, counts, members: members.map((row) => row.identity) });
  return { name, x, y: MARGIN, w: RAIL + CARD.w + 12, h: TITLE + CARD.h + 12, brokers: members.length };
}

function rail(frame, boxes) {
  const cards = boxes.filter((box) => box.kind !== "fallback" && box.x === frame.x + RAIL);
  if (cards.length === 0) return [];
  const x = frame.x + RAIL / 2;
  const stubs = cards.map((box) => box.y + box.h / 2);
  return [{ kind: "rail", group: frame.name, x, y1: MARGIN + TITLE, y2: stubs.at(-1), stubs, to: frame.x + RAIL }];
}

const bus = (frames) => ({
  kind: "bus", y: MARGIN + TITLE - 4, x1: frames[0].x + RAIL / 2, x2: frames.at(-1).x + RAIL / 2,
});

// One broker tells what it sees, so every fault is a line from it to another.
function faults(rows, boxes) {
  const own = rows.find((row) => row.is_self);
  const from = own && boxes.find((box) => box.id === own.identity);
  if (!from) return [];
  const broken = rows.filter((row) => !row.is_self && ["down", "dialing"].includes(row.link));
  return broken.flatMap((row) => {
    const to = boxes.find((box) => box.id === row.identity);
    if (!to) return [];
    const isOneWay = row.link === "dialing" && row.heard_us !== null && row.heard_us < HEARD_US;
    const noteY = to.y > from.y ? to.y - 5 : to.y + to.h + 11; // above or below the card that is meant, where no card is
    return [{ kind: "fault", from: own.identity, to: row.identity, isOneWay, heard_us: row.heard_us, noteY, ...between(from, to) }];
  });
}

// Around the left where one box is above the other; else from the top of the one, over what stands between, to the other's side.
function between(from, to) {
  if (from.x === to.x) {
    const [x, y1, y2] = [from.x, from.y + from.h / 2 + 8, to.y + to.h / 2 - 8];
    return { x1: x, y1, x2: x, y2, cx: x - 46, cy: (y1 + y2) / 2 };
  }
  const isRight = to.x > from.x;
  const [x1, y1] = [from.x + (isRight ? from.w - 24 : 24), from.y];
  if (isRight && to.kind !== "fallback") return { x1, y1, x2: to.x, y2: to.y + to.h / 2, cx: to.x - 60, cy: Math.min(y1, to.y) - 40 };
  const x2 = to.x + (isRight ? 24 : to.w - 24);
  return { x1, y1, x2, y2: to.y, cx: (x1 + x2) / 2, cy: Math.min(y1, to.y) - 40 };
}

// Arrows below the groups, a lane each: who is asked first, second, …, and how many tasks a second go there now.
function standIns(rows, frames, bottom, rates) {
  const seen = new Set();
  const arrows = [];
  for (const row of rows) {
    (row.fallback_groups || []).forEach((name, place) => {
      const from = frames.find((frame) => frame.name === groupOf(row));
      const to = frames.find((frame) => frame.name === name);
      const key = `${groupOf(row)}\n${name}`;
      if (!from || !to || seen.has(key)) return;
      seen.add(key);
      const perS = rows.filter((one) => groupOf(one) === name).reduce((sum, one) => sum + (rates[one.identity] || 0), 0);
      const isOwn = rows.some((one) => one.is_self && groupOf(one) === groupOf(row));
      arrows.push({
        kind: "standin", from: from.name, to: to.name, order: place + 1, per_s: isOwn ? perS : null, isIdle: !perS,
        x1: from.x + from.w / 2 + 14 * place, y1: from.y + from.h, x2: to.x + to.w / 2 - 14 * (place + 1), y2: to.y + to.h,
        y: bottom + 14 + arrows.length * LANE,
      });
    });
  }
  return arrows;
}
