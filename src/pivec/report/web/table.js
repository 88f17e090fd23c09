// The table of all policies: only the rows in sight are part of the page.
import { byId, framed, make, number, whole } from "./format.js";
import { app, choose, on, set, state } from "./state.js";
import { measurer } from "./distances.js";
import { groupColour } from "./colours.js";
import { squeezed } from "./pen.js";

const ROW_HEIGHT = 34, ROWS_BEYOND = 6, ON_PAPER = 25;

/** @type {import("./distances.js").Measurer | null} */
let toA = null;

/** What is shown in a column of row i. @type {Record<string, (i: number) => string>} */
const CELL_WORDS = {
  label: (i) => app.data.label[i],
  group: (i) => app.data.groups[app.data.group[i]] || "–",
  step: (i) => whole(app.data.step[i]),
  return: (i) => number(app.data.returns[i]) + (Number.isFinite(app.data.deviation[i]) ? " ± " + number(app.data.deviation[i]) : ""),
  distance: (i) => (toA ? number(toA.between(state.a, i)) : "…"),
  episodes: (i) => whole(app.data.episodes[i]),
  states: (i) => whole(app.data.states[i]),
  behaviour: (i) => whole(app.data.behaviour[i] || NaN),
  source: (i) => app.data.source[i],
};

/** What a column is sorted by; NaN comes last. @type {Record<string, () => ArrayLike<number>>} */
const SORT_KEYS = {
  label: () => textRanks(app.data.label),
  group: () => { const of = textRanks(app.data.groups); return Float64Array.from(app.data.group, (g) => (g < 0 ? NaN : of[g])); },
  return: () => app.data.returns,
  distance: () => Float64Array.from(app.data.label, (_, i) => (toA ? toA.between(state.a, i) : NaN)),
  behaviour: () => Float64Array.from(app.data.behaviour, (k) => k || NaN),
  source: () => textRanks(app.data.source),
};

/** @param {string[]} texts @returns {Float64Array} places in the alphabet, numbers within by their value; NaN of none */
const textRanks = (texts) => {
  const { compare } = new Intl.Collator("en", { numeric: true }), { order } = app.data;
  const numbers = order.length === texts.length ? [...order] : [...texts.keys()];  // this order is nearly sorted already
  numbers.sort((i, j) => compare(texts[i], texts[j]));
  const places = new Float64Array(texts.length);
  numbers.forEach((i, k) => { places[i] = texts[i] === "" ? NaN : k && texts[i] === texts[numbers[k - 1]] ? places[numbers[k - 1]] : k; });
  return places;
};

/** @param {ArrayLike<number>} keys @param {boolean} down @returns {Int32Array} all rows; equal ones by run and step */
export const sortedRows = (keys, down) => {
  const { n, order } = app.data, values = new Float64Array(n), place = new Int32Array(n);
  for (let k = 0; k < n; k++) {
    const i = order[k], value = keys[i];
    place[i] = k; values[i] = Number.isFinite(value) ? (down ? -value : value) : Infinity;
  }
  return order.slice().sort((i, j) => values[i] - values[j] || place[i] - place[j]);
};

export const tablePart = () => {
  const table = byId("policy-table"), scroller = table.parentElement, kept = table.tBodies[0], body = make("tbody");
  /** @type {any[]} */
  const heads = [...table.tHead.rows[0].cells];
  /** @type {Record<string, ArrayLike<number>>} */
  let known = {};
  /** @type {Int32Array} */
  let order = new Int32Array(0), rows = order;
  let at = 0, column = "", down = false;

  const shownHeads = () => heads.filter((head) => !head.hidden);
  const sort = () => {
    if (!column) order = app.data.order;
    else order = sortedRows(column === "distance" ? SORT_KEYS.distance() : known[column] ||= (SORT_KEYS[column] || (() => /** @type {any} */ (app.data)[column]))(), down);
    follow();
  };
  const follow = () => {
    const before = rows[at];
    rows = order.filter((i) => state.shown[i]);
    at = Math.max(0, rows.indexOf(before));
    table.setAttribute("aria-rowcount", String(rows.length + 1));
    byId("filter-count").textContent = (rows.length < app.data.n ? whole(rows.length) + " of " : "") + whole(app.data.n) + (app.data.n === 1 ? " policy" : " policies");
    draw();
  };

  const space = (/** @type {number} */ n) => {
    const row = make("tr", undefined, "space"), cell = make("td");
    cell.colSpan = shownHeads().length; cell.style.height = n * ROW_HEIGHT + "px";
    row.setAttribute("aria-hidden", "true"); row.hidden = !n;
    row.append(cell);
    return row;
  };
  const line = (/** @type {number} */ k) => {
    const i = rows[k], row = make("tr"), { data } = app;
    row.id = "policy-" + i; row.dataset.i = String(i);
    row.setAttribute("aria-rowindex", String(k + 2));
    row.setAttribute("aria-selected", String(i === state.a || i === state.b));
    row.className = (data.reference[i] ? "ref " : "") + (k === at ? "at " : "") + (i === state.a ? "is-a" : i === state.b ? "is-b" : "");
    for (const head of shownHeads()) {
      const name = head.dataset.column, words = CELL_WORDS[name](i), cell = make(name === "label" ? "th" : "td", undefined, head.className);
      if (name === "label") { cell.scope = "row"; if (i === state.a || i === state.b) cell.append(make("b", i === state.a ? "A" : "B", i === state.a ? "badge" : "badge b")); }
      if (name === "group" && data.group[i] >= 0) { const dot = make("i", undefined, "dot"); dot.style.background = groupColour(data.group[i]); cell.append(dot); }
      if (head.classList.contains("n")) cell.append(words);
      else { cell.append(squeezed(words, head.room)); cell.title = words; }
      row.append(cell);
    }
    return row;
  };
  const visible = () => (scroller.clientHeight - table.tHead.offsetHeight) / ROW_HEIGHT;
  const fill = () => {
    const top = Math.min(scroller.scrollTop / ROW_HEIGHT, rows.length), first = Math.max(0, Math.floor(top) - ROWS_BEYOND), last = Math.min(rows.length, Math.ceil(top + visible()) + ROWS_BEYOND);
    for (const head of heads) head.room = Math.max(8, (head.clientWidth - (head.dataset.column === "source" ? 16 : 38)) / 6.8);  // letters of a usual width
    const lines = Array.from({ length: last - first }, (_, k) => line(first + k));
    body.replaceChildren(space(first), ...lines, space(rows.length - last));
    if (at >= first && at < last) table.setAttribute("aria-activedescendant", "policy-" + rows[at]);
    else table.removeAttribute("aria-activedescendant");
    mark();
  };
  const draw = framed(fill);
  const mark = () => { for (const row of body.rows) row.classList.toggle("hot", row.dataset.i === String(state.hovered)); };

  const go = (/** @type {number} */ k) => {
    at = Math.min(rows.length - 1, Math.max(0, k));
    if (at * ROW_HEIGHT < scroller.scrollTop) scroller.scrollTop = at * ROW_HEIGHT;
    else if ((at + 1 - visible()) * ROW_HEIGHT > scroller.scrollTop) scroller.scrollTop = (at + 1 - visible()) * ROW_HEIGHT;
    fill();
    if (rows.length) set({ hovered: rows[at] });
  };
  const pick = (/** @type {"a" | "b"} */ side, /** @type {number} */ i) => {
    const other = side === "a" ? "b" : "a";
    set(state[other] === i ? { [side]: i, [other]: state[side] } : { [side]: i });  // the two change places
  };

  const chosenA = async () => {
    const head = heads.find((h) => h.dataset.column === "distance"), there = state.a >= 0;
    head.hidden = !there;
    if (!there && column === "distance") { column = ""; head.removeAttribute("aria-sort"); sort(); }
    draw();
    if (!there) return;
    toA = await measurer();
    if (column === "distance") sort(); else draw();
  };

  heads.forEach((head) => {
    const button = make("button", head.textContent);
    button.type = "button"; head.replaceChildren(button);
    button.addEventListener("click", () => {
      down = head.getAttribute("aria-sort") === "ascending"; column = head.dataset.column;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort();
    });
  });
  const rowOf = (/** @type {any} */ event) => { const row = event.target.closest("tr[data-i]"); return row ? Number(row.dataset.i) : -1; };
  body.addEventListener("mouseover", (/** @type {any} */ event) => set({ hovered: rowOf(event) }));
  body.addEventListener("mouseleave", () => set({ hovered: -1 }));
  body.addEventListener("click", (/** @type {any} */ event) => {
    const i = rowOf(event);
    if (i < 0 || String(getSelection())) return;  // text was marked, not a policy chosen
    at = rows.indexOf(i); choose(i); draw();
  });
  table.addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.target !== table || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(visible()) - 1);
    /** @type {Record<string, number>} */
    const goal = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 };
    if (event.key in goal) go(goal[event.key]);
    else if (event.key === "Enter" && rows.length) pick(event.shiftKey ? "b" : "a", rows[at]);
    else return;
    event.preventDefault();
  });
  const filter = byId("filter");
  filter.addEventListener("input", () => set({ query: filter.value }));
  on("query", () => { if (filter.value !== state.query) filter.value = state.query; });
  scroller.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(scroller);

  [...kept.rows].slice(ON_PAPER).forEach((row) => row.remove());
  kept.className = "on-paper"; body.className = "sight";
  table.classList.add("rolling"); table.append(body);
  table.setAttribute("role", "grid"); table.setAttribute("aria-multiselectable", "true"); table.tabIndex = 0;
  table.tHead.rows[0].setAttribute("aria-rowindex", "1");
  byId("policy-tools").hidden = byId("policy-keys").hidden = false;
  on("data", () => { known = {}; toA = null; sort(); });
  on("shown", follow);
  on("a b", draw);
  on("a data", chosenA);
  on("hovered", mark);
  on("colour", draw);
  sort(); chosenA();
};
