// Colours of policies, all of them visible on the paper of both schemes.
import { app, notify, on, state } from "./state";

/** Numbers as colours: `at` gives the place of a value in the scale, from 0 to 1. */
export type Scale = {
  name: string;
  values: ArrayLike<number>;
  low: number;
  high: number;
  /** What the middle of the scale stands for. */
  middle: number;
  shades: Uint32Array;
  at: (value: number) => number;
};

const SHADES = 128,
  CONTRAST = 3.1; // somewhat above 3, as colours are rounded

/** Colours of the page now: packed ones to paint with (0xAABBGGRR), names of CSS for the overlay. */
export const theme = {
  paper: 0,
  lone: 0,
  reference: 0,
  soft: 0,
  band: 0,
  ink: "",
  dim: "",
  raised: "",
  accent: "",
  second: "",
};
/** Packed colours of runs and behaviours, the shades of scales, and how many behaviours are of more than one policy: the first ones. */
export const tints = {
  shared: 0,
  groups: new Uint32Array(0),
  palette: new Uint32Array(0),
  return: new Uint32Array(0),
  step: new Uint32Array(0),
  diverging: new Uint32Array(0),
};
let rowTints: Uint32Array | null = null;
let dimmest = 0,
  brightest = 1; // luminance of what can be seen on the paper

/** Returns red, green and blue as amounts of light. */
const light = (hex: string): number[] =>
  [1, 3, 5].map((k) => {
    const c = parseInt(hex.slice(k, k + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
const luminance = ([r, g, b]: number[]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
/** `y`: luminance; returns lightness as it is seen, from 0 to 1. */
const lightness = (y: number): number => (y > 0.008856 ? 1.16 * Math.cbrt(y) - 0.16 : 9.033 * y);
/** `y`: the same hue with this luminance: darker by less light; lighter by half more light, half white. */
const relit = (rgb: number[], y: number) => {
  const now = luminance(rgb),
    grow = Math.min(y / now, 1 / Math.max(...rgb)),
    lit = rgb.map((c) => c * (y > now ? (1 + grow) / 2 : grow)),
    part = luminance(lit);
  return lit.map((c) => c + ((1 - c) * Math.max(0, y - part)) / (1 - part));
};
/** `rgb`: amounts of light; returns packed. */
const packed = (rgb: number[]): number =>
  rgb.reduce(
    (sum, c, k) =>
      sum +
      Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)) * 256 ** k,
    0xff000000,
  );
/** `colour`: packed. */
export const css = (colour: number) =>
  "#" + [0, 8, 16].map((k) => ((colour >>> k) & 255).toString(16).padStart(2, "0")).join("");
/** Returns packed, darker or lighter where it would not be seen. */
const visible = (hex: string): number => {
  const rgb = light(hex);
  return packed(relit(rgb, Math.min(brightest, Math.max(dimmest, luminance(rgb)))));
};

/** Returns the scale with its lightness pressed between what can be seen. */
const shadesOf = (stops: string[]): Uint32Array => {
  const rgb = stops.map(light),
    first = lightness(luminance(rgb[0])),
    last = lightness(luminance(rgb[rgb.length - 1]));
  const low = Math.max(first, lightness(dimmest)),
    high = Math.min(last, lightness(brightest));
  return Uint32Array.from({ length: SHADES }, (_, k) => {
    const at = (k / (SHADES - 1)) * (rgb.length - 1),
      a = Math.min(rgb.length - 2, Math.floor(at)),
      colour = rgb[a].map((c, j) => c + (rgb[a + 1][j] - c) * (at - a));
    const l = low + ((high - low) * (lightness(luminance(colour)) - first)) / (last - first);
    return packed(relit(colour, Math.min(brightest, Math.max(dimmest, ((l + 0.16) / 1.16) ** 3))));
  });
};

/** Returns a scale from one hue through grey to another, all of it visible. */
const divergingShades = (stops: string[]): Uint32Array => {
  const rgb = stops.map(light);
  return Uint32Array.from({ length: SHADES }, (_, k) => {
    const at = (k / (SHADES - 1)) * (rgb.length - 1),
      a = Math.min(rgb.length - 2, Math.floor(at)),
      colour = rgb[a].map((c, j) => c + (rgb[a + 1][j] - c) * (at - a));
    return packed(relit(colour, Math.min(brightest, Math.max(dimmest, luminance(colour)))));
  });
};

const prepare = () => {
  const style = getComputedStyle(document.documentElement),
    read = (name: string) => style.getPropertyValue("--" + name).trim();
  const raised = read("raised"),
    reference = light(read("reference")),
    back = luminance(light(raised)) + 0.05,
    { blob, groupColours } = app.data;
  [dimmest, brightest] = back > 0.23 ? [0, back / CONTRAST - 0.05] : [back * CONTRAST - 0.05, 1];
  Object.assign(theme, {
    raised,
    ink: read("ink"),
    dim: read("soft"),
    accent: read("accent"),
    second: read("b"),
    paper: packed(light(raised)),
    lone: visible(read("lone")),
    reference: visible(read("reference")),
    soft: visible(read("soft")),
    band: packed(light(raised).map((c, k) => 0.3 * c + 0.7 * reference[k])),
  });
  Object.assign(tints, {
    groups: Uint32Array.from(groupColours, visible),
    palette: Uint32Array.from(blob.palette, visible),
    return: shadesOf(blob.scales.return),
    step: shadesOf(blob.scales.step),
    diverging: divergingShades(blob.scales.diverging),
  });
  const sizes = new Uint32Array(app.data.n + 1);
  for (const b of app.data.behaviour) sizes[b]++;
  tints.shared = sizes.reduce((last, size, b) => (size > 1 ? b : last), 0);
  rowTints = null;
};

const LEAST_SIDE = 0.15; // of the larger end: the shorter side of a scale that diverges from 0

/** The scale of a variable over the policies compared; null if it has no numbers. */
export const scaleOf = (id: string): Scale | null => {
  const { n, reference, returns, step, features, outcomes } = app.data,
    [kind, k] = id.split(":"),
    feature = kind === "feature" ? features[+k] : kind === "outcome" ? outcomes[+k] : null;
  const values = feature ? feature.values : id === "return" ? returns : id === "step" ? step : [];
  const known: number[] = [];
  let low = Infinity,
    high = -Infinity;
  for (let i = 0; i < n; i++)
    if (!reference[i] && values[i] === values[i]) {
      known.push(values[i]);
      if (values[i] < low) low = values[i];
      if (values[i] > high) high = values[i];
    }
  if (low > high || !known.length) return null;
  if (id === "step") {
    // Checkpoints are rarely spaced evenly: the scale is that of their ranks.
    const steps = [...new Set(known)].sort((a, b) => a - b),
      rank = new Map(steps.map((s, k) => [s, steps.length > 1 ? k / (steps.length - 1) : 0.5]));
    const middle = steps[Math.floor((steps.length - 1) / 2)],
      at = (value: number) => rank.get(value) ?? 0;
    return { name: "Training step (by rank)", values, low, high, middle, shades: tints.step, at };
  }
  const name = feature ? feature.name + (feature.unit ? ` (${feature.unit})` : "") : "Mean return",
    end = Math.max(-low, high),
    signed = feature && !feature.flag && Math.min(-low, high) > LEAST_SIDE * end;
  if (signed)
    return {
      name,
      values,
      low: -end,
      high: end,
      middle: 0,
      shades: tints.diverging,
      at: (value) => 0.5 + value / (2 * end),
    };
  const span = high - low;
  return {
    name,
    values,
    low,
    high,
    middle: (low + high) / 2,
    shades: tints.return,
    at: (value) => (span > 0 ? (value - low) / span : 0.5),
  };
};

/** The number of the shade of a value. */
export const shadeOf = (scale: Scale, value: number): number =>
  Math.round(scale.at(value) * (SHADES - 1));

/** Returns what policies can be coloured by, so that it tells them apart. */
export const colourings = (): { id: string; name: string }[] => {
  const { groups, behaviour, features, outcomes } = app.data;
  const choices = [
    ["return", "return"],
    ["group", "run"],
    ["step", "training step"],
    ["behaviour", "behaviour"],
    ...outcomes.map((o, k) => ["outcome:" + k, o.name]),
    ...features.map((f, k) => ["feature:" + k, f.name]),
  ];
  const useful = choices.filter(([id]) => {
    const scale = scaleOf(id);
    return scale
      ? scale.high > scale.low
      : id === "group"
        ? groups.length
        : id === "behaviour" && behaviour.some((b) => b !== behaviour[0]);
  });
  return (useful.length ? useful : choices.slice(0, 1)).map(([id, name]) => ({ id, name }));
};

/** `g`: number of a run, −1 for none. */
export const groupColour = (g: number): string => css(g < 0 ? theme.lone : tints.groups[g]);
/** `b`: class of behaviour; returns packed; 0 without, grey where it is of one policy. */
export const behaviourColour = (b: number): number =>
  b < 1 ? 0 : b > tints.shared ? theme.lone : tints.palette[(b - 1) % tints.palette.length];

/** Returns packed colours of all policies; 0 where the value is not known. */
export const rowColours = (): Uint32Array => {
  if (rowTints) return rowTints;
  const { data } = app,
    { colour } = state,
    scale = scaleOf(colour);
  rowTints = Uint32Array.from(data.group, (g, i) => {
    if (data.reference[i]) return theme.reference;
    if (colour === "group") return g < 0 ? theme.lone : tints.groups[g];
    if (colour === "behaviour") return behaviourColour(data.behaviour[i]);
    return scale && scale.values[i] === scale.values[i]
      ? scale.shades[shadeOf(scale, scale.values[i])]
      : 0;
  });
  return rowTints;
};

/** Returns its colour under the colouring chosen. */
export const colourOf = (i: number): string => css(rowColours()[i] || theme.lone);

/** Begins before the other parts of the map. */
export const startColours = () => {
  const renew = () => {
    prepare();
    const known = colourings();
    if (!known.some(({ id }) => id === state.colour)) state.colour = known[0].id;
  };
  renew();
  on("data", renew);
  on("colour", () => {
    rowTints = null;
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    prepare();
    notify(new Set(["colour"]));
  });
};
