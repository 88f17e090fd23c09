// The map: what is painted, from where it is seen, and when.

import { rowColours, scaleOf, theme, tints } from "../colours";
import { byId, framed } from "../format";
import { app, isFaded, on, set, state } from "../state";
import { drawKey, startKey } from "./key";
import { startKeys } from "./keyboard";
import { startLasso } from "./lasso";
import { drawOverlay, startOverlay } from "./overlay";
import type { Look, Painter, Scene } from "./painter";
import { CELL, findPainter } from "./painter";
import { mixed } from "./pixels";
import { makeGrid, startPointer } from "./pointer";

/** From where the map is seen: its middle (on the map), pixels a unit, and the same when all is shown. */
export const view = { x: 0, y: 0, scale: 1, home: 1, width: 0, height: 0, ratio: 1, radius: 3 };
/** The middle of all policies, and half of what they span. */
export const extent = { x: 0, y: 0, halfX: 1, halfY: 1 };
/** Returns whether the runs are few enough to mark their ends. */
export const fewRuns = (): boolean => app.data.runs.length <= 60;

/** `x`: on the map; returns pixels from the left. */
export const screenX = (x: number): number => view.width / 2 + (x - view.x) * view.scale;
export const screenY = (y: number) => view.height / 2 - (y - view.y) * view.scale;
export const mapX = (px: number) => view.x + (px - view.width / 2) / view.scale;
export const mapY = (py: number) => view.y - (py - view.height / 2) / view.scale;

let painter: Painter;
const scene: Scene = {} as any;
const look: Look = { cell: 0 } as any;
/** Rows from the back to the front: references, then in random order, so that none hides others. */
let front = new Uint32Array(0),
  stale = true,
  painted = false;

const endsOf = (values: ArrayLike<number>): [number, number] => {
  let low = Infinity,
    high = -Infinity;
  for (let i = 0; i < values.length; i++)
    if (Number.isFinite(values[i])) {
      if (values[i] < low) low = values[i];
      if (values[i] > high) high = values[i];
    }
  return low <= high ? [low, high] : [0, 0];
};

const survey = () => {
  const { x, y, n, reference, joins } = app.data,
    [x0, x1] = endsOf(x),
    [y0, y1] = endsOf(y);
  Object.assign(extent, {
    x: (x0 + x1) / 2,
    y: (y0 + y1) / 2,
    halfX: Math.max((x1 - x0) / 2, 1e-9),
    halfY: Math.max((y1 - y0) / 2, 1e-9),
  });
  front = Uint32Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1, seed = 1; i > 0; i--) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; // Knuth's linear congruential generator
    const j = Math.floor((seed / 2 ** 32) * (i + 1)),
      held = front[i];
    front[i] = front[j];
    front[j] = held;
  }
  if (reference.includes(1)) front.sort((i, j) => reference[j] - reference[i]);
  Object.assign(scene, {
    points: new Float32Array(2 * n),
    colour: new Uint32Array(n),
    shape: new Uint8Array(n),
    level: new Float32Array(n),
    lines: new Float32Array(4 * n),
    lineColour: new Uint32Array(n),
    bands: new Float32Array(2 * joins.length),
  });
  makeGrid();
};

/** Put what is shown into the scene; not in frames, but when something changed. */
const fillScene = () => {
  const { x, y, step, reference, group, runs, joins } = app.data,
    { shown } = state,
    colours = rowColours(),
    scale = scaleOf(state.colour);
  const put = (into: Float32Array, at: number, i: number) => {
    into[at] = x[i] - extent.x;
    into[at + 1] = y[i] - extent.y;
  };
  Object.assign(scene, {
    n: 0,
    nLines: 0,
    nBands: 0,
    chosen: 0,
    paper: theme.paper,
    rim: theme.lone,
    band: theme.band,
    shades: scale?.shades ?? null,
  });
  for (const wanted of [false, true]) {
    scene.chosen = scene.n;
    for (const i of front)
      if (shown[i] && isFaded(i) !== wanted && Number.isFinite(x[i] + y[i])) {
        scene.level[scene.n] = scale ? scale.at(scale.values[i]) : NaN;
        put(scene.points, 2 * scene.n, i);
        scene.colour[scene.n] = wanted
          ? colours[i]
          : mixed(theme.paper, colours[i] || theme.lone, 50);
        scene.shape[scene.n++] =
          (reference[i] ? 2 : runs.length && step[i] !== step[i] ? 1 : 0) |
          (scene.colour[scene.n - 1] ? 0 : 4);
      }
  }
  const join = (into: Float32Array, at: number, i: number, j: number) => {
    if (!shown[i] || !shown[j] || !Number.isFinite(x[i] + y[i] + x[j] + y[j])) return 0;
    put(into, 4 * at, i);
    put(into, 4 * at + 2, j);
    return 1;
  };
  for (const run of runs)
    for (let k = 1; k < run.length; k++) {
      const colour = tints.groups[group[run[k]]],
        faded = isFaded(run[k - 1]) && isFaded(run[k]);
      scene.lineColour[scene.nLines] = faded ? mixed(theme.paper, colour, 50) : colour;
      scene.nLines += join(scene.lines, scene.nLines, run[k - 1], run[k]);
    }
  for (let k = 0; k < joins.length; k += 2)
    scene.nBands += join(scene.bands, scene.nBands, joins[k], joins[k + 1]);
  painter.load(scene);
};

const paintMap = () => {
  if (!view.width || !view.height) return;
  const { ratio } = view,
    base = Math.min(6.5, Math.max(1.5, 150 / Math.sqrt(Math.max(1, state.nShown)))),
    few = fewRuns(),
    cell = state.density ? CELL * ratio : 0;
  const counts = (stale && cell) || cell !== look.cell;
  if (stale) {
    stale = false;
    fillScene();
  }
  const radius = (view.radius =
    Math.round(8 * base * Math.min(3, Math.max(0.85, (view.scale / view.home) ** 0.4))) / 8);
  look.width = Math.round(view.width * ratio);
  look.height = Math.round(view.height * ratio);
  look.x = ratio * screenX(extent.x);
  look.y = ratio * screenY(extent.y);
  look.scale = ratio * view.scale;
  look.radius = ratio * radius;
  look.edge = radius > 3 ? ratio : 0;
  look.hollow = 1.2 * ratio;
  look.line = state.lines ? ratio * (few ? 0.8 : 0.4) : 0;
  look.alpha = few ? 0.7 : 0.25;
  look.band = state.joins ? ratio * Math.min(3.5, radius + 1) : 0;
  look.cell = cell;
  painter.paint(look);
  drawOverlay();
  if (counts) drawKey();
  if (!painted) {
    painted = true;
    performance.mark("pivec-painted");
  }
};
const repaint = framed(paintMap);
const refill = () => {
  stale = true;
  repaint();
};

let ownView: any = null;
let viewTimer = 0,
  itself = true,
  mine = false; // whether density is switched by the page, and whether just now
const moved = () => {
  repaint();
  clearTimeout(viewTimer);
  viewTimer = window.setTimeout(() => {
    ownView = { x: view.x, y: view.y, scale: view.scale };
    set({ view: ownView });
  }, 150); // others need not follow each frame
};
/** Switch to density where points would cover each other, until the reader decides. */
const checkDensity = () => {
  const covered = (rowsInView().length * Math.PI * view.radius ** 2) / (view.width * view.height);
  mine = true;
  if (itself && (covered > 1 || covered < 0.6)) set({ density: covered > 1 });
  mine = false;
};

/** Returns rows that are shown and within the view. */
export const rowsInView = (): Int32Array => {
  const { x, y, n } = app.data,
    { shown } = state,
    x0 = mapX(0),
    x1 = mapX(view.width),
    y0 = mapY(view.height),
    y1 = mapY(0),
    rows = new Int32Array(n);
  let many = 0;
  for (let i = 0; i < n; i++)
    if (shown[i] && x[i] >= x0 && x[i] <= x1 && y[i] >= y0 && y[i] <= y1) rows[many++] = i;
  return rows.slice(0, many);
};

/** `dx`: pixels. */
export const moveBy = (dx: number, dy: number) => {
  view.x -= dx / view.scale;
  view.y += dy / view.scale;
  moved();
};

/** `px`: what stays where it is. */
export const zoomAt = (
  factor: number,
  px: number = view.width / 2,
  py: number = view.height / 2,
) => {
  const x = mapX(px),
    y = mapY(py);
  view.scale = Math.min(view.home * 400, Math.max(view.home * 0.4, view.scale * factor));
  view.x += x - mapX(px);
  view.y += y - mapY(py);
  moved();
};

/** `px`: pixels. */
export const onScreen = (px: number, py: number, margin: number = 0) =>
  px >= margin && py >= margin && px <= view.width - margin && py <= view.height - margin;

/** `i`: is brought into the middle if it is off screen. */
export const lookAt = (i: number) => {
  const { x, y } = app.data;
  if (onScreen(screenX(x[i]), screenY(y[i]), 12)) return;
  view.x = x[i];
  view.y = y[i];
  moved();
};

/** Show what the state says: all, or what others have set, as a link does. */
const adoptView = () => {
  ownView = state.view;
  Object.assign(view, ownView || { x: extent.x, y: extent.y, scale: view.home });
  repaint();
};
/** Show the policies that are shown and of interest; all that the filters leave by default. */
export const fitRows = (wanted: (i: number) => boolean = () => true) => {
  const { x, y } = app.data,
    rows = [...state.shown.keys()].filter((i) => state.shown[i] && wanted(i));
  if (!rows.length) return;
  const [x0, x1] = endsOf(rows.map((i) => x[i])),
    [y0, y1] = endsOf(rows.map((i) => y[i])),
    fits = (half: number, pixels: number) => (0.82 * pixels) / Math.max(2 * half, 1e-9);
  const scale = Math.min(
    fits((x1 - x0) / 2, view.width),
    fits((y1 - y0) / 2, view.height),
    view.home * 40,
  );
  clearTimeout(viewTimer);
  const all = rows.length === app.data.n;
  set({ view: all ? null : { x: (x0 + x1) / 2, y: (y0 + y1) / 2, scale } });
  adoptView();
  checkDensity();
};

/** Follow the size of the page, and keep the middle. */
const resizeMap = () => {
  const { clientWidth: width, clientHeight: height } = byId("map");
  if (!width || !height) return;
  Object.assign(view, {
    width,
    height,
    ratio: Math.min(2, window.devicePixelRatio || 1),
    home: 0.87 * Math.min(width / (2 * extent.halfX), height / (2 * extent.halfY)),
  });
  if (!state.view) adoptView();
};

export const mapPart = () => {
  survey();
  startOverlay();
  resizeMap();
  adoptView();
  findPainter(byId("map-points"), (other) => {
    painter = other;
    refill();
  });
  on("data", () => {
    const { scale } = view;
    survey();
    resizeMap();
    refill();
    if (state.view) view.scale = scale;
  });
  on("shown colour selection found", refill);
  on("lines joins density labels", repaint);
  on("density", () => {
    itself = itself && mine;
  });
  on("view", () => {
    if (state.view !== ownView) adoptView();
  });
  on("view shown", checkDensity);
  byId("map-in").addEventListener("click", () => zoomAt(1.5));
  byId("map-out").addEventListener("click", () => zoomAt(1 / 1.5));
  byId("map-fit").addEventListener("click", () => fitRows());
  startPointer();
  startLasso();
  startKeys();
  startKey();
  new ResizeObserver(() => {
    resizeMap();
    paintMap();
  }).observe(byId("map"));
  paintMap();
  checkDensity();
};
