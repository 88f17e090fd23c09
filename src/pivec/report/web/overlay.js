// What lies over the points: ends of runs, the policies chosen and pointed at, the lasso, and the tip with names.
import { byId, framed, make, number, whole } from "./format.js";
import { app, on, state } from "./state.js";
import { groupColour, theme } from "./colours.js";
import { MANY_RUNS, screenX, screenY, view } from "./map.js";
import { crowdAt } from "./pointer.js";
import { outline } from "./lasso.js";

/** @type {CanvasRenderingContext2D} */
let pen;
let tipped = "";

/** @param {number} x @param {number} y @param {number} r @param {string} colour @param {number} width */
const ring = (x, y, r, colour, width) => {
  pen.beginPath(); pen.arc(x, y, r, 0, 7);
  pen.strokeStyle = theme.raised; pen.lineWidth = width + 2; pen.stroke();  // so that it is seen on any colour
  pen.strokeStyle = colour; pen.lineWidth = width; pen.stroke();
};
/** @param {number} x its tip @param {number} y @param {number} ux where it points @param {number} uy */
const arrow = (x, y, ux, uy) => {
  pen.beginPath(); pen.moveTo(x, y);
  pen.lineTo(x - ux * 9 - uy * 4, y - uy * 9 + ux * 4); pen.lineTo(x - ux * 9 + uy * 4, y - uy * 9 - ux * 4);
  pen.fill();
};

const drawEnds = () => {
  const { x, y, runs, step, group } = app.data, { shown, upTo } = state, r = view.radius;
  if (runs.length > MANY_RUNS || !state.lines || state.density) return;
  pen.lineWidth = 1.2; pen.strokeStyle = theme.ink;
  for (const rows of runs) {
    let last = rows.length - 1;
    while (last > 0 && step[rows[last]] > upTo) last--;
    const first = rows[0], end = rows[last];
    if (shown[first]) { pen.beginPath(); pen.arc(screenX(x[first]), screenY(y[first]), r + 3, 0, 7); pen.stroke(); }
    if (!last || !shown[end]) continue;
    const px = screenX(x[end]), py = screenY(y[end]);
    let dx = 0, dy = 0, d = 0;
    for (let k = last - 1; k >= 0 && d < 1; k--) { dx = px - screenX(x[rows[k]]); dy = py - screenY(y[rows[k]]); d = Math.hypot(dx, dy); }
    if (d < r + 4) continue;
    pen.fillStyle = state.colour === "group" ? groupColour(group[end]) : theme.ink;
    arrow(px - (dx / d) * (r + 1), py - (dy / d) * (r + 1), dx / d, dy / d);
  }
};

/** @param {number} i @param {string} letter */
const drawChosen = (i, letter) => {
  const px = screenX(app.data.x[i]), py = screenY(app.data.y[i]), r = view.radius + 4, colour = letter === "A" ? theme.accent : theme.second;
  ring(px, py, r, colour, 2.5);
  const x = px - 0.7 * r - 7, y = py - 0.7 * r - 7;
  pen.beginPath(); pen.arc(x, y, 9, 0, 7); pen.fillStyle = colour; pen.fill();
  pen.fillStyle = theme.raised; pen.font = "bold 12px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle";
  pen.fillText(letter, x, y + 0.5);
};

/** The policy pointed at; where it is off screen, an arrow at the border points to it. */
const drawHovered = () => {
  const { hovered: i } = state, px = screenX(app.data.x[i]), py = screenY(app.data.y[i]);
  const x = Math.min(view.width - 3, Math.max(3, px)), y = Math.min(view.height - 3, Math.max(3, py)), d = Math.hypot(px - x, py - y);
  if (!d) return ring(px, py, view.radius + 4, theme.ink, 2);
  pen.fillStyle = theme.ink; arrow(x, y, (px - x) / d, (py - y) / d);
};

const showTip = () => {
  const tip = byId("map-tip"), { data } = app, i = state.hovered, px = i < 0 ? -1 : screenX(data.x[i]), py = i < 0 ? -1 : screenY(data.y[i]);
  tip.hidden = !(px >= 0 && py >= 0 && px <= view.width && py <= view.height);
  if (tip.hidden) { tipped = ""; return; }
  const crowd = crowdAt(i), sign = i + ":" + crowd.n + ":" + crowd.nearest.join();
  if (sign !== tipped) {
    tipped = sign;
    const list = make("dl"), fact = (/** @type {string} */ name, /** @type {string} */ value) => list.append(make("dt", name), make("dd", value));
    for (const [name, value] of factsOf(i)) fact(name, value);
    tip.replaceChildren(make("strong", data.label[i]), list);
    if (crowd.n) {
      const names = make("ul");
      for (const k of crowd.nearest) names.append(make("li", data.label[k]));
      if (crowd.n > crowd.nearest.length) names.append(make("li", "…"));
      tip.append(make("p", `and ${whole(crowd.n)} more here`), names);
    }
  }
  const wide = tip.offsetWidth, tall = tip.offsetHeight, left = px + 18 + wide > view.width ? px - 18 - wide : px + 18;
  tip.style.transform = `translate(${Math.round(Math.max(4, left))}px, ${Math.round(Math.max(4, Math.min(view.height - tall - 4, py - tall / 2)))}px)`;
};

/** @param {number} i @returns {[string, string][]} what is known of a policy, beside its name */
export const factsOf = (i) => {
  const { data } = app;
  /** @type {[string, string][]} */
  const facts = [];
  if (data.group[i] >= 0) facts.push(["run", data.groups[data.group[i]]]);
  if (Number.isFinite(data.step[i])) facts.push(["step", whole(data.step[i])]);
  const spread = Number.isFinite(data.deviation[i]) ? " ± " + number(data.deviation[i]) : "";
  facts.push(["return", Number.isFinite(data.returns[i]) ? number(data.returns[i]) + spread : "not known"]);
  if (data.behaviour[i]) facts.push(["behaviour", String(data.behaviour[i])]);
  if (data.reference[i]) facts.push(["shown as", "reference"]);
  return facts;
};

/** Draw all of it; points are not painted anew. */
export const drawOverlay = () => {
  const { canvas } = pen, { ratio, width, height } = view, { a, b } = state, { x, y } = app.data;
  const wide = Math.round(width * ratio), tall = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== tall) { canvas.width = wide; canvas.height = tall; }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  drawEnds();
  if (a >= 0 && b >= 0) {
    pen.beginPath(); pen.moveTo(screenX(x[a]), screenY(y[a])); pen.lineTo(screenX(x[b]), screenY(y[b]));
    pen.strokeStyle = theme.accent; pen.lineWidth = 1.2; pen.stroke();
  }
  if (a >= 0) drawChosen(a, "A");
  if (b >= 0) drawChosen(b, "B");
  if (state.hovered >= 0) drawHovered();
  if (outline.length > 2) {
    pen.beginPath();
    for (let k = 0; k < outline.length; k += 2) pen.lineTo(screenX(outline[k]), screenY(outline[k + 1]));
    pen.closePath(); pen.globalAlpha = 0.12; pen.fillStyle = theme.accent; pen.fill("evenodd"); pen.globalAlpha = 1;
    pen.strokeStyle = theme.accent; pen.lineWidth = 1.5; pen.stroke();
  }
  showTip();
};
/** Draw it in the next frame. */
export const redraw = framed(drawOverlay);

export const startOverlay = () => {
  pen = byId("map-overlay").getContext("2d");
  on("data", () => { tipped = ""; });
  on("a b hovered", redraw);
};
