// What lies over the points: ends of runs, the policies chosen and pointed at, the lasso, and the tip with names.

import { groupColour, theme } from "../colours";
import { byId, estimate, framed, make, number, shortStep, whole } from "../format";
import { squeezed } from "../names";
import { app, isFaded, on, state } from "../state";
import { placeLabels, type Wanted } from "./labels";
import { outline } from "./lasso";
import { fewRuns, onScreen, rowsInView, screenX, screenY, view } from "./map";
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

/** Draw a way along policies, with an arrow before the last of them. */
const drawWay = (rows: ArrayLike<number>, colour: string, width: number) => {
  const { x, y } = app.data;
  pen.beginPath();
  for (let k = 0; k < rows.length; k++) pen.lineTo(screenX(x[rows[k]]), screenY(y[rows[k]]));
  pen.lineJoin = "round";
  pen.strokeStyle = theme.raised;
  pen.lineWidth = width + 2;
  pen.stroke();
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
};

/** Mark the ends of a run: a ring around the first checkpoint, an arrow outside the last. */
const drawEnds = (rows: number[], width: number) => {
  const { x, y, group } = app.data,
    r = view.radius,
    first = rows[0],
    end = rows[rows.length - 1],
    px = screenX(x[end]),
    py = screenY(y[end]);
  ring(screenX(x[first]), screenY(y[first]), r + 3, theme.ink, 1.2);
  let dx = 0,
    dy = 0,
    d = 0;
  for (let k = rows.length - 2; k >= 0 && d < 1; k--) {
    dx = px - screenX(x[rows[k]]);
    dy = py - screenY(y[rows[k]]);
    d = Math.hypot(dx, dy);
  }
  const tip = r + 2 + width;
  if (d > tip + 9)
    arrow(px - (dx / d) * tip, py - (dy / d) * tip, dx / d, dy / d, groupColour(group[end]));
};

/** The checkpoints of a run that are shown, in order of training. */
const shownOf = (rows: Int32Array): number[] => [...rows].filter((i) => state.shown[i] === 1);

const runRows = (g: number): number[] => {
  const rows = app.data.runs.find((own) => app.data.group[own[0]] === g);
  return rows ? shownOf(rows) : [];
};

const drawRuns = () => {
  const { lit, run } = state,
    few = fewRuns() && state.lines && !state.density;
  if (few)
    for (const rows of app.data.runs) {
      const own = shownOf(rows);
      pen.globalAlpha = own.every(isFaded) ? 0.3 : 1;
      if (own.length) drawEnds(own, 0.8);
    }
  pen.globalAlpha = 1;
  for (const g of new Set([run, lit?.of === "run" ? lit.number : -1])) {
    const own = g < 0 ? [] : runRows(g);
    if (!own.length) continue;
    drawWay(own, groupColour(g), 2.5);
    for (const i of own) dot(i, groupColour(g));
    drawEnds(own, 2.5);
  }
};

/** Where the arrow of the last checkpoint is: names stay away. */
const arrowAt = (rows: number[]): [number, number] => {
  const [before, end] = rows.slice(-2).map((i) => [screenX(app.data.x[i]), screenY(app.data.y[i])]),
    d = Math.hypot(end[0] - before[0], end[1] - before[1]) || 1,
    far = (view.radius + 6) / d;
  return [end[0] + (before[0] - end[0]) * far, end[1] + (before[1] - end[1]) * far];
};

const dot = (i: number, colour: string) => {
  pen.beginPath();
  pen.arc(screenX(app.data.x[i]), screenY(app.data.y[i]), view.radius, 0, 7);
  pen.fillStyle = colour;
  pen.fill();
  pen.strokeStyle = theme.raised;
  pen.lineWidth = 1;
  pen.stroke();
};

const MOST_RINGS = 2000;

/** Ring the members of the class under the pointer, and policies that are new. */
const drawMembers = () => {
  const { behaviour, x, y, n } = app.data,
    { lit, fresh, shown } = state;
  const wanted = (i: number) =>
    (lit?.of === "class" && behaviour[i] === lit.number ? 1 : 0) + (fresh?.[i] ? 2 : 0);
  if (lit?.of !== "class" && !fresh) return;
  let left = MOST_RINGS;
  for (let i = 0; i < n && left; i++) {
    const what = shown[i] ? wanted(i) : 0;
    if (!what || !onScreen(screenX(x[i]), screenY(y[i]))) continue;
    left--;
    ring(screenX(x[i]), screenY(y[i]), view.radius + 3, what & 1 ? theme.ink : theme.accent, 1.6);
  }
};

const MOST_LABELS = 60,
  MOST_NAMED = 250, // policies in view, for names of single policies
  LONGEST = 28; // letters

/** Names in the order of their importance: selected policies, ends of runs, then the others. */
const drawLabels = () => {
  const { a, b, hovered, run, shown, lit } = state,
    { x, y, label, groups, group, step } = app.data;
  const wanted: (Wanted & { colour: string })[] = [],
    named = new Set<number>();
  pen.font = "11px system-ui, sans-serif";
  const want = (i: number, text: string, colour: string, must = false) => {
    const px = screenX(x[i]),
      py = screenY(y[i]);
    if (named.has(i) || !onScreen(px, py)) return;
    named.add(i);
    const width = pen.measureText(text).width + 2,
      gap = view.radius + (i === a || i === b ? 14 : 7);
    wanted.push({ text, x: px, y: py, gap, width, colour, must });
  };
  const short = (i: number) => squeezed(label[i], LONGEST, label);
  for (const i of [a, b]) if (i >= 0) want(i, short(i), theme.ink, true);
  if (hovered >= 0) want(hovered, short(hovered), theme.ink, true);
  if (state.labels) {
    const along = run >= 0 ? run : lit?.of === "run" ? lit.number : -1;
    for (const i of along >= 0 ? runRows(along) : [])
      want(i, shortStep(step[i]), groupColour(along));
    if (fewRuns() && !state.density)
      for (const rows of app.data.runs) {
        const own = shownOf(rows),
          g = group[rows[0]];
        if (own.length && g !== along && !own.every(isFaded))
          want(own[own.length - 1], squeezed(groups[g], LONGEST, groups), groupColour(g), true);
      }
  }
  const rows = rowsInView();
  const few = rows.length <= MOST_NAMED;
  if (state.labels && few && !state.density)
    for (const i of rows) {
      if (wanted.length > 4 * MOST_LABELS) break;
      if (shown[i] && !isFaded(i))
        want(
          i,
          Number.isFinite(step[i]) && app.data.runs.length && fewRuns()
            ? shortStep(step[i])
            : short(i),
          theme.dim,
        );
    }
  const points: number[] = [];
  if (few) for (const i of rows) points.push(screenX(x[i]), screenY(y[i]));
  if (fewRuns() && state.lines)
    for (const rows of app.data.runs) {
      const own = shownOf(rows);
      if (own.length > 1) points.push(...arrowAt(own));
    }
  if (a >= 0) points.push(...badgeAt(a, b));
  if (b >= 0) points.push(...badgeAt(b, a));
  const placed = placeLabels(wanted, points, view.radius + 1, view.width, view.height);
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.lineJoin = "round";
  for (const { of, x: left, y: middle } of placed.slice(0, MOST_LABELS)) {
    pen.strokeStyle = theme.raised;
    pen.lineWidth = 3;
    pen.strokeText(wanted[of].text, left, middle);
    pen.fillStyle = wanted[of].colour;
    pen.fillText(wanted[of].text, left, middle);
  }
};

const BADGE = 9; // radius

/** The middle of the badge of A or B: away from the other one, and inside of the map. */
const badgeAt = (i: number, other: number): [number, number] => {
  const px = screenX(app.data.x[i]),
    py = screenY(app.data.y[i]),
    far = view.radius + 4 + BADGE;
  let dx = other < 0 ? -1 : px - screenX(app.data.x[other]),
    dy = other < 0 ? -1 : py - screenY(app.data.y[other]);
  if (!dx && !dy) dx = i === state.a ? -1 : 1;
  const d = Math.hypot(dx, dy),
    inside = (at: number, end: number) => Math.min(end - BADGE - 1, Math.max(BADGE + 1, at));
  return [inside(px + (dx / d) * far, view.width), inside(py + (dy / d) * far, view.height)];
};

const drawChosen = (i: number, other: number, letter: string) => {
  const px = screenX(app.data.x[i]),
    py = screenY(app.data.y[i]),
    r = view.radius + 4,
    [x, y] = badgeAt(i, other),
    colour = letter === "A" ? theme.accent : theme.second;
  ring(px, py, r, colour, 2.5);
  pen.beginPath();
  pen.arc(x, y, BADGE, 0, 7);
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
    ...data.outcomes.map((o) => [o.name, known(o.values[i]) && estimate(o, i)]),
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
  drawRuns();
  drawMembers();
  pen.beginPath();
  if (a >= 0 && b >= 0) {
    pen.moveTo(screenX(x[a]), screenY(y[a]));
    pen.lineTo(screenX(x[b]), screenY(y[b]));
  }
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 1.2;
  pen.stroke();
  if (a >= 0) drawChosen(a, b, "A");
  if (b >= 0) drawChosen(b, a, "B");
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
  drawLabels();
  showTip(hovered, px, py);
};
/** Draw it in the next frame. */
export const redraw = framed(drawOverlay);

export const startOverlay = () => {
  pen = byId("map-overlay").getContext("2d");
  on("data", () => {
    tipped = "";
  });
  on("a b hovered lit run fresh", redraw);
};
