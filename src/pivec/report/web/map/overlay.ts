// What lies over the points: ends of runs, the policies chosen and pointed at, the lasso, and the tip with names.

import { groupColour, theme } from "../colours";
import { byId, framed, make, number, whole } from "../format";
import { app, on, state } from "../state";
import { outline } from "./lasso";
import { fewRuns, onScreen, screenX, screenY, view } from "./map";
import { crowdAt } from "./pointer";

let pen: CanvasRenderingContext2D;
let tipped = "";

const ring = (x: number, y: number, r: number, colour: string, width: number) => {
  pen.beginPath();
  pen.arc(x, y, r, 0, 7);
  pen.strokeStyle = theme.raised;
  pen.lineWidth = width + 2;
  if (width > 1.5) pen.stroke(); // so that it is seen on any colour
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
};
/** `x`: its tip; `ux`: where it points. */
const arrow = (x: number, y: number, ux: number, uy: number, colour: string) => {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x - ux * 9 - uy * 4, y - uy * 9 + ux * 4);
  pen.lineTo(x - ux * 9 + uy * 4, y - uy * 9 - ux * 4);
  pen.fillStyle = colour;
  pen.fill();
};

const drawEnds = () => {
  const { x, y, runs, step, group } = app.data,
    { shown, upTo } = state,
    r = view.radius;
  for (const rows of runs) {
    let last = rows.length - 1;
    while (last > 0 && step[rows[last]] > upTo) last--;
    const first = rows[0],
      end = rows[last],
      px = screenX(x[end]),
      py = screenY(y[end]);
    if (shown[first]) ring(screenX(x[first]), screenY(y[first]), r + 3, theme.ink, 1.2);
    let dx = 0,
      dy = 0,
      d = 0;
    for (let k = last - 1; k >= 0 && d < 1; k--) {
      dx = px - screenX(x[rows[k]]);
      dy = py - screenY(y[rows[k]]);
      d = Math.hypot(dx, dy);
    }
    if (shown[end] && d > r + 4)
      arrow(
        px - (dx / d) * (r + 1),
        py - (dy / d) * (r + 1),
        dx / d,
        dy / d,
        state.colour === "group" ? groupColour(group[end]) : theme.ink,
      );
  }
};

const drawChosen = (i: number, letter: string) => {
  const px = screenX(app.data.x[i]),
    py = screenY(app.data.y[i]),
    r = view.radius + 4,
    x = px - 0.7 * r - 7,
    y = py - 0.7 * r - 7,
    colour = letter === "A" ? theme.accent : theme.second;
  ring(px, py, r, colour, 2.5);
  pen.beginPath();
  pen.arc(x, y, 9, 0, 7);
  pen.fillStyle = colour;
  pen.fill();
  Object.assign(pen, {
    fillStyle: theme.raised,
    font: "bold 12px system-ui, sans-serif",
    textAlign: "center",
    textBaseline: "middle",
  });
  pen.fillText(letter, x, y + 0.5);
};

/** `px`: the policy pointed at; `py`: where it is off screen, an arrow at the border points to it. */
const drawHovered = (px: number, py: number) => {
  const x = Math.min(view.width - 3, Math.max(3, px)),
    y = Math.min(view.height - 3, Math.max(3, py)),
    d = Math.hypot(px - x, py - y);
  if (d > 3) arrow(x, y, (px - x) / d, (py - y) / d, theme.ink);
  else ring(px, py, view.radius + 4, theme.ink, 2);
};

const showTip = (i: number, px: number, py: number) => {
  const tip = byId("map-tip"),
    { label } = app.data;
  tip.hidden = i < 0 || !onScreen(px, py);
  if (tip.hidden) return;
  const { n, nearest } = crowdAt(i),
    sign = [i, n, ...nearest].join();
  if (sign !== tipped) {
    tipped = sign;
    const list = make("dl"),
      names = make("ul");
    for (const [name, value] of factsOf(i)) list.append(make("dt", name), make("dd", value));
    tip.replaceChildren(make("strong", label[i]), list);
    names.append(...nearest.map((k) => make("li", label[k])), n > nearest.length ? "…" : "");
    if (n) tip.append(make("p", `and ${whole(n)} more here`), names);
  }
  // Beside the policy; above or below it where there is no room.
  const { offsetWidth: wide, offsetHeight: tall } = tip,
    side = px + 18 + wide > view.width ? px - 18 - wide : px + 18,
    narrow = side < 4;
  const left = narrow ? Math.max(4, Math.min(view.width - wide - 4, px - wide / 2)) : side,
    top = narrow ? (py > view.height / 2 ? py - tall - 18 : py + 18) : py - tall / 2;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(4, Math.min(view.height - tall - 4, top)))}px)`;
};

/** Returns what is known of a policy, beside its name. */
export const factsOf = (i: number): [string, string][] => {
  const { data } = app,
    known = Number.isFinite,
    spread = known(data.deviation[i]) ? " ± " + number(data.deviation[i]) : "";
  const facts = [
    ["run", data.groups[data.group[i]]],
    ["step", known(data.step[i]) && whole(data.step[i])],
    ["return", known(data.returns[i]) ? number(data.returns[i]) + spread : "not known"],
    ["behaviour", data.behaviour[i] && String(data.behaviour[i])],
    ["shown as", data.reference[i] && "reference"],
  ];
  return facts.filter(([, value]) => value) as [string, string][];
};

/** Draw all of it; points are not painted anew. */
export const drawOverlay = () => {
  const { ratio } = view,
    { a, b, hovered } = state,
    { x, y } = app.data,
    width = Math.round(view.width * ratio),
    height = Math.round(view.height * ratio);
  if (pen.canvas.width !== width || pen.canvas.height !== height)
    Object.assign(pen.canvas, { width, height });
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  if (fewRuns() && state.lines && !state.density) drawEnds();
  pen.beginPath();
  if (a >= 0 && b >= 0) {
    pen.moveTo(screenX(x[a]), screenY(y[a]));
    pen.lineTo(screenX(x[b]), screenY(y[b]));
  }
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 1.2;
  pen.stroke();
  if (a >= 0) drawChosen(a, "A");
  if (b >= 0) drawChosen(b, "B");
  pen.beginPath();
  for (let k = 0; k < outline.length; k += 2)
    pen.lineTo(screenX(outline[k]), screenY(outline[k + 1]));
  pen.closePath();
  pen.globalAlpha = 0.12;
  pen.fillStyle = theme.accent;
  pen.fill("evenodd");
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 1.5;
  pen.stroke();
  const px = screenX(x[hovered]),
    py = screenY(y[hovered]);
  if (hovered >= 0) drawHovered(px, py);
  showTip(hovered, px, py);
};
/** Draw it in the next frame. */
export const redraw = framed(drawOverlay);

export const startOverlay = () => {
  pen = byId("map-overlay").getContext("2d");
  on("data", () => {
    tipped = "";
  });
  on("a b hovered", redraw);
};
