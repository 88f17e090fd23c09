// Policies selected by a line drawn around them.
import { announce, byId } from "../format";
import { app, on, set, state } from "../state";
import { redraw } from "./overlay";

/** The line that is being drawn, on the map: x, y, x, y, ... */
export let outline: number[] = [];

/** `x`: on the map. */
export const extendLasso = (x: number, y: number) => {
  outline.push(x, y);
  redraw();
};
export const dropLasso = () => {
  outline = [];
  redraw();
};

/** Returns whether a ray to the right crosses the line an odd number of times. */
export const encloses = (line: number[], px: number, py: number): boolean => {
  let inside = false;
  for (let k = 0, j = line.length - 2; k < line.length; j = k, k += 2) {
    const y0 = line[j + 1],
      y1 = line[k + 1];
    if (y0 > py !== y1 > py && px < line[j] + ((line[k] - line[j]) * (py - y0)) / (y1 - y0))
      inside = !inside;
  }
  return inside;
};

/** Select what is within the line. */
export const endLasso = () => {
  const { x, y } = app.data,
    selection = state.shown.map((shown, i) => (shown && encloses(outline, x[i], y[i]) ? 1 : 0)),
    some = selection.includes(1);
  dropLasso();
  pressLasso(false);
  set({ selection: some ? selection : null });
  if (!some) announce("No policy is within the line");
};

/** `pressed`: whether the next drag draws a line. */
export const pressLasso = (pressed: boolean) => {
  byId("lasso").setAttribute("aria-pressed", String(pressed));
  byId("map-overlay").classList.toggle("lasso", pressed);
};
export const lassoPressed = (): boolean => byId("lasso").getAttribute("aria-pressed") === "true";

export const startLasso = () => {
  byId("lasso").addEventListener("click", () => pressLasso(!lassoPressed()));
  on("data", dropLasso);
};
