// The map by keys: walking between policies, choosing them, moving and zooming.
import { announce, byId, whole } from "./format.js";
import { app, set, state } from "./state.js";
import { fitAll, lookAt, moveBy, screenX, screenY, view, zoomAt } from "./map.js";
import { factsOf } from "./overlay.js";
import { crowdAt } from "./pointer.js";
import { dropLasso, isLasso } from "./lasso.js";

/** @type {Record<string, [number, number]>} */
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** @returns {number} the policy shown that is nearest to the middle of the view */
const middle = () => {
  const { x, y, n } = app.data;
  let best = -1, least = Infinity;
  for (let i = 0; i < n; i++) if (state.shown[i]) {
    const far = (x[i] - view.x) ** 2 + (y[i] - view.y) ** 2;
    if (far < least) { least = far; best = i; }
  }
  return best;
};

/** @param {number} from @param {number} ux @param {number} uy @returns {number} the nearest policy that way, within 45° to both sides; −1 without */
const nextTo = (from, ux, uy) => {
  const { x, y, n } = app.data, px = screenX(x[from]), py = screenY(y[from]);
  let best = -1, least = Infinity;
  for (let i = 0; i < n; i++) {
    if (!state.shown[i] || i === from) continue;
    const dx = screenX(x[i]) - px, dy = screenY(y[i]) - py, along = dx * ux + dy * uy, across = Math.abs(dx * uy) + Math.abs(dy * ux);
    // Policies at the very same place follow each other by their number.
    const same = !dx && !dy && i > from === ux + uy > 0, far = same ? Math.abs(i - from) * 1e-9 : along + 2 * across;
    if ((same || (along > 0 && across <= along)) && far < least) { least = far; best = i; }
  }
  return best;
};

/** @param {[number, number]} way */
const walk = ([ux, uy]) => {
  const { hovered, a, shown } = state, here = hovered >= 0 && shown[hovered] ? hovered : -1;
  const i = here >= 0 ? nextTo(here, ux, uy) : a >= 0 && shown[a] ? a : middle();
  if (i < 0) { announce("No policy further that way"); return; }
  lookAt(i); set({ hovered: i });
  const { n } = crowdAt(i);
  announce([app.data.label[i], ...factsOf(i).map((fact) => fact.join(" ")), ...(n ? [`${whole(n)} more here`] : [])].join(", "));
};

/** Let go of what was taken last. */
const letGo = () => {
  if (isLasso()) dropLasso();
  else if (byId("lasso").getAttribute("aria-pressed") === "true") byId("lasso").click();
  else if (state.selection) set({ selection: null });
  else if (state.hovered >= 0) set({ hovered: -1 });
  else set({ a: -1, b: -1 });
};

export const startKeys = () => {
  byId("map-overlay").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const { key } = event, way = WAYS[key], moves = event.ctrlKey || event.altKey || event.metaKey;
    if (way && moves) moveBy(-60 * way[0], -60 * way[1]);
    else if (moves) return;
    else if (way) walk(way);
    else if (key === "Enter") {
      const i = state.hovered;
      if (i >= 0) { set(event.shiftKey ? { b: i } : { a: i }); announce(`${app.data.label[i]} is ${event.shiftKey ? "B" : "A"}`); }
    } else if (key === "+" || key === "=") zoomAt(1.3);
    else if (key === "-" || key === "−") zoomAt(1 / 1.3);
    else if (key === "0") fitAll();
    else if (key === "Escape") letGo();
    else return;
    event.preventDefault();
  });
};
