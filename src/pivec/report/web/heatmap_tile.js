// Squares of distances, measured in slices so that nothing freezes, and their colours.

/** @typedef {import("./distances.js").Measurer} Measurer */

/**
 * @typedef {{x: number, y: number, size: number}} Sight a square part of all pairs: its first column and line among the rows, and how many
 * @typedef {object} Tile distances of some rows (from top to bottom) to some (from left to right)
 * @property {number} x first of the columns among all rows
 * @property {number} y
 * @property {number} every how many rows a cell stands for
 * @property {Int32Array} columns rows of the data
 * @property {Int32Array} lines
 * @property {Float32Array} values line by line, NaN where not known
 * @property {Uint8Array} certain 1 for pairs that are distinguished; empty if not requested
 * @property {HTMLCanvasElement} image a pixel a cell
 */

const MOST_CELLS = 300, SLICE = 10;  // cells of a side; ms of work at a time
// magma of matplotlib, as in distances.png.
const MAGMA = "000004 120d31 331067 59157e 7e2482 a3307e c83e73 e95462 f97b5d fea973 fed395 fcfdbf".split(" ").map((hex) => "#" + hex);

/** @param {number} size @returns {number} one in so many rows is shown */
export const everyOf = (size) => Math.max(1, Math.ceil(size / MOST_CELLS));

/**
 * @param {Measurer} measuring @param {Int32Array} rows in their order @param {Sight} sight
 * @param {boolean} asksCertain @param {() => boolean} dropped whether nobody waits any more @returns {Promise<Tile | null>} null then
 */
export const measureTile = async (measuring, rows, sight, asksCertain, dropped) => {
  const every = everyOf(sight.size), [x, y] = [sight.x, sight.y].map((at) => Math.floor(at / every) * every);  // the same rows while it is dragged
  const [columns, lines] = [x, y].map((from) => rows.slice(from, from + sight.size + 2 * every).filter((_, k) => k % every === 0)), wide = columns.length;
  const values = new Float32Array(wide * lines.length), certain = new Uint8Array(asksCertain ? values.length : 0), image = document.createElement("canvas");
  let began = performance.now();
  for (let r = 0; r < lines.length; r++) {
    for (let c = 0; c < wide; c++) {
      const at = r * wide + c, back = x === y && c < r ? c * wide + r : -1, i = lines[r], j = columns[c];
      values[at] = back < 0 ? measuring.between(i, j) : values[back];
      if (asksCertain) certain[at] = back < 0 ? Number(i === j || measuring.pair(i, j).alike === false) : certain[back];
    }
    if (performance.now() - began < SLICE) continue;
    await new Promise((done) => { setTimeout(done); });
    if (dropped()) return null;
    began = performance.now();
  }
  image.width = wide; image.height = lines.length;
  return { x, y, every, columns, lines, values, certain, image };
};

/** @param {Tile} tile @returns {{limit: number, most: number}} the end of the scale: the 99th percentile where few are far beyond; and the largest. NaN where nothing is known */
export const limitOf = ({ values, lines, columns }) => {
  const known = values.filter((value, at) => value >= 0 && lines[Math.floor(at / columns.length)] !== columns[at % columns.length]).sort(), n = known.length;
  const place = 0.99 * (n - 1), low = Math.floor(place), most = known[n - 1], high = known[low] + (place - low) * ((known[low + 1] ?? most) - known[low]);
  return { limit: most === 0 ? 1 : high > 0 && high < 0.5 * most ? high : most ?? NaN, most };
};

/** @param {boolean} dark @returns {string[]} colours from near to far: far stands out from the paper */
export const distanceScale = (dark) => (dark ? MAGMA : [...MAGMA].reverse());

/** @param {Tile} tile gets its colours @param {number} limit @param {boolean} dark @param {string} unknown colour */
export const colourTile = ({ image, values, certain }, limit, dark, unknown) => {
  const rgb = [...distanceScale(dark), unknown].map((hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)));
  const last = MAGMA.length - 1, pen = /** @type {CanvasRenderingContext2D} */ (image.getContext("2d")), pixels = pen.createImageData(image.width, image.height);
  values.forEach((value, at) => {
    const t = Math.min(1, value / limit) * last, low = Math.min(last - 1, Math.floor(t));
    for (let k = 0; k < 3; k++) pixels.data[4 * at + k] = t >= 0 ? rgb[low][k] + (t - low) * (rgb[low + 1][k] - rgb[low][k]) : rgb[last + 1][k];
    pixels.data[4 * at + 3] = certain.length && !certain[at] ? 0 : 255;  // the hatch below shows through
  });
  pen.putImageData(pixels, 0, 0);
};
