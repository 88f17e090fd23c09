// The address of the page holds what was chosen, so that a link restores it.
import { app, on, set, state } from "./state";

const FLAGS = ["lines", "joins", "density", "certain"] as const;

/** Returns the choices as the part of an address after #. */
const written = (): string => {
  const { data } = app,
    { a, b, view } = state,
    words = new URLSearchParams();
  if (a >= 0) words.set("a", data.label[a]);
  if (b >= 0) words.set("b", data.label[b]);
  words.set("colour", state.colour);
  if (state.query) words.set("search", state.query);
  if (Number.isFinite(state.upTo)) words.set("step", String(state.upTo));
  for (const g of state.hidden)
    words.append("without", g < 0 ? String(g) : "run " + data.groups[g]);
  if (view) words.set("view", [view.x, view.y, view.scale].map((v) => v.toPrecision(7)).join(" "));
  for (const flag of FLAGS) if (state[flag] !== DEFAULTS[flag]) words.append("flip", flag);
  return words.toString();
};

const DEFAULTS = Object.fromEntries(FLAGS.map((flag) => [flag, state[flag]]));

/** Choose what the address says; what it does not know stays as at the start. */
const restore = () => {
  const { data } = app,
    words = new URLSearchParams(location.hash.slice(1)),
    names = new Map(data.label.map((name, i) => [name, i]));
  const row = (key: string) => names.get(words.get(key) ?? "") ?? -1;
  const view = (words.get("view") || "").split(" ").map(Number),
    step = words.get("step");
  const hidden = words
    .getAll("without")
    .map((name) => (name.startsWith("run ") ? data.groups.indexOf(name.slice(4)) : Number(name)));
  set({
    a: row("a"),
    b: row("b"),
    query: words.get("search") || "",
    upTo: step && Number.isFinite(Number(step)) ? Number(step) : Infinity,
    hidden: new Set(hidden.filter((g) => g >= -2 && Number.isInteger(g))),
    view:
      view.length === 3 && view.every(Number.isFinite) && view[2] > 0
        ? { x: view[0], y: view[1], scale: view[2] }
        : null,
    ...Object.fromEntries(
      FLAGS.map((flag) => [flag, DEFAULTS[flag] !== words.getAll("flip").includes(flag)]),
    ),
    ...(words.get("colour") ? { colour: String(words.get("colour")) } : {}),
  });
};

/** Returns the address of the page as it looks now. */
export const link = (): string => {
  const address = location.href.split("#")[0] + "#" + written();
  history.replaceState(null, "", address);
  return address;
};

export const linkPart = () => {
  if (location.hash.length > 1) restore();
  let timer = 0;
  on("a b colour query upTo hidden view lines joins density certain", () => {
    clearTimeout(timer);
    timer = window.setTimeout(link, 400);
  });
  addEventListener("hashchange", restore);
};
