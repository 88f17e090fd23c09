// Draws the heatmap: cells, strips and names of runs, lines of A and B, the cell pointed at.

import { groupColour } from "../colours";
import { squeezed } from "../names";
import { pageColour, sharpPen, strokeTwice } from "../pen";
import { app, state } from "../state";
import type { Sight, Tile } from "./tile";

/** of a cell: its column and line among the rows */
export type Place = { x: number; y: number };

const STRIP = 8,
  MARGIN = 27; // room for a letter, the strip and a gap

/** `width`: of the canvas; returns where the square lies; names are to its left. */
export const squareOf = (width: number): { left: number; side: number } => {
  const left = MARGIN + (width > 480 ? 120 : 0);
  return { left, side: Math.max(1, width - left - 1) };
};

/** `rows`: in their order; `every`: one in so many rows is shown. */
export const paintHeatmap = (
  canvas: HTMLCanvasElement,
  rows: Int32Array,
  sight: Sight,
  tile: Tile,
  every: number,
  at: Place | null,
) => {
  const width = canvas.clientWidth,
    { left, side } = squareOf(width),
    top = MARGIN,
    pen = sharpPen(canvas, width, top + side + 1),
    { data } = app;
  const scale = side / sight.size,
    xOf = (k: number) => left + (k - sight.x) * scale,
    yOf = (k: number) => top + (k - sight.y) * scale;
  const within = (draw: () => void) => {
    pen.save();
    pen.beginPath();
    pen.rect(left, top, side, side);
    pen.clip();
    pen.beginPath();
    draw();
    pen.restore();
  };
  within(() => {
    pen.fillStyle = pageColour("raised");
    pen.fillRect(left, top, side, side);
    if (state.certain) {
      for (let k = -side; k < side; k += 7) {
        pen.moveTo(left + k, top + side);
        pen.lineTo(left + k + side, top);
      }
      pen.strokeStyle = pageColour("lone");
      pen.globalAlpha = 0.6;
      pen.stroke();
      pen.globalAlpha = 1;
    }
    pen.imageSmoothingEnabled = false;
    pen.drawImage(
      tile.image,
      xOf(tile.x),
      yOf(tile.y),
      tile.columns.length * tile.every * scale,
      tile.lines.length * tile.every * scale,
    );
  });

  // Runs along both sides: colours, names as far as there is room, lines between few.
  pen.textAlign = "right";
  const mark = (
    from: number,
    start: number,
    draw: (at: number, long: number, g: number, line: boolean) => void,
  ) => {
    const runs: { g: number; first: number; last: number }[] = [],
      end = Math.min(rows.length, from + sight.size);
    for (let k = Math.floor(from / every) * every; k < end; k += every) {
      const g = data.group[rows[k]],
        last = Math.min(end, k + every),
        before = runs[runs.length - 1];
      if (before && before.g === g) before.last = last;
      else runs.push({ g, first: Math.max(from, k), last });
    }
    for (const { g, first, last } of runs)
      draw(
        start + (first - from) * scale,
        (last - first) * scale,
        g,
        runs.length <= 30 && first > from,
      );
  };
  const paper = pageColour("paper"),
    soft = pageColour("soft"),
    letters = scale >= 14 ? data.label : data.groups;
  let named = 0;
  const say = (words: string, y: number) => {
    if (y - named < 15 || left < 60) return;
    pen.fillStyle = soft;
    pen.fillText(squeezed(words, 18, letters), left - MARGIN - 4, y);
    named = y;
  };
  mark(sight.x, left, (x, long, g, line) => {
    pen.fillStyle = groupColour(g);
    pen.fillRect(x, top - STRIP - 4, long, STRIP);
    if (line) {
      pen.fillStyle = paper;
      pen.fillRect(x - 0.5, top, 1, side);
    }
  });
  mark(sight.y, top, (y, long, g, line) => {
    pen.fillStyle = groupColour(g);
    pen.fillRect(left - STRIP - 4, y, STRIP, long);
    if (line) {
      pen.fillStyle = paper;
      pen.fillRect(left, y - 0.5, side, 1);
    }
    if (letters === data.groups) say(data.groups[g] || "no run", y + long / 2);
  });
  if (letters === data.label)
    for (
      let k = Math.ceil(sight.y - 0.4);
      k < Math.min(rows.length, sight.y + sight.size - 0.4);
      k++
    )
      say(data.label[rows[k]], yOf(k + 0.5));

  pen.textAlign = "center";
  pen.font = "bold " + pen.font;
  for (const [row, letter] of [
    [state.a, "A"],
    [state.b, "B"],
  ] as [number, string][]) {
    const k = rows.indexOf(row),
      colour = pageColour(letter.toLowerCase()),
      x = xOf(k + 0.5),
      y = yOf(k + 0.5);
    if (k < 0) continue;
    within(() => {
      pen.moveTo(left, y);
      pen.lineTo(left + side, y);
      pen.moveTo(x, top);
      pen.lineTo(x, top + side);
      strokeTwice(pen, colour, 1.5);
    });
    pen.fillStyle = colour;
    if (y >= top && y <= top + side) pen.fillText(letter, left - 20, y);
    if (x >= left && x <= left + side) pen.fillText(letter, x, top - 19);
  }
  const cell = Math.max(5, every * scale);
  if (at)
    within(() => {
      pen.rect(xOf(at.x), yOf(at.y), cell, cell);
      strokeTwice(pen, pageColour("ink"), 2);
    });
};
