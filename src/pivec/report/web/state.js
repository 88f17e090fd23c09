// What the reader has chosen, and who wants to know of it.

/** @typedef {import("./data.js").Data} Data */

/**
 * @typedef {object} State
 * @property {number} a row of the first policy chosen, −1 for none
 * @property {number} b row of the second
 * @property {number} hovered row under the pointer or at the keyboard's place
 * @property {string} colour "return", "group" (run), "step", "behaviour" or "feature:NUMBER"
 * @property {boolean} lines along runs
 * @property {boolean} joins of policies that cannot be distinguished
 * @property {boolean} density instead of points
 * @property {boolean} certain the heatmap shows only what is certain
 * @property {Set<number>} hidden numbers of runs that are left out; −1: policies without a run; −2: references
 * @property {string} query words of the search
 * @property {number} upTo last training step that is shown
 * @property {Uint8Array | null} selection 1 for rows within the lasso
 * @property {{x: number, y: number, scale: number} | null} view of the map: its middle and pixels a unit; null shows all
 * @property {Uint8Array} shown 1 for rows that filters leave (derived)
 * @property {number} nShown
 */

/** @type {State} */
export const state = {
  a: -1, b: -1, hovered: -1, colour: "return", lines: true, joins: true, density: false, certain: false,
  hidden: new Set(), query: "", upTo: Infinity, selection: null, view: null, shown: new Uint8Array(0), nShown: 0,
};

/** The data now shown; `start` of main.js sets it, and sets it anew when a served page grows. @type {{data: Data}} */
export const app = { data: /** @type {any} */ (null) };

/** @type {{names: Set<string>, tell: (changed: Set<string>) => void}[]} */
const listeners = [];

/** @param {string} names of fields of the state, parted by blanks ("data" for new data) @param {(changed: Set<string>) => void} tell */
export const on = (names, tell) => { listeners.push({ names: new Set(names.split(" ")), tell }); };

/** @param {Partial<State>} patch sets these fields, and tells those who asked; equal values tell nobody */
export const set = (patch) => {
  const changed = new Set(/** @type {string[]} */ ([]));
  for (const [name, value] of Object.entries(patch)) {
    if (/** @type {any} */ (state)[name] === value) continue;
    /** @type {any} */ (state)[name] = value;
    changed.add(name);
  }
  tellAll(changed);
};

/** @param {Set<string>} changed */
export const tellAll = (changed) => {
  if (["hidden", "query", "upTo", "data"].some((name) => changed.has(name))) {
    filter();
    changed.add("shown");
  }
  if (changed.size) for (const { names, tell } of listeners) if ([...changed].some((name) => names.has(name))) tell(changed);
};

/** Find the rows that the filters leave. */
const filter = () => {
  const { data } = app, { hidden, upTo } = state, shown = new Uint8Array(data.n);
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (let i = 0; i < data.n; i++) {
    if (hidden.size && hidden.has(data.reference[i] ? -2 : data.group[i])) continue;
    if (data.step[i] > upTo) continue;
    if (words.length && !matches(i, words)) continue;
    shown[i] = 1; n++;
  }
  state.shown = shown; state.nShown = n;
};

/** @param {number} i @param {string[]} words each of them in its label, run or source */
const matches = (i, words) => {
  const { data } = app;
  const text = (data.label[i] + " " + (data.groups[data.group[i]] || "") + " " + data.source[i]).toLowerCase();
  return words.every((word) => text.includes(word));
};

/** @param {Data} data new data of a served page; what was chosen stays, by label */
export const adopt = (data) => {
  const before = app.data;
  app.data = data;
  if (before) {
    const rows = new Map(data.label.map((name, i) => [name, i]));
    const moved = (/** @type {number} */ i) => (i < 0 ? -1 : rows.get(before.label[i]) ?? -1);
    const { selection } = state, chosen = selection && new Uint8Array(data.n);
    if (chosen) before.label.forEach((_, i) => { if (selection[i] && moved(i) >= 0) chosen[moved(i)] = 1; });
    Object.assign(state, { a: moved(state.a), b: moved(state.b), hovered: -1, selection: chosen });
  }
  tellAll(new Set(["data", "a", "b", "hovered", "selection"]));
};

/** @param {number} i chosen by a click: as A, and if there is an A already as B; a chosen one is let go */
export const choose = (i) => {
  if (i === state.a) set({ a: state.b, b: -1 });
  else if (i === state.b) set({ b: -1 });
  else set(state.a < 0 ? { a: i } : { b: i });
};
