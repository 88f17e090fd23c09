// The map: what is painted, from where it is seen, and when.
import { byId, framed } from "./format.js";
import { app, on, set, state } from "./state.js";
import { findPainter } from "./painter.js";
import { mixed } from "./pixels.js";
import { densityShades, packedGroup, rowColours, startColours, theme } from "./colours.js";
import { drawOverlay, startOverlay } from "./overlay.js";
import { makeGrid, startPointer } from "./pointer.js";
import { startLasso } from "./lasso.js";
import { startKeys } from "./keyboard.js";
import { startKey } from "./key.js";

/** @typedef {import("./painter.js").Painter} Painter @typedef {import("./painter.js").Scene} Scene @typedef {import("./painter.js").Look} Look */

/** From where the map is seen: its middle (on the map), pixels a unit, and the same when all is shown. */
export const view = { x: 0, y: 0, scale: 1, home: 1, width: 0, height: 0, ratio: 1, radius: 3 };
/** The middle of all policies, and half of what they span. */
export const extent = { x: 0, y: 0, halfX: 1, halfY: 1 };
export const MANY_RUNS = 60;  // of more, lines are thin and ends are not marked

/** @param {number} x on the map @returns {number} pixels from the left */
export const screenX = (x) => view.width / 2 + (x - view.x) * view.scale;
/** @param {number} y */
export const screenY = (y) => view.height / 2 - (y - view.y) * view.scale;
/** @param {number} px */
export const mapX = (px) => view.x + (px - view.width / 2) / view.scale;
/** @param {number} py */
export const mapY = (py) => view.y - (py - view.height / 2) / view.scale;

/** @type {Painter | null} */
let painter = null;
/** @type {Scene} */
const scene = {
  n: 0, chosen: 0, x: new Float32Array(0), y: new Float32Array(0), colour: new Uint32Array(0), shape: new Uint8Array(0), nLines: 0, lines: new Float32Array(0),
  lineColour: new Uint32Array(0), nBands: 0, bands: new Float32Array(0), band: 0, paper: 0, rim: 0, scale: new Uint32Array(0),
};
/** @type {Look} */
const look = { width: 0, height: 0, x: 0, y: 0, scale: 1, radius: 3, edge: 0, hollow: 1, lineHalf: 0, lineAlpha: 1, bandHalf: 0, cell: 0 };
/** Rows from the back to the front: references, then by return. */
let front = new Uint32Array(0), stale = true, painted = false;

const measureExtent = () => {
  const { x, y, n, returns, reference } = app.data;
  let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
  for (let i = 0; i < n; i++) if (Number.isFinite(x[i]) && Number.isFinite(y[i])) {
    if (x[i] < x0) x0 = x[i]; if (x[i] > x1) x1 = x[i];
    if (y[i] < y0) y0 = y[i]; if (y[i] > y1) y1 = y[i];
  }
  if (x0 > x1) x0 = x1 = y0 = y1 = 0;
  Object.assign(extent, { x: (x0 + x1) / 2, y: (y0 + y1) / 2, halfX: Math.max((x1 - x0) / 2, 1e-9), halfY: Math.max((y1 - y0) / 2, 1e-9) });
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < n; i++) { if (returns[i] < low) low = returns[i]; if (returns[i] > high) high = returns[i]; }
  // Numbers are sorted much faster than by a function: the rank above, the row below.
  const keys = new Float64Array(n), known = high > low ? (2 ** 20 - 2) / (high - low) : 0;
  for (let i = 0; i < n; i++) keys[i] = (reference[i] ? 0 : returns[i] === returns[i] ? 2 + Math.floor((returns[i] - low) * known) : 1) * 2 ** 31 + i;
  front = Uint32Array.from(keys.sort(), (key) => key % 2 ** 31);
  scene.x = new Float32Array(n); scene.y = new Float32Array(n); scene.colour = new Uint32Array(n); scene.shape = new Uint8Array(n);
  scene.lines = new Float32Array(4 * n); scene.lineColour = new Uint32Array(n); scene.bands = new Float32Array(2 * app.data.joins.length);
};

/** Put what is shown into the scene; not in frames, but when something changed. */
const fillScene = () => {
  const { data } = app, { shown, selection } = state, colours = rowColours(), anySteps = data.runs.length > 0;
  Object.assign(scene, { paper: theme.paper, rim: theme.lone, band: theme.band, scale: densityShades() });
  let n = 0;
  const add = (/** @type {number} */ wanted) => {
    for (let k = 0; k < front.length; k++) {
      const i = front[k];
      if (!shown[i] || (selection && selection[i] !== wanted) || !(Number.isFinite(data.x[i]) && Number.isFinite(data.y[i]))) continue;
      scene.x[n] = data.x[i] - extent.x; scene.y[n] = data.y[i] - extent.y;
      scene.colour[n] = wanted ? colours[i] : mixed(theme.paper, colours[i] || theme.lone, 50);
      scene.shape[n++] = (data.reference[i] ? 2 : anySteps && data.step[i] !== data.step[i] ? 1 : 0) | (colours[i] || !wanted ? 0 : 4);
    }
  };
  if (selection) add(0);
  scene.chosen = n;
  add(1);
  scene.n = n;
  let at = 0;
  const segment = (/** @type {Float32Array} */ into, /** @type {number} */ i, /** @type {number} */ j) => {
    if (!shown[i] || !shown[j]) return;
    into[4 * at] = data.x[i] - extent.x; into[4 * at + 1] = data.y[i] - extent.y;
    into[4 * at + 2] = data.x[j] - extent.x; into[4 * at + 3] = data.y[j] - extent.y;
    if (into === scene.lines) scene.lineColour[at] = state.colour === "group" ? packedGroup(data.group[i]) : theme.soft;
    at++;
  };
  for (const rows of data.runs) for (let k = 1; k < rows.length; k++) segment(scene.lines, rows[k - 1], rows[k]);
  scene.nLines = at; at = 0;
  for (let k = 0; k < data.joins.length; k += 2) segment(scene.bands, data.joins[k], data.joins[k + 1]);
  scene.nBands = at;
  if (painter) painter.load(scene);
};

const paint = () => {
  if (!painter || !view.width) return;
  if (stale) { stale = false; fillScene(); }
  const { ratio } = view, base = Math.min(6.5, Math.max(1.5, 150 / Math.sqrt(app.data.n)));
  const many = app.data.runs.length > MANY_RUNS, lines = state.lines && scene.nLines, bands = state.joins && scene.nBands;
  view.radius = Math.round(8 * base * Math.min(2.2, Math.max(0.85, (view.scale / view.home) ** 0.3))) / 8;
  look.width = Math.round(view.width * ratio); look.height = Math.round(view.height * ratio);
  look.x = ratio * screenX(extent.x); look.y = ratio * screenY(extent.y); look.scale = ratio * view.scale;
  look.radius = ratio * view.radius; look.edge = view.radius > 3 ? ratio : 0; look.hollow = 1.2 * ratio;
  look.lineHalf = lines ? ratio * (many ? 0.4 : 0.7) : 0; look.lineAlpha = many ? 0.22 : 0.5;
  look.bandHalf = bands ? ratio * Math.min(3.5, view.radius + 1) : 0;
  look.cell = state.density ? 4 * ratio : 0;
  painter.paint(look);
  drawOverlay();
  if (!painted) { painted = true; performance.mark("pivec-painted"); }
};
const repaint = framed(paint);
const refill = () => { stale = true; repaint(); };

/** @type {any} */
let own = null, timer = 0;
const tellView = () => { own = { x: view.x, y: view.y, scale: view.scale }; set({ view: own }); checkDensity(); };
const moved = () => { repaint(); clearTimeout(timer); timer = setTimeout(tellView, 150); };

let itself = true, mine = false;  // whether density is switched by the page, and by whom just now
/** Switch to density where points would cover each other, until the reader decides. */
const checkDensity = () => {
  if (!itself) return;
  const covered = (rowsInView().length * Math.PI * view.radius ** 2) / (view.width * view.height);
  if (covered > 1 || covered < 0.6) { mine = true; set({ density: covered > 1 }); mine = false; }
};

/** @returns {Int32Array} rows that are shown and within the view */
export const rowsInView = () => {
  const { x, y, n } = app.data, { shown } = state, x0 = mapX(0), x1 = mapX(view.width), y0 = mapY(view.height), y1 = mapY(0);
  const rows = new Int32Array(n);
  let many = 0;
  for (let i = 0; i < n; i++) if (shown[i] && x[i] >= x0 && x[i] <= x1 && y[i] >= y0 && y[i] <= y1) rows[many++] = i;
  return rows.slice(0, many);
};

/** @param {number} dx pixels @param {number} dy */
export const moveBy = (dx, dy) => { view.x -= dx / view.scale; view.y += dy / view.scale; moved(); };

/** @param {number} factor @param {number} px what stays where it is @param {number} py */
export const zoomAt = (factor, px = view.width / 2, py = view.height / 2) => {
  const x = mapX(px), y = mapY(py);
  view.scale = Math.min(view.home * 400, Math.max(view.home * 0.4, view.scale * factor));
  view.x += x - mapX(px); view.y += y - mapY(py);
  moved();
};

/** @param {number} i is brought into the middle if it is off screen */
export const lookAt = (i) => {
  const { x, y } = app.data, px = screenX(x[i]), py = screenY(y[i]);
  if (px > 12 && py > 12 && px < view.width - 12 && py < view.height - 12) return;
  view.x = x[i]; view.y = y[i]; moved();
};

const showAll = () => { view.x = extent.x; view.y = extent.y; view.scale = view.home; };
/** Show all policies. */
export const fitAll = () => { clearTimeout(timer); own = null; showAll(); repaint(); set({ view: null }); checkDensity(); };

/** Follow the size of the page, and keep the middle. */
const resize = () => {
  const box = byId("map").getBoundingClientRect();
  if (!box.width) return;
  const before = view.home;
  view.width = byId("map").clientWidth; view.height = byId("map").clientHeight; view.ratio = Math.min(2, window.devicePixelRatio || 1);
  view.home = 0.91 * Math.min(view.width / (2 * extent.halfX), view.height / (2 * extent.halfY));
  if (state.view) view.scale *= view.home / before; else showAll();
};

/** Take the view that others have set, as a link does. */
const adoptView = () => {
  if (!state.view) showAll(); else Object.assign(view, state.view);
  own = state.view;
};

export const mapPart = () => {
  startColours();
  measureExtent(); makeGrid(); resize(); adoptView();
  findPainter(byId("map-points"), (other) => { painter = other; stale = true; repaint(); });
  on("data", () => { measureExtent(); makeGrid(); const { x, y, scale } = view; resize(); if (state.view) Object.assign(view, { x, y, scale }); refill(); });
  on("shown colour selection", refill);
  on("lines joins density", repaint);
  on("density", () => { if (!mine) itself = false; });
  on("view", () => { if (state.view !== own) { adoptView(); repaint(); checkDensity(); } });
  on("shown", checkDensity);
  startOverlay(); startPointer(); startLasso(); startKeys(); startKey();
  byId("map-reset").addEventListener("click", fitAll);
  new ResizeObserver(() => { resize(); paint(); }).observe(byId("map"));
  paint(); checkDensity();
};
