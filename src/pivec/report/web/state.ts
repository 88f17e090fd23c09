// What the reader has chosen, and who wants to know of it.
import type { Data } from "./data";

export interface State {
  /** row of the first policy chosen, −1 for none */
  a: number;
  /** row of the second */
  b: number;
  /** row under the pointer or at the keyboard's place */
  hovered: number;
  /** "return", "group" (run), "step", "behaviour" or "feature:NUMBER" */
  colour: string;
  /** along runs */
  lines: boolean;
  /** of policies that cannot be distinguished */
  joins: boolean;
  /** instead of points */
  density: boolean;
  /** the heatmap shows only what is certain */
  certain: boolean;
  /** numbers of runs that are left out; −1: policies without a run; −2: references */
  hidden: Set<number>;
  /** words of the search */
  query: string;
  /** last training step that is shown */
  upTo: number;
  /** 1 for rows within the lasso */
  selection: Uint8Array | null;
  /** of the map: its middle and pixels a unit; null shows all */
  view: { x: number; y: number; scale: number } | null;
  /** 1 for rows that filters leave (derived) */
  shown: Uint8Array;
  nShown: number;
}

export const state: State = {
  a: -1,
  b: -1,
  hovered: -1,
  colour: "return",
  lines: true,
  joins: true,
  density: false,
  certain: false,
  hidden: new Set(),
  query: "",
  upTo: Infinity,
  selection: null,
  view: null,
  shown: new Uint8Array(0),
  nShown: 0,
};

/** The data now shown; `start` of main.js sets it, and sets it anew when a served page grows. */
export const app: { data: Data } = { data: null as any };

const listeners: { names: Set<string>; tell: (changed: Set<string>) => void }[] = [];

/** `names`: of fields of the state, parted by blanks ("data" for new data). */
export const on = (names: string, tell: (changed: Set<string>) => void) => {
  listeners.push({ names: new Set(names.split(" ")), tell });
};

/** `patch`: sets these fields, and tells those who asked; equal values tell nobody. */
export const set = (patch: Partial<State>) => {
  const changed = new Set([] as string[]);
  for (const [name, value] of Object.entries(patch)) {
    if ((state as any)[name] === value) continue;
    (state as any)[name] = value;
    changed.add(name);
  }
  tellAll(changed);
};

export const tellAll = (changed: Set<string>) => {
  if (["hidden", "query", "upTo", "data"].some((name) => changed.has(name))) {
    filter();
    changed.add("shown");
  }
  if (changed.size)
    for (const { names, tell } of listeners)
      if ([...changed].some((name) => names.has(name))) tell(changed);
};

/** Find the rows that the filters leave. */
const filter = () => {
  const { data } = app,
    { hidden, upTo } = state,
    shown = new Uint8Array(data.n);
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (let i = 0; i < data.n; i++) {
    if (hidden.size && hidden.has(data.reference[i] ? -2 : data.group[i])) continue;
    if (data.step[i] > upTo) continue;
    if (words.length && !matches(i, words)) continue;
    shown[i] = 1;
    n++;
  }
  state.shown = shown;
  state.nShown = n;
};

/** `words`: each of them in its label, run or source. */
const matches = (i: number, words: string[]) => {
  const { data } = app;
  const text = (
    data.label[i] +
    " " +
    (data.groups[data.group[i]] || "") +
    " " +
    data.source[i]
  ).toLowerCase();
  return words.every((word) => text.includes(word));
};

/** `data`: new data of a served page; what was chosen stays, by label. */
export const adopt = (data: Data) => {
  const before = app.data;
  app.data = data;
  if (before) {
    const rows = new Map(data.label.map((name, i) => [name, i]));
    const moved = (i: number) => (i < 0 ? -1 : (rows.get(before.label[i]) ?? -1));
    const { selection } = state,
      chosen = selection && new Uint8Array(data.n);
    if (chosen)
      before.label.forEach((_, i) => {
        if (selection[i] && moved(i) >= 0) chosen[moved(i)] = 1;
      });
    Object.assign(state, { a: moved(state.a), b: moved(state.b), hovered: -1, selection: chosen });
  }
  tellAll(new Set(["data", "a", "b", "hovered", "selection"]));
};

/** `i`: chosen by a click: as A, and if there is an A already as B; a chosen one is let go. */
export const choose = (i: number) => {
  if (i === state.a) set({ a: state.b, b: -1 });
  else if (i === state.b) set({ b: -1 });
  else set(state.a < 0 ? { a: i } : { b: i });
};
