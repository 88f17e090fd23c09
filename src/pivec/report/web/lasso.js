// Policies selected by a line drawn around them.
import { announce, byId } from "./format.js";
import { app, on, set, state } from "./state.js";
import { redraw } from "./overlay.js";

/** The line that is being drawn, on the map: x, y, x, y, ... @type {number[]} */
export let outline = [];

/** @param {number} x on the map @param {number} y */
export const extendLasso = (x, y) => { outline.push(x, y); redraw(); };
export const dropLasso = () => { outline = []; redraw(); };

/** @param {number[]} line @param {number} px @param {number} py @returns {boolean} whether a ray to the right crosses the line an odd number of times */
const encloses = (line, px, py) => {
  let inside = false;
  for (let k = 0, j = line.length - 2; k < line.length; j = k, k += 2) {
    const y0 = line[j + 1], y1 = line[k + 1];
    if (y0 > py !== y1 > py && px < line[j] + ((line[k] - line[j]) * (py - y0)) / (y1 - y0)) inside = !inside;
  }
  return inside;
};

/** Select what is within the line. */
export const endLasso = () => {
  const { x, y } = app.data, selection = state.shown.map((shown, i) => (shown && encloses(outline, x[i], y[i]) ? 1 : 0)), some = selection.includes(1);
  dropLasso(); pressLasso(false);
  set({ selection: some ? selection : null });
  if (!some) announce("No policy is within the line");
};

/** @param {boolean} pressed whether the next drag draws a line */
export const pressLasso = (pressed) => { byId("lasso").setAttribute("aria-pressed", String(pressed)); byId("map-overlay").classList.toggle("lasso", pressed); };
/** @returns {boolean} */
export const lassoPressed = () => byId("lasso").getAttribute("aria-pressed") === "true";

export const startLasso = () => {
  byId("lasso").addEventListener("click", () => pressLasso(!lassoPressed()));
  on("data", dropLasso);
};
