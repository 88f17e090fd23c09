// Colours of policies, all of them visible on the paper of both schemes.
import { app, on, state, tellAll } from "./state.js";

/** @typedef {{id: string, name: string, values: ArrayLike<number>, low: number, high: number, shades: Uint32Array}} Scale numbers as colours */

const SHADES = 128, CONTRAST = 3.1;  // somewhat above 3, as colours are rounded
const scheme = matchMedia("(prefers-color-scheme: dark)");

/** Colours of the page now: packed ones to paint with (0xAABBGGRR), names of CSS for the overlay. */
export const theme = { paper: 0, lone: 0, reference: 0, soft: 0, band: 0, ink: "", raised: "", accent: "", second: "" };

/** @param {string} hex @returns {number[]} red, green and blue as amounts of light */
const light = (hex) => [1, 3, 5].map((k) => { const c = parseInt(hex.slice(k, k + 2), 16) / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
/** @param {number[]} rgb */
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
/** @param {number} y luminance @returns {number} lightness as it is seen, from 0 to 1 */
const lightness = (y) => (y > 0.008856 ? 1.16 * Math.cbrt(y) - 0.16 : 9.033 * y);
/** @param {number} l */
const ofLightness = (l) => (l > 0.08 ? ((l + 0.16) / 1.16) ** 3 : l / 9.033);
/** @param {number[]} rgb @param {number} y the same hue with this luminance: darker by less light; lighter by half more light, half white */
const relit = (rgb, y) => {
  const grow = Math.min(y / luminance(rgb), 1 / Math.max(...rgb)), lit = y > luminance(rgb) ? rgb.map((c) => c * (1 + grow) / 2) : rgb.map((c) => c * grow);
  const rest = (y - luminance(lit)) / (1 - luminance(lit));
  return lit.map((c) => c + (1 - c) * Math.max(0, rest));
};
/** @param {number[]} rgb amounts of light @returns {number} packed */
const packed = (rgb) => rgb.reduce((sum, c, k) => sum + Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)) * 2 ** (8 * k), 0xff000000);
/** @param {number} colour packed */
export const css = (colour) => "#" + [0, 8, 16].map((k) => ((colour >>> k) & 255).toString(16).padStart(2, "0")).join("");

let least = 0, most = 1;  // luminance of what can be seen on the paper
/** @param {string} hex @returns {number} packed, darker or lighter where it would not be seen */
const visible = (hex) => { const rgb = light(hex), y = luminance(rgb); return packed(relit(rgb, Math.min(most, Math.max(least, y)))); };

/** @param {string[]} stops @returns {Uint32Array} the scale with its lightness pressed between what can be seen */
const shadesOf = (stops) => {
  const rgb = stops.map(light), ends = [rgb[0], rgb[rgb.length - 1]].map((c) => lightness(luminance(c)));
  const low = Math.max(ends[0], lightness(least)), high = Math.min(ends[1], lightness(most));
  return Uint32Array.from({ length: SHADES }, (_, k) => {
    const at = (k / (SHADES - 1)) * (rgb.length - 1), a = Math.min(rgb.length - 2, Math.floor(at));
    const colour = rgb[a].map((c, j) => c + (rgb[a + 1][j] - c) * (at - a));
    const t = (lightness(luminance(colour)) - ends[0]) / (ends[1] - ends[0]);
    return packed(relit(colour, ofLightness(low + (high - low) * Math.min(1, Math.max(0, t)))));
  });
};

/** @type {{groups: Uint32Array, palette: Uint32Array, scales: Record<string, Uint32Array>, rows: Uint32Array | null}} */
const ready = { groups: new Uint32Array(0), palette: new Uint32Array(0), scales: {}, rows: null };

const prepare = () => {
  const style = getComputedStyle(document.documentElement), read = (/** @type {string} */ name) => style.getPropertyValue("--" + name).trim();
  const raised = read("raised"), paper = luminance(light(raised));
  if (paper > 0.18) { least = 0; most = (paper + 0.05) / CONTRAST - 0.05; } else { least = (paper + 0.05) * CONTRAST - 0.05; most = 1; }
  const { blob, groupColours } = app.data, mid = light(raised).map((c, k) => 0.3 * c + 0.7 * light(read("reference"))[k]);
  Object.assign(theme, { ink: read("ink"), accent: read("accent"), second: read("b"), raised, paper: packed(light(raised)), lone: visible(read("lone")), reference: visible(read("reference")), soft: packed(light(read("soft"))), band: packed(mid) });
  ready.groups = Uint32Array.from(groupColours, visible);
  ready.palette = Uint32Array.from(blob.palette || groupColours, visible);
  ready.scales = { return: shadesOf(blob.scales.return), step: shadesOf(blob.scales.step) };
  ready.rows = null;
};

/** @param {ArrayLike<number>} values @returns {number[] | null} least and largest of the policies compared */
const extentOf = (values) => {
  const { n, reference } = app.data;
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < n; i++) if (!reference[i]) { if (values[i] < low) low = values[i]; if (values[i] > high) high = values[i]; }
  return low <= high ? [low, high] : null;
};

/** @param {string} id @returns {Scale | null} null where policies are not coloured by a number */
export const scaleOf = (id) => {
  const { data } = app, feature = id.startsWith("feature:") ? data.features[Number(id.slice(8))] : null;
  const values = feature ? feature.values : id === "return" ? data.returns : id === "step" ? data.step : null, ends = values && extentOf(values);
  if (!values || !ends) return null;
  const name = feature ? feature.name + (feature.unit ? ` (${feature.unit})` : "") : id === "return" ? "Mean return" : "Training step";
  return { id, name, values, low: ends[0], high: ends[1], shades: ready.scales[id === "step" ? "step" : "return"] };
};

/** @returns {{id: string, name: string}[]} what policies can be coloured by, so that it tells them apart */
export const colourings = () => {
  const { data } = app, differ = (/** @type {string} */ id) => { const s = scaleOf(id); return s && s.high > s.low; };
  const choices = [["return", "return"], ["group", "run"], ["step", "training step"], ["behaviour", "behaviour"], ...data.features.map((f, k) => ["feature:" + k, f.name])];
  const holds = { group: data.groups.length > 0, behaviour: data.behaviour.some((b) => b !== data.behaviour[0]) };
  return choices.filter(([id]) => (id in holds ? /** @type {any} */ (holds)[id] : differ(id))).map(([id, name]) => ({ id, name }));
};

/** @param {number} g number of a run, −1 for none @returns {string} */
export const groupColour = (g) => css(g < 0 ? theme.lone : ready.groups[g]);
/** @param {number} b class of behaviour @returns {number} packed; 0 without */
export const behaviourColour = (b) => (b < 1 ? 0 : b <= ready.palette.length ? ready.palette[b - 1] : theme.lone);

/** @returns {Uint32Array} packed colours of all policies; 0 where the value is not known */
export const rowColours = () => {
  if (ready.rows) return ready.rows;
  const { data } = app, rows = new Uint32Array(data.n), scale = scaleOf(state.colour), span = scale ? scale.high - scale.low : 0;
  for (let i = 0; i < data.n; i++) {
    if (data.reference[i]) rows[i] = theme.reference;
    else if (scale) {
      const t = span > 0 ? (scale.values[i] - scale.low) / span : 0.5;
      rows[i] = scale.values[i] === scale.values[i] ? scale.shades[Math.round(Math.min(1, Math.max(0, t)) * (SHADES - 1))] : 0;
    } else if (state.colour === "group") rows[i] = data.group[i] < 0 ? theme.lone : ready.groups[data.group[i]];
    else if (state.colour === "behaviour") rows[i] = behaviourColour(data.behaviour[i]);
  }
  return (ready.rows = rows);
};

/** @param {number} i @returns {string} its colour under the colouring chosen */
export const colourOf = (i) => css(rowColours()[i] || theme.lone);
/** @param {number} g @returns {number} packed */
export const packedGroup = (g) => ready.groups[g];
/** @returns {Uint32Array} the scale of densities */
export const densityShades = () => ready.scales.return;

/** Begins before the other parts of the map. */
export const startColours = () => {
  const renew = () => {
    prepare();
    const choices = colourings();
    if (choices.length && !choices.some(({ id }) => id === state.colour)) state.colour = choices[0].id;
  };
  renew();
  on("data", renew);
  on("colour", () => { ready.rows = null; });
  scheme.addEventListener("change", () => { prepare(); tellAll(new Set(["colour"])); });
};
