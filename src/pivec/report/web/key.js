// The key below the map: what its colours and signs mean.
import { byId, make, number, whole } from "./format.js";
import { app, on, set, state } from "./state.js";
import { behaviourColour, css, densityShades, groupColour, scaleOf, theme } from "./colours.js";
import { counted } from "./painter.js";
import { MANY_RUNS } from "./map.js";

const NAMES = 24;  // of runs or behaviours

/** @param {Uint32Array} shades @param {string[]} ends */
const bar = (shades, ends) => {
  const box = make("div", undefined, "ramp"), line = make("div", undefined, "scale"), words = make("div", undefined, "ends");
  line.style.background = `linear-gradient(to right, ${Array.from(shades.filter((_, k) => k % 8 === 0 || k === shades.length - 1), css).join(",")})`;
  words.append(...ends.map((end) => make("span", end)));
  box.append(line, words);
  return box;
};

/** @param {string} paint @param {string} name @param {number} many @param {string} shape @param {number} [id] of a run that can be hidden */
const entry = (paint, name, many, shape, id) => {
  const item = make("li"), body = make(id === undefined ? "span" : "button", undefined, "entry"), dot = make("i", undefined, shape);
  dot.style.background = paint;
  body.append(dot, make("span", name), make("small", whole(many)));
  if (id !== undefined) {
    body.type = "button"; body.setAttribute("aria-pressed", String(!state.hidden.has(id)));
    body.addEventListener("click", () => { const hidden = new Set(state.hidden); if (!hidden.delete(id)) hidden.add(id); set({ hidden }); });
  }
  item.append(body);
  return item;
};

/** @param {ArrayLike<number>} values @param {number} size @returns {Uint32Array} how often each number occurs, from −1 on, without references */
const tally = (values, size) => {
  const many = new Uint32Array(size + 1);
  for (let i = 0; i < app.data.n; i++) if (!app.data.reference[i]) many[values[i] + 1]++;
  return many;
};

/** @param {Node} key */
const drawRuns = (key) => {
  const { groups, group, reference, runs } = app.data, list = make("ul"), many = tally(group, groups.length);
  groups.slice(0, NAMES).forEach((name, g) => list.append(entry(groupColour(g), name, many[g + 1], "", g)));
  if (many[0]) list.append(entry(groupColour(-1), "no run", many[0], runs.length ? "lone" : "", -1));
  const old = reference.reduce((sum, r) => sum + r, 0);
  if (old) list.append(entry(css(theme.reference), "reference", old, "small", -2));
  key.appendChild(list);
  if (groups.length > NAMES) key.appendChild(make("p", `and ${whole(groups.length - NAMES)} more runs; colours come again after 36`, "hint"));
};

/** @param {Node} key */
const drawBehaviours = (key) => {
  const { behaviour } = app.data, list = make("ul"), many = tally(behaviour, behaviour.reduce((a, b) => Math.max(a, b), 0) + 1);
  const named = Math.min(NAMES, many.length - 2);
  for (let b = 1; b <= named; b++) list.append(entry(css(behaviourColour(b)), "behaviour " + b, many[b + 1], ""));
  if (many[1]) list.append(entry("", "none known", many[1], "hollow"));
  key.appendChild(list);
  if (many.length - 2 > NAMES) key.appendChild(make("p", `and ${whole(many.length - 2 - NAMES)} smaller ones`, "hint"));
};

const drawKey = () => {
  const key = byId("map-key"), { data } = app, scale = scaleOf(state.colour), few = data.runs.length <= MANY_RUNS;
  const title = (/** @type {string} */ words) => key.append(make("h3", words));
  key.replaceChildren();
  if (state.density) {
    title("Policies in a square of 4 pixels" + (state.selection ? ", of those selected" : ""));
    key.append(bar(densityShades(), ["1", whole(Math.round(Math.sqrt(counted.most))), whole(counted.most)]));
    key.append(make("p", "Points would cover each other, so they are counted. “Show” in the tools has points again.", "hint"));
    return;
  }
  if (scale) {
    title(scale.name);
    const words = state.colour === "step" ? (/** @type {number} */ v) => whole(Math.round(v)) : number;
    const fine = (scale.high - scale.low) / 500 || 1, mid = Math.round((scale.low + scale.high) / 2 / fine) * fine;
    key.append(bar(scale.shades, [scale.low, mid, scale.high].map((v) => words(v))));
  } else if (state.colour === "group") { title("Runs"); drawRuns(key); }
  else if (state.colour === "behaviour") { title("Behaviours: policies that cannot be told apart"); drawBehaviours(key); }
  const signs = make("ul", undefined, "signs"), sign = (/** @type {string} */ shape, /** @type {string} */ words) => { const item = make("li"); item.append(make("i", undefined, shape), make("span", words)); signs.append(item); };
  if (scale && Array.prototype.some.call(scale.values, (v, i) => v !== v && !data.reference[i])) sign("hollow", "not known");
  if (state.lines && few && data.runs.length) { sign("ring", "first checkpoint of a run"); sign("arrow", "last checkpoint"); }
  if (data.runs.length && data.step.some((s, i) => s !== s && !data.reference[i]) && state.colour !== "group") sign("lone", "no training step");
  if (data.reference.includes(1) && state.colour !== "group") sign("small", "reference");
  if (state.joins && data.joins.length) sign("band", "cannot be told apart");
  if (signs.children.length) key.append(signs);
};

export const startKey = () => {
  on("data colour density hidden lines joins selection", drawKey);
  on("view", () => { if (state.density) drawKey(); });
  drawKey();
};
