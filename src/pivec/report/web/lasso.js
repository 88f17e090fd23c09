// Policies selected by a line drawn around them.
import { announce, byId, whole } from "./format.js";
import { app, on, set, state } from "./state.js";
import { redraw } from "./overlay.js";

/** The line that is being drawn, on the map: x, y, x, y, ... @type {number[]} */
export let outline = [];
/** @returns {boolean} whether a line is being drawn */
export const isLasso = () => outline.length > 0;

/** @param {number} x on the map @param {number} y */
export const beginLasso = (x, y) => { outline = [x, y]; };
/** @param {number} x @param {number} y */
export const extendLasso = (x, y) => { outline.push(x, y); redraw(); };
export const dropLasso = () => { if (outline.length) { outline = []; redraw(); } };

/** @param {number[]} line @param {number} px @param {number} py @returns {boolean} whether a ray to the right crosses the line an odd number of times */
export const encloses = (line, px, py) => {
  let inside = false;
  for (let k = 0, j = line.length - 2; k < line.length; j = k, k += 2) {
    const y0 = line[j + 1], y1 = line[k + 1];
    if (y0 > py !== y1 > py && px < line[j] + ((line[k] - line[j]) * (py - y0)) / (y1 - y0)) inside = !inside;
  }
  return inside;
};

export const endLasso = () => {
  const { x, y, n } = app.data, mask = new Uint8Array(n), line = outline;
  let many = 0;
  for (let i = 0; i < n; i++) if (state.shown[i] && encloses(line, x[i], y[i])) { mask[i] = 1; many++; }
  dropLasso();
  byId("lasso").setAttribute("aria-pressed", "false");
  set({ selection: many ? mask : null });
  announce(many ? `${whole(many)} ${many === 1 ? "policy" : "policies"} selected` : "No policy is within the line");
};

export const startLasso = () => {
  const button = byId("lasso"), clear = byId("clear-selection"), plane = byId("map-overlay");
  const press = (/** @type {boolean} */ active) => { button.setAttribute("aria-pressed", String(active)); plane.classList.toggle("lasso", active); };
  button.addEventListener("click", () => press(button.getAttribute("aria-pressed") !== "true"));
  clear.addEventListener("click", () => set({ selection: null }));
  on("selection", () => { clear.hidden = !state.selection; press(false); });
};
