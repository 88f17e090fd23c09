// The table of all policies: only the rows in sight are part of the page.

import { behaviourColour, css, groupColour } from "./colours";
import type { Data } from "./data";
import { measurer } from "./distances";
import { byId, estimate, framed, make, number, whole } from "./format";
import { fitted } from "./names";
import { asButton } from "./sorting";
import { app, on, set, state } from "./state";

const ROW_HEIGHT = 28,
  ROWS_BEYOND = 6,
  ON_PAPER = 25;

let toA: import("./distances").Measurer | null = null;

/** What a column shows of row i. */
const CELL_WORDS: Record<string, (d: Data, i: number) => string> = {
  label: (d, i) => d.label[i],
  group: (d, i) => d.groups[d.group[i]] || "–",
  step: (d, i) => whole(d.step[i]),
  return: (d, i) =>
    number(d.returns[i]) + (Number.isFinite(d.deviation[i]) ? " ± " + number(d.deviation[i]) : ""),
  distance: (_, i) => (toA ? number(toA.between(state.a, i)) : "…"),
  episodes: (d, i) => whole(d.episodes[i]),
  states: (d, i) => whole(d.states[i]),
  behaviour: (d, i) => whole(d.behaviour[i] || NaN),
  source: (d, i) => d.source[i],
};

/** What a column names: a policy, run or class, its number and colour. */
const NAMES: Record<string, (d: Data, i: number) => [string, number, string] | null> = {
  label: (_, i) => ["row", i, ""],
  group: (d, i) => (d.group[i] < 0 ? null : ["run", d.group[i], groupColour(d.group[i])]),
  behaviour: (d, i) =>
    d.behaviour[i] ? ["class", d.behaviour[i], css(behaviourColour(d.behaviour[i]))] : null,
};

/** A name that can be pointed at and clicked; keys move through rows instead. */
const nameOf = (words: string, what: string, number: number, colour: string) => {
  const button = make("button", words, "entity"),
    dot = make("i", undefined, "dot");
  button.type = "button";
  button.tabIndex = -1;
  button.dataset[what] = number;
  dot.style.background = colour;
  if (colour) button.prepend(dot);
  return button;
};

/** What a column is sorted by, if not by its numbers; NaN comes last. */
const SORT_KEYS: Record<string, (d: Data) => ArrayLike<number>> = {
  label: (d) => textRanks(d.label),
  group: (d) => {
    const ranks = textRanks(d.groups);
    return Float64Array.from(d.group, (g) => ranks[g] ?? NaN);
  },
  return: (d) => d.returns,
  distance: (d) => Float64Array.from(d.group, (_, i) => (toA ? toA.between(state.a, i) : NaN)),
  behaviour: (d) => Float64Array.from(d.behaviour, (k) => k || NaN),
  source: (d) => textRanks(d.source),
};

/** Returns places in the alphabet, numbers within by their value; NaN of none. */
const textRanks = (texts: string[]): Float64Array => {
  const { compare } = new Intl.Collator("en", { numeric: true }),
    { order } = app.data,
    ranks = new Float64Array(texts.length);
  const rows = order.length === texts.length ? [...order] : [...texts.keys()]; // this order is nearly sorted already
  rows.sort((i, j) => compare(texts[i], texts[j]));
  rows.forEach((i, k) => {
    ranks[i] = texts[i] ? (k && texts[i] === texts[rows[k - 1]] ? ranks[rows[k - 1]] : k) : NaN;
  });
  return ranks;
};

/** Returns all rows; equal ones by run and step. */
const sortedRows = (keys: ArrayLike<number>, down: boolean): Int32Array => {
  const { n, order } = app.data,
    values = new Float64Array(n),
    place = new Int32Array(n);
  order.forEach((i, k) => {
    place[i] = k;
    values[i] = Number.isFinite(keys[i]) ? (down ? -keys[i] : keys[i]) : Infinity;
  });
  return order.slice().sort((i, j) => values[i] - values[j] || place[i] - place[j]);
};

export const tablePart = () => {
  app.data.outcomes.forEach((_, k) => {
    CELL_WORDS["outcome:" + k] = (d, i) => (d.outcomes[k] ? estimate(d.outcomes[k], i) : "–");
    SORT_KEYS["outcome:" + k] = (d) => d.outcomes[k]?.values ?? [];
  });
  const table = byId("policy-table"),
    scroller = table.parentElement,
    kept = table.tBodies[0],
    body = make("tbody", undefined, "sight");
  const heads: any[] = [...table.tHead.rows[0].cells],
    distance = heads.find((head) => head.dataset.column === "distance");
  let known: Record<string, ArrayLike<number>> = {};
  let order: Int32Array = new Int32Array(0),
    rows = order;
  let at = 0,
    column = "",
    down = false;

  const sort = () => {
    const { data } = app,
      keysOf = SORT_KEYS[column] || ((d) => (d as any)[column]);
    if (column === "distance") delete known[column];
    order = column ? sortedRows((known[column] ||= keysOf(data)), down) : data.order;
    follow();
  };
  const follow = () => {
    const before = rows[at],
      { n } = app.data;
    const { selection, found, shown } = state;
    rows = order.filter((i) => shown[i] && (!selection || selection[i]) && (!found || found[i]));
    at = Math.max(0, rows.indexOf(before));
    table.setAttribute("aria-rowcount", rows.length + 1);
    byId("shown-count").textContent =
      rows.length < n ? `${whole(rows.length)} of ${whole(n)} policies` : "";
    draw();
  };

  const space = (n: number) => {
    const row = make("tr", undefined, "space"),
      cell = make("td");
    cell.style.height = n * ROW_HEIGHT + "px";
    cell.colSpan = heads.filter((head) => !head.hidden).length;
    row.setAttribute("aria-hidden", "true");
    row.hidden = !n;
    row.append(cell);
    return row;
  };
  const line = (k: number) => {
    const { data } = app,
      i = rows[k],
      row = make("tr"),
      side = ["A", "B"][[state.a, state.b].indexOf(i)];
    row.id = "policy-" + i;
    row.dataset.row = i;
    row.setAttribute("aria-rowindex", k + 2);
    row.setAttribute("aria-selected", Boolean(side));
    row.classList.toggle("ref", data.reference[i]);
    row.classList.toggle("at", k === at);
    row.classList.toggle("chosen", Boolean(side));
    for (const head of heads)
      if (!head.hidden) {
        const { column: id } = head.dataset,
          words = CELL_WORDS[id](data, i),
          cell = make(id === "label" ? "th" : "td", undefined, head.className);
        if (id === "label") {
          cell.scope = "row";
          if (side) cell.append(make("b", side, "badge " + side.toLowerCase()));
        }
        if (!head.className) cell.title = words;
        const said = head.className
          ? words
          : fitted(words, head.room, 12.8, (data as any)[id === "group" ? "groups" : id]);
        const named = NAMES[id]?.(data, i);
        cell.append(named ? nameOf(said, ...named) : said);
        row.append(cell);
      }
    return row;
  };
  const inSight = () => (scroller.clientHeight - table.tHead.offsetHeight) / ROW_HEIGHT;
  const fill = () => {
    const top = Math.min(scroller.scrollTop / ROW_HEIGHT, rows.length),
      first = Math.max(0, Math.floor(top) - ROWS_BEYOND),
      last = Math.min(rows.length, Math.ceil(top + inSight()) + ROWS_BEYOND);
    for (const head of heads)
      head.room = head.clientWidth - (head.dataset.column === "source" ? 22 : 46);
    body.replaceChildren(
      space(first),
      ...Array.from({ length: last - first }, (_, k) => line(first + k)),
      space(rows.length - last),
    );
    if (at >= first && at < last) table.setAttribute("aria-activedescendant", "policy-" + rows[at]);
    else table.removeAttribute("aria-activedescendant");
  };
  const draw = framed(fill);
  const go = (k: number) => {
    at = Math.min(rows.length - 1, Math.max(0, k));
    scroller.scrollTop = Math.min(
      at * ROW_HEIGHT,
      Math.max(scroller.scrollTop, (at + 1 - inSight()) * ROW_HEIGHT),
    );
    fill();
    set({ hovered: rows[at] ?? -1 });
  };
  const compareToA = async () => {
    distance.hidden = state.a < 0;
    if (distance.hidden && column === "distance") {
      column = "";
      distance.removeAttribute("aria-sort");
    }
    draw();
    toA = distance.hidden ? null : await measurer();
    if (column === "distance" || !column) sort();
    else draw();
  };

  for (const head of heads)
    asButton(head).addEventListener("click", () => {
      down = head.ariaSort === "ascending";
      column = head.dataset.column;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.ariaSort = down ? "descending" : "ascending";
      sort();
    });
  body.addEventListener("click", (event: Event) => {
    const row = (event.target as Element).closest("tr");
    if (row?.dataset.row) at = rows.indexOf(Number(row.dataset.row));
  });
  table.addEventListener("keydown", (event: KeyboardEvent) => {
    if (event.target !== table || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(inSight()) - 1),
      i = rows[at];
    const goal: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: rows.length - 1,
    };
    if (event.key in goal) go(goal[event.key]);
    else if (event.key === "Enter" && rows.length) set(event.shiftKey ? { b: i } : { a: i });
    else return;
    event.preventDefault();
  });
  scroller.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(scroller);

  for (const row of [...kept.rows].slice(ON_PAPER)) row.remove();
  kept.className = "on-paper";
  table.classList.add("rolling");
  table.append(body);
  table.setAttribute("role", "grid");
  table.ariaMultiSelectable = "true";
  table.tabIndex = 0;
  table.tHead.rows[0].setAttribute("aria-rowindex", 1);
  on("data", () => {
    known = {};
    toA = null;
    sort();
  });
  on("shown found selection", follow);
  on("a data", compareToA);
  on("b colour", draw);
  sort();
  compareToA();
};
