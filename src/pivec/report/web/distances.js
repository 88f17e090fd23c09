// Distances of policies, measured here from their points, and how sure they are.
import { numbersOf } from "./data.js";
import { app } from "./state.js";

/** @typedef {import("./data.js").Data} Data */

/**
 * @typedef {object} Points rows of whole numbers; distances are those of `step` times them, in squares
 * @property {Uint8Array | Uint16Array} codes row by row
 * @property {number} width numbers of a row
 * @property {number} step
 * @property {Float32Array} low of all columns of a point, also of those that do not vary
 * @property {Int32Array} kept columns that the codes are of
 *
 * @typedef {object} Pair
 * @property {number} distance without the noise of sampling where that is known; NaN where this file does not tell
 * @property {number} low
 * @property {number} high ends of the interval; NaN where they are not known
 * @property {boolean} bound whether the interval is a wider one than `pivec` gives
 * @property {boolean | null} alike whether chance explains the distance; null where that is not known
 * @property {number} overlap share of time that both spend in the same places
 * @property {number} measured the distance with the noise of sampling
 *
 * @typedef {object} Measurer
 * @property {(i: number, j: number) => number} between distance of two policies, as `Pair.distance`
 * @property {(i: number, j: number) => Pair} pair
 * @property {(i: number, k: number) => {row: number, distance: number}[]} nearest others, the nearest first
 * @property {(rows: Int32Array | number[]) => Float32Array} block distances of these rows to each other, row by row
 * @property {boolean} complete whether all distances are known, and not those of near policies alone
 * @property {string} words what is assumed, or left out for want of room
 */

/** @template T @param {(data: Data) => Promise<T>} make @returns {() => Promise<T>} makes it once for the data now shown */
export const perData = (make) => {
  /** @type {{data: Data, made: Promise<T>} | null} */
  let last = null;
  return () => {
    if (!last || last.data !== app.data) last = { data: app.data, made: make(app.data) };
    return last.made;
  };
};

/** @param {any} columns packed ones by their names; others stay as they are @returns {Promise<any>} */
export const unpackAll = async (columns) => columns && Object.fromEntries(await Promise.all(
  Object.entries(columns).map(async ([name, column]) => [name, column && column.data ? await numbersOf(column) : column])));

/** The points, row by row; null if the file has none. @type {() => Promise<Points | null>} */
export const pointsOf = perData(async (data) => {
  const made = await unpackAll(data.blob.points);
  return made && { ...made, width: made.kept.length, codes: transposed(made.codes, data.n, made.kept.length) };
});

/** @param {any} columns numbers column by column @param {number} n @param {number} width @returns {any} row by row */
export const transposed = (columns, n, width) => {
  const rows = new columns.constructor(n * width);
  for (let first = 0; first < n; first += 64) {  // few rows at a time stay at hand
    const last = Math.min(first + 64, n);
    for (let c = 0; c < width; c++) for (let i = first, from = c * n + first; i < last; i++) rows[i * width + c] = columns[from++];
  }
  return rows;
};

/** @param {Points} points @param {number} i @param {number} j */
const squared = ({ codes, width, step }, i, j) => {
  let a = i * width, b = j * width, p = 0, q = 0, r = 0, s = 0;
  const end = a + width;
  for (; a + 3 < end; a += 4, b += 4) {  // four sums do not wait for each other
    const t = codes[a] - codes[b], u = codes[a + 1] - codes[b + 1], v = codes[a + 2] - codes[b + 2], w = codes[a + 3] - codes[b + 3];
    p += t * t; q += u * u; r += v * v; s += w * w;
  }
  for (; a < end; a++, b++) p += (codes[a] - codes[b]) ** 2;
  return (p + q + r + s) * step * step;
};

/** @param {any} gaussians @param {number} i @param {number} j the divergence of normal distributions, both ways */
const divergence = ({ means, variances, width }, i, j) => {
  let sum = 0;
  for (let a = i * width, b = j * width, end = a + width; a < end; a++, b++) {
    const u = variances[a], v = variances[b];
    sum += (means[a] - means[b]) ** 2 * (1 / u + 1 / v) + (u - v) ** 2 / (u * v);
  }
  return sum / 2;
};

/** Means and variances of the features, row by row; null if policies are not described so. */
export const gaussiansOf = perData(async (data) => {
  const { regions } = data.blob;
  if (!regions || regions.kind !== "gaussian") return null;
  const width = regions.features.length, made = await unpackAll({ means: regions.means, variances: regions.variances });
  return { means: transposed(made.means, data.n, width), variances: transposed(made.variances, data.n, width), width };
});

/** @type {() => Promise<Measurer>} */
export const measurer = perData(async (data) => {
  const [points, gaussians] = await Promise.all([pointsOf(), gaussiansOf()]);
  const [pairs, spread, near] = await Promise.all(["pairs", "spread", "near"].map((name) => unpackAll(data.blob[name])));
  const { n } = data, complete = Boolean(points || pairs || gaussians);
  /** Where a pair is in the upper triangle. @param {number} i @param {number} j */
  const place = (i, j) => (i < j ? (i * (2 * n - i - 1)) / 2 + j - i - 1 : (j * (2 * n - j - 1)) / 2 + i - j - 1);
  /** The distance with the noise of sampling. @param {number} i @param {number} j @returns {number} */
  const raw = (i, j) => {
    if (i === j) return 0;
    if (points) return squared(points, i, j);
    if (pairs) return (pairs.measured || pairs.distance)[place(i, j)];
    if (gaussians) return divergence(gaussians, i, j);
    for (const [a, b] of near ? [[i, j], [j, i]] : []) {
      const at = near.rows.subarray(a * near.k, (a + 1) * near.k).indexOf(b);
      if (at >= 0) return near.distances[a * near.k + at];
    }
    return NaN;
  };
  /** Below 0 by chance, where noise is larger than a distance: that is the order of the nearest. @param {number} i @param {number} j @returns {number} */
  const estimate = (i, j) => (i === j ? 0 : pairs ? pairs.distance[place(i, j)] : raw(i, j) - ((spread && spread.trace[i] + spread.trace[j]) || 0));
  /** @param {number} i @param {number} j */
  const between = (i, j) => Math.max(estimate(i, j), 0);
  /** @param {number} i @param {number} j @returns {Pair} */
  const pair = (i, j) => {
    const measured = raw(i, j), at = place(i, j);
    /** @type {Pair} */
    const result = { distance: between(i, j), low: NaN, high: NaN, bound: false, alike: null, overlap: NaN, measured };
    if (i === j) return { ...result, low: 0, high: 0, alike: true, overlap: 1 };
    if (pairs) {
      if (pairs.low) Object.assign(result, { low: pairs.low[at], high: pairs.high[at] });
      if (pairs.alike && pairs.alike[at] < 2) result.alike = pairs.alike[at] === 1;
      if (pairs.overlap && pairs.overlap[at] < 65535) result.overlap = pairs.overlap[at] / 65534;
    } else if (spread) {
      const both = (/** @type {string} */ name) => spread[name][i] + spread[name][j];
      const p = chance(measured, both("trace"), both("norm"));
      if (!Number.isNaN(p)) result.alike = p > spread.threshold;
      if (spread.largest) {
        const reach = Math.max(spread.reach[i], spread.reach[j]) * Math.sqrt(Math.max(2 * both("unbiased") ** 2, 4 * measured * both("largest")));
        Object.assign(result, { low: Math.max(estimate(i, j) - reach, 0), high: Math.max(estimate(i, j) + reach, 0), bound: reach > 0 });
      }
    }
    return result;
  };
  /** @param {number} i @param {number} k */
  const nearest = (i, k) => {
    /** @type {{row: number, distance: number}[]} */
    const best = [];
    const offer = (/** @type {number} */ row) => {
      const distance = estimate(i, row);
      if (row === i || Number.isNaN(distance) || (best.length === k && distance >= best[k - 1].distance)) return;
      let at = Math.min(best.length, k - 1);
      for (; at && best[at - 1].distance > distance; at--) best[at] = best[at - 1];
      best[at] = { row, distance };
    };
    if (complete) for (let row = 0; row < n; row++) offer(row);
    else if (near) near.rows.subarray(i * near.k, (i + 1) * near.k).forEach(offer);
    return best.map(({ row, distance }) => ({ row, distance: Math.max(distance, 0) }));
  };
  const block = (/** @type {Int32Array | number[]} */ rows) => {
    const m = rows.length, values = new Float32Array(m * m);
    for (let a = 0; a < m; a++) for (let b = a + 1; b < m; b++) values[a * m + b] = values[b * m + a] = between(rows[a], rows[b]);
    return values;
  };
  return { between, pair, nearest, block, complete, words: data.blob.words };
});

/** How often chance gives a distance as large: a χ² of the noise's mean and variance. @param {number} square @param {number} noise @param {number} norm */
const chance = (square, noise, norm) => (noise === 0 ? +(square === 0) : upperGamma(noise ** 2 / norm ** 2 / 2, (square * noise) / norm ** 2 / 2));

/** The upper incomplete gamma function over Γ(a), to ten decimals. @param {number} a @param {number} x @returns {number} */
export const upperGamma = (a, x) => {
  if (!(a > 0 && x > 0)) return a > 0 && x === 0 ? 1 : NaN;
  if (x > a + 60 + 12 * Math.sqrt(a)) return 0;
  let term = Math.exp(a * Math.log(x) - x - logGamma(a + 1)), sum = term;
  for (let k = a + 1; term > 1e-16 * sum; k++) sum += term *= x / k;
  return Math.max(1 - sum, 0);
};

/** @param {number} a above 0 @returns {number} logarithm of Γ(a), by Stirling's series from 20 on */
const logGamma = (a) => {
  let below = 1;
  for (; a < 20; a++) below *= a;
  return (a - 0.5) * Math.log(a) - a + Math.log(2 * Math.PI) / 2 + (1 - (1 / 30 - 1 / (105 * a * a)) / (a * a)) / (12 * a) - Math.log(below);
};
