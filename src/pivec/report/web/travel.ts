// The distance travelled along each run: a line a run, those of A and B in front.

import { groupColour } from "./colours";
import { byId, framed, make, number, whole } from "./format";
import { squeezed } from "./names";
import { pageColour, placeTip, sharpPen, strokeTwice, whenInSight } from "./pen";
import { app, choose, on, set, state } from "./state";

/** a run, where its checkpoints are drawn, and how many are */
export type Line = import("./data").Travel & { x: Float32Array; y: Float32Array; n: number };
export type Pen = CanvasRenderingContext2D;

const NAMED = 24,
  MOST_LINES = 2000,
  TALL = 380,
  FLOOR = TALL - 44,
  CEILING = 14,
  LEFT = 62;

/** Returns round numbers from at or below low to at or above high. */
const roundTicks = (low: number, high: number): number[] => {
  const span = high - low || 1,
    power = 10 ** Math.floor(Math.log10(span / 5));
  const size = ([1, 2, 2.5, 5].find((m) => m * power * 5 >= span * 0.999) || 10) * power,
    first = Math.floor(low / size + 1e-9);
  return Array.from({ length: Math.max(2, Math.ceil(high / size - 1e-9) - first + 1) }, (_, k) =>
    Number(((first + k) * size).toPrecision(12)),
  );
};

export const travelPart = () => {
  const box = byId("travel-live");
  if (!box) return; // no runs
  const canvas: HTMLCanvasElement = byId("travel-lines");
  const tip = byId("travel-tip"),
    back = document.createElement("canvas");
  let lines: Line[] = [];
  let near: { line: Line; k: number } | null = null;
  let drawAxes: (pen: Pen) => void;
  let width = 0,
    right = 0,
    top = 1;

  const yOf = (far: number) => FLOOR - (far / top) * (FLOOR - CEILING);
  const nameOf = ({ group }: Line) => app.data.groups[group] || "no run";
  const sidesOf = ({ group }: Line) =>
    [state.a, state.b].map((i) => i >= 0 && group >= 0 && app.data.group[i] === group);
  const trace = (pen: Pen, { x, y, n }: Line) => {
    pen.beginPath();
    for (let k = 0; k < n; k++) pen.lineTo(x[k], y[k]);
  };
  const dot = (pen: Pen, x: number, y: number, r: number) => {
    pen.beginPath();
    pen.arc(x, y, r, 0, 7);
  };
  const drawLine = (pen: Pen, line: Line, wide: number) => {
    const { x, y, n, half, cumulative } = line;
    pen.strokeStyle = pen.fillStyle = groupColour(line.group);
    pen.lineWidth = wide;
    trace(pen, line);
    pen.stroke();
    if (wide < 2) return;
    for (let k = 0; k < n && n <= 60; k++) {
      dot(pen, x[k], y[k], wide + 0.5);
      pen.fill();
    }
    if (!half) return;
    pen.beginPath();
    for (let k = 0; k < n; k++) pen.lineTo(x[k], yOf(cumulative[k] + half[k]));
    for (let k = n - 1; k >= 0; k--) pen.lineTo(x[k], yOf(Math.max(0, cumulative[k] - half[k])));
    pen.globalAlpha = 0.16;
    pen.fill();
    pen.globalAlpha = 1;
  };

  /** Places of everything, and all lines behind those in front. */
  const layOut = () => {
    const { travels, step, groups } = app.data,
      few = (all: any[]) => all.length <= NAMED;
    const shown = travels.filter(
      ({ rows, group }) => !state.hidden.has(group) && rows.some((i) => state.shown[i]),
    );
    let first = Infinity,
      last = -Infinity,
      most = 0;
    for (const { rows, cumulative, half } of travels)
      rows.forEach((i, k) => {
        first = Math.min(first, step[i]);
        last = Math.max(last, step[i]);
        most = Math.max(most, cumulative[k] + (half ? half[k] : 0));
      });
    width = canvas.clientWidth;
    right =
      width < 600
        ? 16
        : 40 +
          Math.min(160, 7 * Math.max(6, ...shown.map(({ group }) => (groups[group] || "").length)));
    const ticks = roundTicks(0, most || 1),
      pen = sharpPen(back, width, TALL),
      xOf = (at: number) => LEFT + ((at - first) / (last - first || 1)) * (width - LEFT - right);
    top = ticks[ticks.length - 1];
    lines = shown.map((run) => ({
      ...run,
      x: Float32Array.from(run.rows, (i) => xOf(step[i])),
      y: Float32Array.from(run.cumulative, yOf),
      n: run.rows.filter((i) => step[i] <= state.upTo).length,
    }));
    drawAxes = (pen) => {
      pen.fillStyle = pageColour("soft");
      pen.strokeStyle = pageColour("line");
      pen.textAlign = "right";
      for (const tick of ticks) {
        pen.fillText(number(tick), LEFT - 8, yOf(tick));
        pen.moveTo(LEFT, yOf(tick));
        pen.lineTo(width - right, yOf(tick));
      }
      pen.stroke();
      pen.textAlign = "center";
      for (const tick of roundTicks(first, last))
        if (tick >= first && tick <= last)
          pen.fillText(
            tick >= 1e6 ? tick / 1e6 + " M" : tick >= 1e3 ? tick / 1e3 + " k" : String(tick),
            xOf(tick),
            FLOOR + 16,
          );
      pen.fillText("training step", (LEFT + width - right) / 2, TALL - 10);
    };
    const every = Math.ceil(lines.length / MOST_LINES);
    pen.lineJoin = "round";
    pen.globalAlpha = few(lines) ? 1 : Math.max(0.15, 20 / lines.length);
    lines.forEach((line, k) => {
      if (k % every === 0) drawLine(pen, line, few(lines) ? 2 : 1);
    });
    byId("travel-note").textContent =
      (shown.length < travels.length ? whole(shown.length) + " of " : "") +
      whole(travels.length) +
      (travels.length === 1 ? " run." : " runs.") +
      (every > 1 ? ` One line in ${every} is drawn, those of A and B always.` : "");
    near = null;
    tip.hidden = true;
    draw();
  };
  const draw = framed(() => {
    if (!width) return;
    const pen = sharpPen(canvas, width, TALL),
      front = lines.filter((line) => near?.line === line || sidesOf(line).includes(true));
    drawAxes(pen);
    pen.globalAlpha = front.length ? 0.4 : 1;
    pen.drawImage(back, 0, 0, width, TALL);
    pen.globalAlpha = 1;
    const named = (front.length || lines.length > NAMED ? front : lines)
      .filter(({ n }) => n)
      .map((line) => ({ line, y: line.y[line.n - 1] }))
      .sort((p, q) => p.y - q.y);
    named.forEach((name, k) => {
      name.y = Math.max(name.y, k ? named[k - 1].y + 16 : CEILING);
    });
    for (let k = named.length - 1, low = FLOOR; k >= 0; k--, low -= 16)
      named[k].y = Math.min(named[k].y, low); // names keep apart
    pen.textAlign = "left";
    for (const line of front) drawLine(pen, line, 3);
    if (right > 16)
      for (const { line, y } of named) {
        pen.fillStyle = groupColour(line.group);
        dot(pen, width - right + 12, y, 4);
        pen.fill();
        pen.fillStyle = pageColour("ink");
        pen.fillText(
          squeezed(nameOf(line), 20, app.data.groups) +
            sidesOf(line)
              .map((is, k) => (is ? " · " + "AB"[k] : ""))
              .join(""),
          width - right + 21,
          y,
        );
      }
    for (const line of front)
      for (const [i, id] of [
        [state.a, "a"],
        [state.b, "b"],
        [near && near.line === line ? line.rows[near.k] : -1, "ink"],
      ] as [number, string][]) {
        const k = i < 0 ? -1 : line.rows.indexOf(i);
        if (k >= 0 && k < line.n) {
          dot(pen, line.x[k], line.y[k], 7);
          strokeTwice(pen, pageColour(id), 2);
        }
      }
  });

  const find = (event: MouseEvent) => {
    const { left, top: above } = canvas.getBoundingClientRect(),
      px = event.clientX - left,
      py = event.clientY - above;
    let best = null,
      least = 40 ** 2;
    for (const line of lines)
      for (let k = 0; k < line.n; k++) {
        const far = (line.x[k] - px) ** 2 + (line.y[k] - py) ** 2;
        if (far < least) {
          least = far;
          best = { line, k };
        }
      }
    return best;
  };
  const point = (place: { line: Line; k: number } | null) => {
    if (place?.line === near?.line && place?.k === near?.k) return;
    near = place;
    tip.hidden = !place;
    draw();
    set({ hovered: place ? place.line.rows[place.k] : -1 });
    if (!place) return;
    const { line, k } = place,
      half = line.half ? " ± " + number(line.half[k], 2) : "";
    tip.replaceChildren(
      make("strong", nameOf(line)),
      make("div", "step " + whole(app.data.step[line.rows[k]])),
      make("div", "travelled " + number(line.cumulative[k]) + half),
    );
    placeTip(tip, line.x[k], line.y[k], canvas);
  };
  canvas.addEventListener("pointermove", (event) => point(find(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    const place = find(event);
    if (place) choose(place.line.rows[place.k]);
  });

  const renew = whenInSight(box, layOut);
  on("shown data colour", renew);
  on("a b", draw);
  new ResizeObserver(renew).observe(canvas);
  box.hidden = false;
  byId("travel-static").classList.add("print-only");
};
