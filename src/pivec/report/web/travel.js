// The distance travelled along each run: a line a run, those of A and B in front.
import { byId, framed, make, number, whole } from "./format.js";
import { app, choose, on, set, state } from "./state.js";
import { groupColour } from "./colours.js";
import { fittingText, pageColour, placeTip, sharpPen, whenInSight } from "./pen.js";

/** @typedef {import("./data.js").Travel} Travel */

const NAMED = 24, MOST_LINES = 2000, TALL = 380, TOP = 14, BOTTOM = 44, LEFT = 62;

/** @param {number} low @param {number} high @returns {number[]} round numbers from at or below low to at or above high */
const roundTicks = (low, high) => {
  const span = high - low || 1, power = 10 ** Math.floor(Math.log10(span / 5));
  const size = ([1, 2, 2.5, 5].find((m) => m * power * 5 >= span * 0.999) || 10) * power, first = Math.floor(low / size + 1e-9);
  return Array.from({ length: Math.max(2, Math.ceil(high / size - 1e-9) - first + 1) }, (_, k) => Number(((first + k) * size).toPrecision(12)));
};
/** @param {number} step @returns {string} in thousands or millions */
const shortStep = (step) => {
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e9, " G"], [1e6, " M"], [1e3, " k"]])) if (Math.abs(step) >= size) return Number((step / size).toPrecision(4)) + unit;
  return String(step);
};
/** @param {{y: number}[]} names from top to bottom; are moved so that they keep a distance, within what there is @param {number} low @param {number} high */
const keepApart = (names, low, high) => {
  names.sort((p, q) => p.y - q.y);
  names.forEach((name, k) => { name.y = Math.max(name.y, k ? names[k - 1].y + 16 : low); });
  for (let k = names.length - 1; k >= 0; k--) names[k].y = Math.min(names[k].y, high - 16 * (names.length - 1 - k));
};

export const travelPart = () => {
  const box = byId("travel-live");
  if (!box) return;  // no runs
  /** @type {HTMLCanvasElement} */
  const canvas = byId("travel-lines");
  const tip = byId("travel-tip"), note = byId("travel-note"), back = document.createElement("canvas");
  /** @type {Travel[]} */
  let runs = [];
  /** @type {{run: Travel, k: number} | null} */
  let near = null;
  let first = 0, last = 1, ticks = [0, 1], right = 24, width = 0;

  const xOf = (/** @type {number} */ step) => LEFT + ((step - first) / (last - first || 1)) * (width - LEFT - right);
  const yOf = (/** @type {number} */ far) => TALL - BOTTOM - (far / ticks[ticks.length - 1]) * (TALL - TOP - BOTTOM);
  const stepsOf = (/** @type {Travel} */ { rows }) => { let k = rows.length; while (k && app.data.step[rows[k - 1]] > state.upTo) k--; return k; };
  const named = () => runs.length <= NAMED && width > 600;
  const isFront = (/** @type {Travel} */ run) => run === near?.run || [state.a, state.b].some((i) => i >= 0 && app.data.group[i] === run.group && run.group >= 0);

  const trace = (/** @type {CanvasRenderingContext2D} */ pen, /** @type {Travel} */ run) => {
    for (let k = 0, n = stepsOf(run); k < n; k++) pen[k ? "lineTo" : "moveTo"](xOf(app.data.step[run.rows[k]]), yOf(run.cumulative[k]));
  };
  const drawBand = (/** @type {CanvasRenderingContext2D} */ pen, /** @type {Travel} */ { rows, cumulative, half, group }, /** @type {number} */ n) => {
    if (!half) return;
    pen.beginPath();
    for (let k = 0; k < n; k++) pen.lineTo(xOf(app.data.step[rows[k]]), yOf(cumulative[k] + half[k]));
    for (let k = n - 1; k >= 0; k--) pen.lineTo(xOf(app.data.step[rows[k]]), yOf(Math.max(0, cumulative[k] - half[k])));
    pen.globalAlpha = 0.16; pen.fillStyle = groupColour(group); pen.fill(); pen.globalAlpha = 1;
  };
  const drawRun = (/** @type {CanvasRenderingContext2D} */ pen, /** @type {Travel} */ run, /** @type {boolean} */ front) => {
    const n = stepsOf(run);
    drawBand(pen, run, n);
    pen.strokeStyle = pen.fillStyle = groupColour(run.group); pen.lineWidth = front ? 3 : 2;
    pen.beginPath(); trace(pen, run); pen.stroke();
    for (let k = 0; k < n && n <= 60; k++) { pen.beginPath(); pen.arc(xOf(app.data.step[run.rows[k]]), yOf(run.cumulative[k]), front ? 3.5 : 2.5, 0, 7); pen.fill(); }
  };

  /** Axes and lines that stay as they are while runs are pointed at. */
  const drawBack = () => {
    width = canvas.clientWidth;
    const pen = sharpPen(back, width, TALL);
    right = named() ? 24 + Math.min(200, 7 * Math.max(0, ...runs.map((run) => app.data.groups[run.group]?.length || 6))) : width > 600 ? 150 : 24;
    pen.fillStyle = pageColour("soft"); pen.strokeStyle = pageColour("line"); pen.textAlign = "right";
    for (const tick of ticks) {
      pen.beginPath(); pen.moveTo(LEFT, yOf(tick)); pen.lineTo(width - right, yOf(tick)); pen.stroke();
      pen.fillText(number(tick), LEFT - 8, yOf(tick));
    }
    pen.textAlign = "center";
    const steps = roundTicks(first, last).filter((tick) => tick >= first && tick <= last);
    steps.forEach((tick, k) => { if (width > 600 || k % 2 === 0) pen.fillText(shortStep(tick), xOf(tick), TALL - BOTTOM + 16); });
    pen.fillText("training step", (LEFT + width - right) / 2, TALL - 10);
    pen.lineJoin = "round";
    if (runs.length <= NAMED) { for (const run of runs) drawRun(pen, run, false); return; }
    const every = Math.ceil(runs.length / MOST_LINES);
    pen.lineWidth = 1; pen.globalAlpha = Math.max(0.12, Math.min(0.6, 40 / (runs.length / every)));
    runs.forEach((run, k) => { if (k % every === 0) { pen.strokeStyle = groupColour(run.group); pen.beginPath(); trace(pen, run); pen.stroke(); } });
    pen.globalAlpha = 1;
  };
  const draw = framed(() => {
    if (!width) return;
    const pen = sharpPen(canvas, width, TALL), front = runs.filter(isFront);
    pen.globalAlpha = front.length ? 0.4 : 1; pen.drawImage(back, 0, 0, width, TALL); pen.globalAlpha = 1;
    for (const run of front) drawRun(pen, run, true);
    const names = (named() && !front.length ? runs : front).filter((run) => stepsOf(run)).map((run) => ({ run, y: yOf(run.cumulative[stepsOf(run) - 1]) }));
    keepApart(names, TOP, TALL - BOTTOM);
    pen.textAlign = "left";
    if (right > 24) for (const { run, y } of names) {
      const x = width - right + 12, letters = ["a", "b"].filter((side) => { const i = state[/** @type {"a" | "b"} */ (side)]; return i >= 0 && app.data.group[i] === run.group; });
      pen.fillStyle = groupColour(run.group); pen.beginPath(); pen.arc(x, y, 4, 0, 7); pen.fill();
      pen.fillStyle = pageColour("ink");
      pen.fillText(fittingText(pen, app.data.groups[run.group] || "no run", right - 24 - 18 * letters.length) + letters.map((side) => " · " + side.toUpperCase()).join(""), x + 9, y);
    }
    for (const i of [state.a, state.b]) for (const run of front) {
      const k = run.rows.indexOf(i);
      if (k >= 0 && k < stepsOf(run)) ring(pen, run, k, pageColour(i === state.a ? "a" : "b") || pageColour("accent"));
    }
    if (near) ring(pen, near.run, near.k, pageColour("ink"));
  });
  const ring = (/** @type {CanvasRenderingContext2D} */ pen, /** @type {Travel} */ run, /** @type {number} */ k, /** @type {string} */ colour) => {
    for (const [wide, paint] of /** @type {[number, string][]} */ ([[4, pageColour("paper")], [2, colour]])) {
      pen.beginPath(); pen.arc(xOf(app.data.step[run.rows[k]]), yOf(run.cumulative[k]), 7, 0, 7);
      pen.lineWidth = wide; pen.strokeStyle = paint; pen.stroke();
    }
  };

  const renew = () => {
    const { travels, step } = app.data;
    runs = travels.filter(({ rows, group }) => !state.hidden.has(group) && rows.some((i) => state.shown[i]));
    first = Infinity; last = -Infinity;
    let most = 0;
    for (const { rows, cumulative, half } of travels) rows.forEach((i, k) => {
      first = Math.min(first, step[i]); last = Math.max(last, step[i]); most = Math.max(most, cumulative[k] + (half ? half[k] : 0));
    });
    ticks = roundTicks(0, most || 1);
    near = null; tip.hidden = true;
    const every = Math.ceil(runs.length / MOST_LINES);
    note.textContent = (runs.length < travels.length ? `${whole(runs.length)} of ${whole(travels.length)} runs.` : `${whole(runs.length)} run${runs.length === 1 ? "" : "s"}.`)
      + (every > 1 ? ` A line in ${whole(every)} is drawn, those of A and B always.` : "");
    drawBack(); draw();
  };
  const renewInSight = whenInSight(box, renew);

  const find = (/** @type {MouseEvent} */ event) => {
    const { left, top } = canvas.getBoundingClientRect(), x = event.clientX - left, y = event.clientY - top;
    let best = null, least = 20 ** 2;
    for (const run of runs) for (let k = 0, n = stepsOf(run); k < n; k++) {
      const far = (xOf(app.data.step[run.rows[k]]) - x) ** 2 + (yOf(run.cumulative[k]) - y) ** 2;
      if (far < least) { least = far; best = { run, k }; }
    }
    return best;
  };
  const point = (/** @type {{run: Travel, k: number} | null} */ place) => {
    if (place?.run === near?.run && place?.k === near?.k) return;
    near = place; draw();
    set({ hovered: near ? near.run.rows[near.k] : -1 });
    if (!near) { tip.hidden = true; return; }
    const { run, k } = near, half = run.half ? " ± " + number(run.half[k], 2) : "";
    tip.replaceChildren(make("strong", app.data.groups[run.group] || "no run"), make("div", "step " + whole(app.data.step[run.rows[k]])), make("div", "travelled " + number(run.cumulative[k]) + half));
    placeTip(tip, xOf(app.data.step[run.rows[k]]), yOf(run.cumulative[k]), width, TALL);
  };
  canvas.addEventListener("pointermove", (event) => point(find(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => { const place = find(event); if (place) choose(place.run.rows[place.k]); });

  on("shown data", renewInSight);
  on("a b", draw);
  const repaint = whenInSight(box, () => { drawBack(); draw(); });
  on("colour", repaint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new ResizeObserver(repaint).observe(canvas);
  box.hidden = false;
  byId("travel-static").classList.add("print-only");
  renewInSight();
};
