// Mouse and touch on the map, and which policy is under them.
import { byId, framed } from "./format.js";
import { app, choose, set, state } from "./state.js";
import { extent, mapX, mapY, moveBy, screenX, screenY, view, zoomAt } from "./map.js";
import { beginLasso, dropLasso, endLasso, extendLasso, isLasso } from "./lasso.js";

/** Cells of the plane with the rows in each, so that few policies have to be looked at. */
const grid = { side: 1, start: new Uint32Array(2), rows: new Uint32Array(0) };
/** @param {number} value @param {number} middle @param {number} half */
const cellOf = (value, middle, half) => Math.min(grid.side - 1, Math.max(0, Math.floor(((value - middle) / half + 1) * 0.5 * grid.side)));

export const makeGrid = () => {
  const { x, y, n } = app.data, side = (grid.side = Math.min(512, Math.max(1, Math.ceil(Math.sqrt(n / 4)))));
  const cells = new Uint32Array(n), start = new Uint32Array(side * side + 1);
  for (let i = 0; i < n; i++) start[(cells[i] = cellOf(x[i], extent.x, extent.halfX) * side + cellOf(y[i], extent.y, extent.halfY)) + 1]++;
  for (let c = 0; c < side * side; c++) start[c + 1] += start[c];
  const next = start.slice(), rows = new Uint32Array(n);
  for (let i = 0; i < n; i++) rows[next[cells[i]]++] = i;
  grid.start = start; grid.rows = rows;
};

/** @param {number} px @param {number} py pixels @param {number} reach @param {(i: number, far: number) => void} visit gets rows that are shown and no farther, and their squared distance */
const around = (px, py, reach, visit) => {
  const { x, y } = app.data, { shown } = state, { start, rows, side } = grid, d = reach / view.scale, mx = mapX(px), my = mapY(py);
  const b0 = cellOf(my - d, extent.y, extent.halfY), b1 = cellOf(my + d, extent.y, extent.halfY), last = cellOf(mx + d, extent.x, extent.halfX);
  for (let a = cellOf(mx - d, extent.x, extent.halfX); a <= last; a++) for (let k = start[a * side + b0]; k < start[a * side + b1 + 1]; k++) {
    const i = rows[k], far = (screenX(x[i]) - px) ** 2 + (screenY(y[i]) - py) ** 2;
    if (shown[i] && far <= reach * reach) visit(i, far);
  }
};

/** @param {number} px @param {number} py @param {number} reach @returns {number} the nearest policy that is shown, −1 without */
export const nearestAt = (px, py, reach) => {
  let best = -1, least = Infinity;
  around(px, py, reach, (i, far) => {
    const weight = far + (app.data.reference[i] ? 30 : 0);
    if (weight < least) { least = weight; best = i; }
  });
  return best;
};

/** @param {number} i @returns {{n: number, nearest: number[]}} how many others lie about where it is, and the nearest of them */
export const crowdAt = (i) => {
  /** @type {number[]} */
  const nearest = [], fars = /** @type {number[]} */ ([]);
  let n = 0;
  around(screenX(app.data.x[i]), screenY(app.data.y[i]), Math.max(4, view.radius), (j, far) => {
    if (j === i) return;
    n++;
    let k = nearest.length;
    if (k === 8 && far >= fars[7]) return;
    while (k > 0 && fars[k - 1] > far) k--;
    nearest.splice(k, 0, j); fars.splice(k, 0, far);
    if (nearest.length > 8) { nearest.pop(); fars.pop(); }
  });
  return { n, nearest };
};

export const startPointer = () => {
  const plane = byId("map-overlay");
  /** @type {Map<number, {x: number, y: number}>} */
  const held = new Map();
  let startX = 0, startY = 0, dragged = false, clicked = -1e9, before = { a: -1, b: -1 };
  const pointed = { x: 0, y: 0 };
  const place = (/** @type {MouseEvent} */ event) => { const box = plane.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
  const reach = () => Math.max(12, view.radius + 4);
  const hover = framed(() => set({ hovered: nearestAt(pointed.x, pointed.y, reach()) }));

  plane.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
    event.preventDefault();
    const { x, y } = place(event), steps = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
    zoomAt(Math.exp(-Math.max(-200, Math.min(200, steps)) * 0.0022), x, y);
    Object.assign(pointed, { x, y }); hover();
  }, { passive: false });
  plane.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    if (event.button) return;
    const { x, y } = place(event);
    plane.setPointerCapture(event.pointerId); held.set(event.pointerId, { x, y });
    if (held.size > 1) { dragged = true; dropLasso(); return; }
    startX = x; startY = y; dragged = false;
    if (byId("lasso").getAttribute("aria-pressed") === "true" || event.shiftKey) beginLasso(mapX(x), mapY(y));
  });
  plane.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const now = place(event), was = held.get(event.pointerId), touch = event.pointerType === "touch";
    if (!was) { if (!touch) { Object.assign(pointed, now); hover(); } return; }
    if (!dragged) {
      if (Math.hypot(now.x - startX, now.y - startY) < (touch ? 8 : 3)) return;
      dragged = true; plane.classList.add("dragging");
      if (!touch) set({ hovered: -1 });
    }
    if (isLasso()) extendLasso(mapX(now.x), mapY(now.y));
    else if (held.size === 2) {
      const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
      const far = Math.hypot(was.x - other.x, was.y - other.y), after = Math.hypot(now.x - other.x, now.y - other.y);
      moveBy((now.x - was.x) / 2, (now.y - was.y) / 2);
      if (far > 0 && after > 0) zoomAt(after / far, (now.x + other.x) / 2, (now.y + other.y) / 2);
    } else moveBy(now.x - was.x, now.y - was.y);
    held.set(event.pointerId, now);
  });
  const release = (/** @type {PointerEvent} */ event) => {
    const was = held.delete(event.pointerId);
    if (!held.size) plane.classList.remove("dragging");
    return was && !held.size;
  };
  plane.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
    if (!release(event)) return;
    const { x, y } = place(event), touch = event.pointerType === "touch";
    if (isLasso() && dragged) { endLasso(); return; }
    dropLasso();
    if (dragged) { if (!touch) { Object.assign(pointed, { x, y }); hover(); } return; }
    const i = nearestAt(x, y, touch ? 24 : reach());
    // A touch shows the name and keeps it; a second one at the same place chooses.
    if (touch && i !== state.hovered) set({ hovered: i });
    else if (touch && i >= 0) choose(i);
    else if (!touch && performance.now() - clicked > 400) {
      clicked = performance.now(); before = { a: state.a, b: state.b };
      if (i >= 0 && event.shiftKey) set({ b: i });
      else if (i >= 0) choose(i);
    }
  });
  plane.addEventListener("pointercancel", (/** @type {PointerEvent} */ event) => { release(event); dropLasso(); });
  plane.addEventListener("pointerleave", (/** @type {PointerEvent} */ event) => { if (event.pointerType !== "touch" && !held.size) set({ hovered: -1 }); });
  plane.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => { const { x, y } = place(event); set(before); zoomAt(2, x, y); });
};
