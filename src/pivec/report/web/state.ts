// What the reader has chosen, and who listens to it.
import { useEffect, useState } from "preact/hooks";
import type { Data } from "./data";

/** A group under the pointer or isolated: a run, a behaviour class, or a kind of episodes. */
export type Group = { of: "run" | "class" | "kind"; number: number };

export interface State {
  /** Row of the first policy selected, −1 for none. */
  a: number;
  /** Row of the second. */
  b: number;
  /** Row under the pointer or at the keyboard's place. */
  hovered: number;
  /** Group whose name is under the pointer. */
  lit: Group | null;
  /** Run that the panel shows, −1 for none. */
  run: number;
  /** Episode (index into `blob.episodes`) that the dock shows, −1 for none. */
  episode: number;
  /** Tab of the dock, by the id of its panel without "tab-". */
  tab: string;
  /** "return", "group" (run), "step", "behaviour", "outcome:NUMBER" or "feature:NUMBER". */
  colour: string;
  /** Lines along runs. */
  lines: boolean;
  /** Bands between policies that cannot be distinguished. */
  joins: boolean;
  labels: boolean;
  /** Density instead of points. */
  density: boolean;
  /** Whether the heatmap hatches what is not certain. */
  certain: boolean;
  /** Numbers of runs that are left out; −1: policies without a run; −2: references. */
  hidden: Set<number>;
  /** The only behaviour class that is shown, 0 for all. */
  onlyClass: number;
  /** Only so many last checkpoints of each run are shown, 0 for all. */
  last: number;
  /** Last training step that is shown. */
  upTo: number;
  /** Words of the search; it fades other policies. */
  query: string;
  /** 1 for rows within the lasso. */
  selection: Uint8Array | null;
  /** View of the map: its middle and pixels per unit; null shows all. */
  view: { x: number; y: number; scale: number } | null;
  /** 1 for rows that the filters leave (derived). */
  shown: Uint8Array;
  nShown: number;
  /** 1 for policies that joined since a served page was opened; null if there are none. */
  fresh: Uint8Array | null;
  /** 1 for rows that are shown and match the search; null without a search (derived). */
  found: Uint8Array | null;
  nFound: number;
}

export const state: State = {
  a: -1,
  b: -1,
  hovered: -1,
  lit: null,
  run: -1,
  episode: -1,
  tab: "",
  colour: "return",
  lines: true,
  joins: true,
  labels: true,
  density: false,
  certain: true,
  hidden: new Set(),
  onlyClass: 0,
  last: 0,
  upTo: Infinity,
  query: "",
  selection: null,
  view: null,
  shown: new Uint8Array(0),
  nShown: 0,
  fresh: null,
  found: null,
  nFound: 0,
};

/** The data now shown; a served page gets new data while it is open. */
export const app: { data: Data } = { data: null as any };

type Listener = { names: Set<string>; call: (changed: Set<string>) => void };
const listeners = new Set<Listener>();

/** Call a function when one of these fields changes ("data" for new data), until it is removed. */
export const on = (names: string, call: (changed: Set<string>) => void): (() => void) => {
  const listener = { names: new Set(names.split(" ")), call };
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

/** Set fields, and call who listens to those that changed. */
export const set = (patch: Partial<State>) => {
  const changed = new Set<string>();
  for (const [name, value] of Object.entries(patch)) {
    if ((state as any)[name] === value) continue;
    (state as any)[name] = value;
    changed.add(name);
  }
  notify(changed);
};

/** Returns whether a policy is neither found nor selected, if others are. */
export const isFaded = (i: number): boolean => state.selection?.[i] === 0 || state.found?.[i] === 0;

const FILTERS = ["hidden", "onlyClass", "last", "upTo", "data"];

export const notify = (changed: Set<string>) => {
  if (FILTERS.some((name) => changed.has(name))) {
    filter();
    changed.add("shown");
  }
  if (changed.has("shown") || changed.has("query")) {
    find();
    changed.add("found");
  }
  if (changed.size)
    for (const { names, call } of [...listeners])
      if ([...changed].some((name) => names.has(name))) call(changed);
};

/** Render a component again when one of these fields changes. */
export const useApp = (names: string): State => {
  const [, render] = useState(0);
  useEffect(() => on(names, () => render((k) => k + 1)), [names]);
  return state;
};

/** The result of `work`, null until it is there; it is done again when a value of `on` changes. */
export const useResult = <T>(work: () => Promise<T>, on: unknown[]): T | null => {
  const [result, setResult] = useState<{ on: unknown[]; value: T } | null>(null);
  useEffect(() => {
    let current = true;
    work().then((value) => {
      if (current) setResult({ on, value });
    });
    return () => {
      current = false;
    };
  }, on);
  return result?.on.every((value, k) => value === on[k]) ? result.value : null;
};

/** Find the rows that the filters leave. */
const filter = () => {
  const { data } = app,
    { hidden, upTo, onlyClass, last } = state,
    shown = new Uint8Array(data.n);
  for (let i = 0; i < data.n; i++) {
    if (hidden.size && hidden.has(data.reference[i] ? -2 : data.group[i])) continue;
    if (onlyClass && data.behaviour[i] !== onlyClass) continue;
    if (!(data.step[i] > upTo)) shown[i] = 1;
  }
  if (last)
    for (const run of data.runs) {
      let left = last;
      for (let k = run.length - 1; k >= 0; k--)
        if (data.step[run[k]] <= upTo && --left < 0) shown[run[k]] = 0;
    }
  state.shown = shown;
  state.nShown = shown.reduce((sum, x) => sum + x, 0);
};

/** Find the rows that match the search: each word is in the label, run or source. */
const find = () => {
  const { data } = app,
    words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) {
    Object.assign(state, { found: null, nFound: 0 });
    return;
  }
  const { label, source, group, groups } = data;
  state.found = state.shown.map((shown, i) => {
    if (!shown) return 0;
    const text = `${label[i]} ${groups[group[i]] || ""} ${source[i]}`.toLowerCase();
    return Number(words.every((word) => text.includes(word)));
  });
  state.nFound = state.found.reduce((sum, x) => sum + x, 0);
};

let openedAt = -1;

/** The policies that joined since the page was opened; null if there are none. */
const freshRows = ({ blob, rounds }: Data): Uint8Array | null => {
  if (openedAt < 0) openedAt = blob.added?.round ?? 0;
  const fresh = rounds && Uint8Array.from(rounds, (round) => Number(round > openedAt));
  return fresh?.includes(1) ? fresh : null;
};

/** Take new data; what was selected stays, by label. */
export const adopt = (data: Data) => {
  const before = app.data;
  app.data = data;
  state.fresh = freshRows(data);
  if (before) {
    const rows = new Map(data.label.map((name, i) => [name, i]));
    const moved = (i: number) => (i < 0 ? -1 : (rows.get(before.label[i]) ?? -1));
    const { selection, run } = state,
      chosen = selection && new Uint8Array(data.n);
    if (chosen)
      before.label.forEach((_, i) => {
        if (selection[i] && moved(i) >= 0) chosen[moved(i)] = 1;
      });
    const same = (g: number) => (g < 0 ? g : data.groups.indexOf(before.groups[g]));
    const hidden = [...state.hidden].filter((g) => g < 0 || same(g) >= 0).map(same);
    Object.assign(state, {
      a: moved(state.a),
      b: moved(state.b),
      run: run < 0 ? -1 : same(run),
      hidden: new Set(hidden),
      onlyClass: 0, // classes are numbered anew
      hovered: -1,
      lit: null,
      episode: -1,
      selection: chosen,
    });
  }
  notify(new Set(["data", "a", "b", "run", "hovered", "lit", "selection", "episode"]));
};

/** Select a policy by a click: as A, or as B if there is an A; a selected one is cleared. */
export const choose = (i: number, asB = false) => {
  if (i === state.a) set({ a: state.b, b: -1 });
  else if (i === state.b) set({ b: -1 });
  else set({ ...(asB || state.a >= 0 ? { b: i } : { a: i }), run: -1 });
};

/** Show only this run or class, or all again if it is the only one already. */
export const isolate = ({ of, number }: Group) => {
  if (of === "class") set({ onlyClass: state.onlyClass === number ? 0 : number });
  if (of !== "run") return;
  const { data } = app,
    others = new Set([...data.groups.keys(), -1, -2].filter((g) => g !== number)),
    alone = others.size === state.hidden.size && !state.hidden.has(number);
  set({ hidden: alone ? new Set() : others });
};
