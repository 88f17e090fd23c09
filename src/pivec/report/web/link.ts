// The address of the page holds the view, so that a link restores it.
import { app, on, type State, set, state } from "./state";

const FLAGS = ["lines", "joins", "labels", "density", "certain"] as const;
const FIELDS =
  "a b run episode tab colour query upTo last onlyClass hidden view selection lines joins labels density certain";
const MOST_SELECTED = 4000; // letters of a selection; longer addresses are cut by some programs

/** Pack the rows of a selection: differences between their numbers, in base 36. */
export const packRows = (selection: Uint8Array): string => {
  const parts: string[] = [];
  let before = -1;
  selection.forEach((is, i) => {
    if (!is) return;
    parts.push((i - before).toString(36));
    before = i;
  });
  return parts.join(".");
};

export const unpackRows = (text: string, n: number): Uint8Array | null => {
  const selection = new Uint8Array(n);
  let at = -1;
  for (const part of text.split(".")) {
    at += Number.parseInt(part, 36);
    if (!(at >= 0 && at < n)) return null;
    selection[at] = 1;
  }
  return selection;
};

/** Write what is selected as the part of an address after #. */
export const written = (): string => {
  const { data } = app,
    { a, b, run, view, selection } = state,
    words = new URLSearchParams();
  if (a >= 0) words.set("a", data.label[a]);
  if (b >= 0) words.set("b", data.label[b]);
  if (run >= 0) words.set("run", data.groups[run]);
  if (state.episode >= 0) words.set("episode", String(state.episode));
  if (state.tab) words.set("tab", state.tab);
  words.set("colour", state.colour);
  if (state.query) words.set("search", state.query);
  if (Number.isFinite(state.upTo)) words.set("step", String(state.upTo));
  if (state.last) words.set("last", String(state.last));
  if (state.onlyClass) words.set("class", String(state.onlyClass));
  const without = [...state.hidden],
    groups = data.groups.length;
  // Of many runs, the few that are left are named instead.
  if (without.length > groups / 2 + 2) {
    words.set("only", "");
    for (let g = -2; g < groups; g++)
      if (!state.hidden.has(g)) words.append("only", g < 0 ? String(g) : "run " + data.groups[g]);
  } else for (const g of without) words.append("without", g < 0 ? `${g}` : "run " + data.groups[g]);
  if (view) words.set("view", [view.x, view.y, view.scale].map((v) => v.toPrecision(7)).join(" "));
  const rows = selection ? packRows(selection) : "";
  if (rows && rows.length <= MOST_SELECTED) words.set("rows", rows);
  for (const flag of FLAGS) if (state[flag] !== DEFAULTS[flag]) words.append("flip", flag);
  return words.toString();
};

const DEFAULTS = Object.fromEntries(FLAGS.map((flag) => [flag, state[flag]]));

/** Read a number at or above a limit; `none` if it is not one. */
const numberOf = (text: string | null, least: number, none: number): number =>
  text && Number(text) >= least ? Number(text) : none;

/** Restore what an address says; what is unknown stays as at the start. */
export const restore = () => {
  const { data } = app,
    words = new URLSearchParams(location.hash.slice(1)),
    names = new Map(data.label.map((name, i) => [name, i]));
  const row = (key: string) => names.get(words.get(key) ?? "") ?? -1;
  const groupsOf = (key: string) =>
    words
      .getAll(key)
      .filter(Boolean)
      .map((name) => (name.startsWith("run ") ? data.groups.indexOf(name.slice(4)) : Number(name)))
      .filter((g) => Number.isInteger(g) && g >= -2);
  const only = new Set(groupsOf("only"));
  const hidden = words.has("only")
    ? [-2, ...[-1], ...data.groups.keys()].filter((g) => !only.has(g))
    : groupsOf("without");
  const [x, y, scale] = (words.get("view") || "").split(" ").map(Number);
  const patch: Partial<State> = {
    a: row("a"),
    b: row("b"),
    run: words.has("run") ? data.groups.indexOf(words.get("run") as string) : -1,
    episode: numberOf(words.get("episode"), 0, -1),
    query: words.get("search") || "",
    upTo: numberOf(words.get("step"), -Infinity, Infinity),
    last: numberOf(words.get("last"), 1, 0),
    onlyClass: numberOf(words.get("class"), 1, 0),
    hidden: new Set(hidden),
    view: [x, y].every(Number.isFinite) && scale > 0 ? { x, y, scale } : null,
    selection: words.has("rows") ? unpackRows(words.get("rows") as string, data.n) : null,
  };
  for (const flag of FLAGS) patch[flag] = DEFAULTS[flag] !== words.getAll("flip").includes(flag);
  for (const name of ["tab", "colour"] as const)
    if (words.get(name)) patch[name] = words.get(name) as string;
  set(patch);
};

/** Write the view into the address of the page; return the address. */
export const link = (): string => {
  const address = location.href.split("#")[0] + "#" + written();
  history.replaceState(null, "", address);
  return address;
};

export const linkPart = () => {
  if (location.hash.length > 1) restore();
  let timer = 0;
  on(FIELDS, () => {
    clearTimeout(timer);
    timer = window.setTimeout(link, 400);
  });
  addEventListener("hashchange", restore);
};
