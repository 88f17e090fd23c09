// Draws a heatmap: cells, strips of runs, lines of A and B, the cell pointed at.

import { groupColour } from "../colours";
import { number } from "../format";
import { pageColour, sharpPen, strokeTwice } from "../pen";
import { app, state } from "../state";
import { distanceScale, type Sight, type Tile } from "./tile";

/** of a cell: its column and line among the rows */
export type Place = { x: number; y: number };
/** a stretch of rows of one run on the canvas; `g`: its number */
export type Stretch = { g: number; at: number; long: number };
/** where the square lies; `names`: room for names at its left */
export type Square = { left: number; top: number; side: number; names: number };

const STRIP = 8,
  MARGIN = 27, // room for a letter, the strip and a gap
  NAMES = 124,
  WRITTEN = 19; // pixels of a cell with room for its distance

/** The square is as large as there is room for. */
export const squareOf = (width: number, height: number): Square => {
  const names = Math.min(NAMES, 0.3 * width),
    left = names + MARGIN;
  const side = Math.max(1, Math.floor(Math.min(width - left, height - MARGIN) - 1));
  return { left, top: MARGIN, side, names };
};

/** Rows in sight, run by run. */
export const stretchesOf = (
  rows: Int32Array,
  from: number,
  { size }: Sight,
  every: number,
  start: number,
  side: number,
): Stretch[] => {
  const { group } = app.data,
    scale = side / size,
    end = Math.min(rows.length, from + size),
    found: Stretch[] = [];
  for (let k = Math.floor(from / every) * every; k < end; k += every) {
    const g = group[rows[k]],
      first = Math.max(from, k),
      last = Math.min(end, k + every),
      before = found[found.length - 1];
    if (before && before.g === g) before.long = (last - from) * scale + start - before.at;
    else found.push({ g, at: start + (first - from) * scale, long: (last - first) * scale });
  }
  return found;
};

/** A distance in few letters. */
const short = (value: number): string => {
  const text = value < 10 ? value.toFixed(2) : number(value, 2);
  return text.replace(/^0\./, ".");
};

/** `rows`: in their order; `every`: one in so many rows is shown. */
export const paintHeatmap = (
  canvas: HTMLCanvasElement,
  rows: Int32Array,
  sight: Sight,
  tile: Tile,
  every: number,
  limit: number,
  dark: boolean,
  at: Place | null,
) => {
  const { clientWidth: width, clientHeight: height } = canvas,
    { left, top, side } = squareOf(width, height),
    pen = sharpPen(canvas, width, height);
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
    if (tile.alike.length) {
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
    if (every === 1 && scale >= WRITTEN) writeDistances();
  });
  function writeDistances() {
    const wide = tile.columns.length,
      near = distanceScale(dark)[0],
      far = distanceScale(!dark)[0],
      ink = pageColour("ink");
    pen.font = pen.font.replace(/\d+px/, `${Math.min(12, Math.floor(scale * 0.45))}px`);
    pen.textAlign = "center";
    tile.values.forEach((value, k) => {
      const x = xOf(tile.x + (k % wide) + 0.5),
        y = yOf(tile.y + Math.floor(k / wide) + 0.5);
      if (!(value >= 0) || tile.lines[Math.floor(k / wide)] === tile.columns[k % wide]) return;
      pen.fillStyle = tile.alike[k] ? ink : value > 0.45 * limit ? near : far;
      if (tile.alike[k]) {
        pen.lineWidth = 4;
        pen.strokeStyle = pageColour("raised");
        pen.strokeText(short(value), x, y);
      }
      pen.fillText(short(value), x, y);
    });
  }

  // Runs along both sides: colours, and lines between few.
  const paper = pageColour("paper"),
    lit = state.lit?.of === "run" ? state.lit.number : -2;
  const strip = (upright: boolean) => {
    const start = upright ? top : left,
      from = upright ? sight.y : sight.x,
      runs = stretchesOf(rows, from, sight, every, start, side);
    const bar = (along: number, long: number, away: number, wide: number) =>
      upright ? pen.fillRect(away, along, wide, long) : pen.fillRect(along, away, long, wide);
    for (const { g, at: along, long } of runs) {
      const more = g === lit || (g >= 0 && g === state.run) ? 5 : 0;
      pen.fillStyle = groupColour(g);
      bar(along, long, (upright ? left : top) - STRIP - 4 - more, STRIP + more);
      pen.fillStyle = paper;
      if (runs.length <= 30 && rows.length > 2 * runs.length && along > start)
        bar(along - 0.5, 1, upright ? left : top, side);
    }
  };
  strip(false);
  strip(true);

  pen.textAlign = "center";
  pen.font = "bold " + pen.font.replace(/\d+px/, "12px");
  const mark = (row: number, colour: string, letter: string) => {
    const k = row < 0 ? -1 : rows.indexOf(row),
      x = xOf(k + 0.5),
      y = yOf(k + 0.5);
    if (k < 0) return;
    const inside = (place: number, start: number) => place >= start && place <= start + side;
    pen.fillStyle = colour;
    if (letter) {
      within(() => {
        pen.moveTo(left, y);
        pen.lineTo(left + side, y);
        pen.moveTo(x, top);
        pen.lineTo(x, top + side);
        strokeTwice(pen, colour, 1.5);
      });
      pen.fillStyle = colour;
      if (inside(y, top)) pen.fillText(letter, left - 20, y);
      if (inside(x, left)) pen.fillText(letter, x, top - 19);
      return;
    }
    if (inside(y, top)) pen.fillRect(left - STRIP - 4, y - 1.5, STRIP + 3, 3);
    if (inside(x, left)) pen.fillRect(x - 1.5, top - STRIP - 4, 3, STRIP + 3);
  };
  mark(state.hovered, pageColour("ink"), "");
  mark(state.a, pageColour("a"), "A");
  mark(state.b, pageColour("b"), "B");
  const cell = Math.max(5, every * scale);
  if (at)
    within(() => {
      pen.rect(xOf(at.x), yOf(at.y), cell, cell);
      strokeTwice(pen, pageColour("ink"), 2);
    });
};
