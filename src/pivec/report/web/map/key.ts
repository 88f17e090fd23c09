// The key below the map: what its colours and signs mean.

import { behaviourColour, css, groupColour, scaleOf, theme, tints } from "../colours";
import { byId, make, number, whole } from "../format";
import { app, on, state } from "../state";
import { fewRuns } from "./map";
import { counted } from "./painter";

const MOST_NAMES = 24; // runs or behaviours

const colourBar = (shades: Uint32Array, ends: string[]) => {
  const box = make("div", undefined, "ramp"),
    line = make("div", undefined, "scale"),
    words = make("div", undefined, "ends");
  line.style.background = `linear-gradient(to right, ${Array.from(shades, css).join(",")})`;
  words.append(...ends.map((end) => make("span", end)));
  box.append(line, words);
  return box;
};

/** `shape`: of the sign. */
const signOf = (shape: string, name: string, paint: string = "") => {
  const item = make("li"),
    sign = make("i", undefined, shape);
  sign.style.background = paint;
  item.append(sign, make("span", name));
  return item;
};

/** `show`: makes an entry of a number with its count; returns from the least number on. */
const tallied = (values: ArrayLike<number>, show: (k: number) => any, many = new Map()): any[] => {
  for (let i = 0; i < app.data.n; i++)
    if (!app.data.reference[i]) many.set(values[i], (many.get(values[i]) || 0) + 1);
  const numbers = [...many.keys()].sort((a, b) => a - b),
    rest = numbers.length - MOST_NAMES;
  return [
    ...numbers.slice(0, MOST_NAMES).map((k) => {
      const item = show(k);
      item.append(make("small", whole(many.get(k))));
      return item;
    }),
    rest > 0 ? signOf("none", `and ${whole(rest)} more`) : "",
  ];
};

export const drawKey = () => {
  const { data } = app,
    { colour, density } = state,
    scale = scaleOf(colour),
    own = (i: number) => !data.reference[i],
    signs = make("ul", undefined, "signs");
  const fill = (title: string, ...nodes: any[]) =>
    byId("map-key").replaceChildren(make("h3", title), ...nodes, signs);
  const lists = (items: any[]) => {
    const list = make("ul");
    list.append(...items);
    return list;
  };
  if (density) {
    fill(
      "Policies in a square of 4 pixels" + (state.selection ? ", of those selected" : ""),
      colourBar(tints.return, [1, Math.round(Math.sqrt(counted.most)), counted.most].map(whole)),
      make(
        "p",
        "Points would cover each other, so they are counted. Zoom in, or choose points under “Show”.",
        "hint",
      ),
    );
    return;
  }
  if (scale) {
    const { low, high, values } = scale,
      fine = (high - low) / 500 || 1,
      words = colour === "step" ? (v: number) => whole(Math.round(v)) : number;
    fill(
      scale.name,
      colourBar(
        scale.shades,
        [low, Math.round((low + high) / 2 / fine) * fine, high].map((v) => words(v)),
      ),
    );
    if (data.group.some((_, i) => values[i] !== values[i] && own(i)))
      signs.append(signOf("hollow", "not known"));
  } else if (colour === "behaviour")
    fill(
      "Behaviour classes: policies that behave alike",
      lists(
        tallied(
          data.behaviour.map((b) => Math.min(b, tints.shared + 1)),
          (b) =>
            b
              ? signOf(
                  "",
                  b > tints.shared ? "of one policy" : "behaviour " + b,
                  css(behaviourColour(b)),
                )
              : signOf("hollow", "none known"),
        ),
      ),
    );
  else
    fill(
      "Runs",
      lists(
        tallied(data.group, (g) =>
          signOf(
            g < 0 && data.runs.length ? "lone" : "",
            g < 0 ? "no run" : data.groups[g],
            groupColour(g),
          ),
        ),
      ),
    );
  if (state.lines && fewRuns() && data.runs.length)
    signs.append(signOf("ring", "first checkpoint of a run"), signOf("arrow", "last checkpoint"));
  if (data.runs.length && data.step.some((s, i) => s !== s && own(i)))
    signs.append(signOf("lone", "no training step"));
  if (data.reference.includes(1))
    signs.append(signOf("small", "earlier map", css(theme.reference)));
  if (state.joins && data.joins.length)
    signs.append(signOf("band", "cannot be distinguished", css(theme.band)));
};

export const startKey = () => {
  on("data colour lines joins selection", drawKey);
  on("view", () => {
    if (state.density) drawKey();
  });
  drawKey();
};
