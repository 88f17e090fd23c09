// The key below the map: what its colours and signs mean.
import { byId, make, number, whole } from "./format.js";
import { app, on, state } from "./state.js";
import { behaviourColour, css, groupColour, scaleOf, theme, tints } from "./colours.js";
import { counted } from "./painter.js";
import { fewRuns } from "./map.js";

const MOST_NAMES = 24;  // runs or behaviours

/** @param {Uint32Array} shades @param {string[]} ends */
const colourBar = (shades, ends) => {
  const box = make("div", undefined, "ramp"), line = make("div", undefined, "scale"), words = make("div", undefined, "ends");
  line.style.background = `linear-gradient(to right, ${Array.from(shades, css).join(",")})`;
  words.append(...ends.map((end) => make("span", end)));
  box.append(line, words);
  return box;
};

/** @param {string} shape of the sign @param {string} name @param {string} [paint] */
const signOf = (shape, name, paint = "") => {
  const item = make("li"), sign = make("i", undefined, shape);
  sign.style.background = paint;
  item.append(sign, make("span", name));
  return item;
};

/** @param {ArrayLike<number>} values @param {(k: number) => any} show makes an entry of a number with its count @returns {any[]} from the least number on */
const tallied = (values, show, many = new Map()) => {
  for (let i = 0; i < app.data.n; i++) if (!app.data.reference[i]) many.set(values[i], (many.get(values[i]) || 0) + 1);
  const numbers = [...many.keys()].sort((a, b) => a - b), rest = numbers.length - MOST_NAMES;
  return [...numbers.slice(0, MOST_NAMES).map((k) => { const item = show(k); item.append(make("small", whole(many.get(k)))); return item; }), rest > 0 ? signOf("none", `and ${whole(rest)} more`) : ""];
};

export const drawKey = () => {
  const { data } = app, { colour, density } = state, scale = scaleOf(colour), own = (/** @type {number} */ i) => !data.reference[i], signs = make("ul", undefined, "signs");
  const fill = (/** @type {string} */ title, /** @type {any[]} */ ...nodes) => byId("map-key").replaceChildren(make("h3", title), ...nodes, signs);
  const lists = (/** @type {any[]} */ items) => { const list = make("ul"); list.append(...items); return list; };
  if (density) {
    fill("Policies in a square of 4 pixels" + (state.selection ? ", of those selected" : ""), colourBar(tints.return, [1, Math.round(Math.sqrt(counted.most)), counted.most].map(whole)),
      make("p", "Points would cover each other, so they are counted. Zoom in, or choose points under “Show”.", "hint"));
    return;
  }
  if (scale) {
    const { low, high, values } = scale, fine = (high - low) / 500 || 1, words = colour === "step" ? (/** @type {number} */ v) => whole(Math.round(v)) : number;
    fill(scale.name, colourBar(scale.shades, [low, Math.round((low + high) / 2 / fine) * fine, high].map((v) => words(v))));
    if (data.group.some((_, i) => values[i] !== values[i] && own(i))) signs.append(signOf("hollow", "not known"));
  } else if (colour === "behaviour") fill("Behaviour classes: policies that behave alike", lists(tallied(data.behaviour.map((b) => Math.min(b, tints.shared + 1)), (b) => (b ? signOf("", b > tints.shared ? "of one policy" : "behaviour " + b, css(behaviourColour(b))) : signOf("hollow", "none known")))));
  else fill("Runs", lists(tallied(data.group, (g) => signOf(g < 0 && data.runs.length ? "lone" : "", g < 0 ? "no run" : data.groups[g], groupColour(g)))));
  if (state.lines && fewRuns() && data.runs.length) signs.append(signOf("ring", "first checkpoint of a run"), signOf("arrow", "last checkpoint"));
  if (data.runs.length && data.step.some((s, i) => s !== s && own(i))) signs.append(signOf("lone", "no training step"));
  if (data.reference.includes(1)) signs.append(signOf("small", "earlier map", css(theme.reference)));
  if (state.joins && data.joins.length) signs.append(signOf("band", "cannot be distinguished", css(theme.band)));
};

export const startKey = () => {
  on("data colour lines joins selection", drawKey);
  on("view", () => { if (state.density) drawKey(); });
  drawKey();
};
