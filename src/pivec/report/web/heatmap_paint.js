// Draws the heatmap: cells, strips and names of runs, lines of A and B, the cell pointed at.
import { app, state } from "./state.js";
import { groupColour } from "./colours.js";
import { fittingText, pageColour, sharpPen } from "./pen.js";

/** @typedef {import("./heatmap_tile.js").Tile} Tile */

/**
 * @typedef {object} Scene
 * @property {Int32Array} rows in their order
 * @property {{x: number, y: number, size: number}} sight what of them is seen
 * @property {Tile[]} tiles coarse ones first
 * @property {{line: number, column: number} | null} at places among the rows of the cell pointed at
 * @property {number} every one in so many rows is shown
 * @property {number} letters of the longest name
 */

const STRIP = 8, GAP = 4, LETTER = 15;

/** @param {number} width of the canvas @param {number} letters of the longest name @returns {{left: number, top: number, side: number}} where the square lies */
export const squareOf = (width, letters) => {
  const names = width > 480 ? Math.min(150, width * 0.22, 7 * letters + 10) : 0, left = names + LETTER + STRIP + GAP;
  return { left, top: LETTER + STRIP + GAP, side: Math.max(1, width - left - 1) };
};

/** @param {HTMLCanvasElement} canvas @param {Scene} scene */
export const paintHeatmap = (canvas, { rows, sight, tiles, at, every, letters }) => {
  const width = canvas.clientWidth, { left, top, side } = squareOf(width, letters), pen = sharpPen(canvas, width, top + side + 1), { data } = app;
  const scale = side / sight.size, xOf = (/** @type {number} */ k) => left + (k - sight.x) * scale, yOf = (/** @type {number} */ k) => top + (k - sight.y) * scale;
  const within = (/** @type {() => void} */ draw) => { pen.save(); pen.beginPath(); pen.rect(left, top, side, side); pen.clip(); draw(); pen.restore(); };
  within(() => {
    pen.fillStyle = pageColour("raised"); pen.fillRect(left, top, side, side);
    if (state.certain) hatch(pen, left, top, side);
    pen.imageSmoothingEnabled = false;
    for (const tile of tiles) if (tile.columns.length && tile.lines.length) {
      pen.drawImage(tile.image, xOf(tile.x), yOf(tile.y), tile.columns.length * tile.every * scale, tile.lines.length * tile.every * scale);
    }
  });

  // Stretches of one run along both sides, in steps that can be seen.
  const stretches = (/** @type {number} */ from) => {
    /** @type {{g: number, first: number, last: number}[]} */
    const parts = [], end = Math.min(rows.length, Math.ceil(from + sight.size));
    for (let k = Math.floor(from / every) * every; k < end; k += every) {
      const g = data.group[rows[k]], before = parts[parts.length - 1];
      if (before && before.g === g) before.last = k + every; else parts.push({ g, first: k, last: k + every });
    }
    return parts;
  };
  const cut = (/** @type {number} */ at, /** @type {number} */ low) => Math.min(low + side, Math.max(low, at));
  const down = stretches(sight.y), few = down.length <= 30;
  for (const { g, first, last } of stretches(sight.x)) {
    const x = cut(xOf(first), left);
    pen.fillStyle = groupColour(g); pen.fillRect(x, top - GAP - STRIP, cut(xOf(last), left) - x, STRIP);
    if (few && first > sight.x) { pen.fillStyle = pageColour("paper"); pen.fillRect(x - 0.5, top, 1, side); }
  }
  const labels = scale >= 14, room = left - LETTER - STRIP - GAP - 10;
  pen.textAlign = "right";
  for (const { g, first, last } of down) {
    const y = cut(yOf(first), top), high = cut(yOf(last), top) - y;
    pen.fillStyle = groupColour(g); pen.fillRect(left - GAP - STRIP, y, STRIP, high);
    if (few && first > sight.y) { pen.fillStyle = pageColour("paper"); pen.fillRect(left, y - 0.5, side, 1); }
    if (labels || high < 12 || room < 30) continue;
    pen.fillStyle = pageColour("soft"); pen.fillText(fittingText(pen, data.groups[g] || "no run", room), left - GAP - STRIP - LETTER - 4, y + high / 2);
  }
  if (labels && room >= 30) for (let k = Math.ceil(sight.y - 0.3); k < Math.min(rows.length, sight.y + sight.size - 0.3); k++) {
    pen.fillStyle = pageColour("soft"); pen.fillText(fittingText(pen, data.label[rows[k]], room), left - GAP - STRIP - LETTER - 4, yOf(k + 0.5));
  }

  for (const [row, letter, name] of /** @type {[number, string, string][]} */ ([[state.a, "A", "a"], [state.b, "B", "b"]])) {
    const k = row < 0 ? -1 : rows.indexOf(row), colour = pageColour(name) || pageColour("accent");
    if (k < 0) continue;
    const x = xOf(k + 0.5), y = yOf(k + 0.5), seenX = x >= left && x <= left + side, seenY = y >= top && y <= top + side;
    for (const [wide, paint] of /** @type {[number, string][]} */ ([[3.5, pageColour("paper")], [1.5, colour]])) within(() => {
      pen.strokeStyle = paint; pen.lineWidth = wide;
      pen.beginPath(); pen.moveTo(left, y); pen.lineTo(left + side, y); pen.moveTo(x, top); pen.lineTo(x, top + side); pen.stroke();
    });
    pen.fillStyle = colour; pen.textAlign = "center";
    pen.save(); pen.font = "bold " + pen.font;
    if (seenY) pen.fillText(letter, left - GAP - STRIP - LETTER / 2, y);
    if (seenX) pen.fillText(letter, x, top - GAP - STRIP - LETTER / 2);
    pen.restore();
  }
  if (at) within(() => {
    const cell = every * scale, grow = Math.max(0, 5 - cell) / 2;
    for (const [wide, paint] of /** @type {[number, string][]} */ ([[4, pageColour("paper")], [2, pageColour("ink")]])) {
      pen.strokeStyle = paint; pen.lineWidth = wide;
      pen.strokeRect(xOf(at.column) - grow, yOf(at.line) - grow, cell + 2 * grow, cell + 2 * grow);
    }
  });
  pen.strokeStyle = pageColour("line"); pen.lineWidth = 1; pen.strokeRect(left - 0.5, top - 0.5, side + 1, side + 1);
};

/** @param {CanvasRenderingContext2D} pen @param {number} left @param {number} top @param {number} side */
const hatch = (pen, left, top, side) => {
  pen.strokeStyle = pageColour("lone"); pen.globalAlpha = 0.6; pen.lineWidth = 1; pen.beginPath();
  for (let k = -side; k < side; k += 7) { pen.moveTo(left + k, top + side); pen.lineTo(left + k + side, top); }
  pen.stroke(); pen.globalAlpha = 1;
};
