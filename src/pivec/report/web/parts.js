// What the distance of two policies is made of: regions of states, and features in them.
import { textsOf } from "./data.js";
import { gaussiansOf, perData, pointsOf, transposed, unpackAll } from "./distances.js";
import { app } from "./state.js";

/**
 * @typedef {{name: string, unit: string, flag?: boolean, a: number, b: number}} Means of a feature, of both policies; NaN where not known
 * @typedef {Means & {part: number}} FeaturePart what the feature adds to the distance
 *
 * @typedef {object} Part a region of states
 * @property {number} region its number
 * @property {string} words that tell it
 * @property {number} part of the distance, the sum of the next three
 * @property {number} often because one is there more often
 * @property {number} where because they are in different places within it
 * @property {number} wide because one spreads wider
 * @property {number} shareA of its time that the first policy spends there
 * @property {number} shareB
 * @property {FeaturePart[]} features the largest part first; they add up to `where` and `wide`
 *
 * @typedef {object} Differences
 * @property {number} measured the distance, with the noise of sampling: the sum of all parts
 * @property {Part[]} parts the largest first
 * @property {Means[]} averages over all of the time
 * @property {string} words what is assumed
 */

const SELDOM = 1e-4;  // a share of time that is as good as none
const UNSURE = 0.1;  // widths of a region by which rounding may move a mean that is still told

const regionsOf = perData(async (data) => {
  const made = await unpackAll({ ...data.blob.regions, words: null });
  made.words = await textsOf(data.blob.regions.words);
  if (made.shares) made.shares = transposed(made.shares, data.n, made.words.length);
  return made;
});

/** @param {import("./distances.js").Points} points @param {number} i */
const pointAt = ({ codes, width, step, low, kept }, i) => {
  const point = Float64Array.from(low);
  for (let c = 0; c < width; c++) point[kept[c]] += step * codes[i * width + c];
  return point;
};

/** Why `differences` gives null for the data now shown. */
export const whyNoParts = () => {
  const { blob } = app.data;
  if (!blob.regions) return "This way to compare policies cannot tell what differs between two; visitation can.";
  return "There are too many policies for this file to hold what differs; pivec serve OUT tells.";
};

/** @param {number} i @param {number} j @returns {Promise<Differences | null>} null where this file does not know */
export const differences = async (i, j) => {
  const { blob, features } = app.data;
  if (!blob.regions) return null;
  const [points, gaussians, regions] = await Promise.all([pointsOf(), gaussiansOf(), regionsOf()]);
  if (!points && !gaussians) return null;
  const parts = gaussians ? [spreadParts(gaussians, i, j)] : placeParts(points, regions, i, j);
  for (const part of parts) {
    part.words = regions.words[part.region];
    part.part = part.often + part.where + part.wide;
    part.features = part.features.map((/** @type {any} */ feature, /** @type {number} */ c) => ({ ...regions.features[c], ...feature }));
    part.features.sort((/** @type {any} */ a, /** @type {any} */ b) => b.part - a.part);
  }
  parts.sort((a, b) => b.part - a.part);
  return {
    measured: parts.reduce((sum, { part }) => sum + part, 0),
    parts,
    averages: features.map(({ values, ...named }) => ({ ...named, a: values[i], b: values[j] })),
    words: "Parts are of the distance as it was measured, with the noise of sampling in it.",
  };
};

/** One region, all states. @param {any} gaussians @param {number} i @param {number} j @returns {any} */
const spreadParts = ({ means, variances, width }, i, j) => {
  const result = { region: 0, often: 0, where: 0, wide: 0, shareA: 1, shareB: 1, features: /** @type {any[]} */ ([]) };
  for (let c = 0; c < width; c++) {
    const [a, b, u, v] = [means, variances].flatMap((values) => [values[i * width + c], values[j * width + c]]);
    const where = ((a - b) ** 2 * (1 / u + 1 / v)) / 2, wide = (u - v) ** 2 / (2 * u * v);
    result.where += where; result.wide += wide;
    result.features.push({ a, b, part: where + wide });
  }
  return result;
};

/** @param {any} points @param {any} regions @param {number} i @param {number} j @returns {any[]} */
const placeParts = (points, regions, i, j) => {
  const sides = [i, j].map((row) => (regions.kind === "visitation" ? visited : adapted)(pointAt(points, row), regions, row, points.step));
  const [a, b] = sides, d = regions.features.length;
  return regions.words.map((/** @type {string} */ _, /** @type {number} */ region) => {
    const r = a.roots[region], s = b.roots[region], first = region * d;
    let sum = a.firsts && b.firsts ? (a.firsts[region] - b.firsts[region]) ** 2 : 0, own = 0;
    for (let c = first; c < first + d; c++) own += (a.places[c] - b.places[c]) ** 2;
    sum += own;
    // |r u − s v|² = (r − s)² + r s |u − v|²; the features share what the first coordinate adds.
    const where = r * s * sum, shared = own > 0 ? where / own : 0;
    const features = [];
    for (let c = first; c < first + d; c++) features.push({ a: a.means[c], b: b.means[c], part: shared * (a.places[c] - b.places[c]) ** 2 });
    return { region, often: (r - s) ** 2, where: own > 0 ? where : 0, wide: 0, shareA: a.shares[region], shareB: b.shares[region], features };
  });
};

/** Visitation: points are a root of time along a unit vector. @param {Float64Array} point @param {any} regions @param {number} _ @param {number} step */
const visited = (point, { weights, middles, widths, prior, fits }, _, step) => {
  const n = weights.length, d = middles.length / n;
  const roots = new Float64Array(n), firsts = new Float64Array(n), shares = new Float64Array(n);
  const places = new Float64Array(n * d), means = new Float64Array(n * d).fill(NaN);
  let total = 0;
  for (let k = 0; k < n; k++) {
    const at = k * (d + 1);
    let square = 0;
    for (let c = at; c <= at + d; c++) square += point[c] ** 2;
    const root = roots[k] = Math.sqrt(square);
    firsts[k] = point[at] / root;
    for (let c = 0; c < d; c++) places[k * d + c] = point[at + 1 + c] / root;
    shares[k] = Math.max(2 * (1 + prior) * square - prior * weights[k], 0);
    total += shares[k] / fits;
  }
  for (let k = 0; k < n; k++) {
    const drawn = (shares[k] + prior * total) / shares[k];
    shares[k] /= total;
    if (shares[k] <= SELDOM || (drawn * step) / (firsts[k] * roots[k]) > UNSURE) continue;
    for (let c = k * d; c < (k + 1) * d; c++) means[c] = middles[c] + (widths[c] * 2 * places[c] * drawn) / firsts[k];
  }
  return { roots, firsts, places, shares, means };
};

/** Supervectors: points are adapted means. @param {Float64Array} point @param {any} regions @param {number} row @param {number} step */
const adapted = (point, { weights, middles, widths, shares: codes, relevance, scale }, row, step) => {
  const n = weights.length, d = middles.length / n;
  const shares = new Float64Array(n).fill(NaN), means = new Float64Array(n * d).fill(NaN);
  for (let k = 0; codes && k < n; k++) {
    shares[k] = (codes[row * n + k] / 65535) ** 2;
    const drawn = (scale[k] * (shares[k] + relevance[row])) / shares[k];
    if (shares[k] <= SELDOM || drawn * step > UNSURE) continue;
    for (let c = k * d; c < (k + 1) * d; c++) means[c] = middles[c] + widths[c] * point[c] * drawn;
  }
  return { roots: new Float64Array(n).fill(1), firsts: null, places: point, shares, means };
};
