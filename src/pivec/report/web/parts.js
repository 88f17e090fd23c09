// The parts of the distance of two policies: as Python decomposed it, or squared distances of points in each region.
import { textsOf } from "./data.js";
import { perData, pointsOf, squaredByRegion, transposed, unpackAll } from "./distances.js";
import { app } from "./state.js";

/**
 * @typedef {{name: string, unit: string, flag?: boolean, a: number, b: number, noise?: boolean}} Means of a feature, of both policies; `flag`: it is so or not
 *
 * @typedef {object} Part a region of states, or several that are similar
 * @property {number[]} regions their numbers, of several that are merged the largest first
 * @property {string} words that describe it
 * @property {number} part of the distance
 * @property {number} shareA of its time that the first policy spends there; NaN where not known
 * @property {number} shareB
 * @property {Means[]} features that differ most there; empty where only points are known
 * @property {boolean} [noise] whether chance may explain it
 * @property {number[][]} [spans] ends of the intervals of both shares
 *
 * @typedef {object} Differences
 * @property {number} measured the distance, with the noise of sampling: the sum of all parts
 * @property {Part[]} parts the largest first
 * @property {Means[]} averages over all of the time
 * @property {string} words what is assumed
 * @property {{where: string, a: number, b: number}[]} rules that separate both, with their shares of time
 * @property {boolean} sure whether noise is marked
 */

const regionsOf = perData(async (data) => {
  const { words, ...columns } = data.blob.regions, made = await unpackAll(columns);
  made.words = await textsOf(words);
  if (made.shares) made.shares = transposed(made.shares, data.n, made.words.length);
  return made;
});

/** @param {Differences} found @returns {Differences} the same from the second policy to the first */
const swapped = (found) => {
  const turn = (/** @type {Means} */ f) => ({ ...f, a: f.b, b: f.a });
  const parts = found.parts.map((part) => ({ ...part, shareA: part.shareB, shareB: part.shareA, spans: part.spans && [...part.spans].reverse(), features: part.features.map(turn) }));
  return { ...found, parts, averages: found.averages.map(turn), rules: found.rules.map((rule) => ({ ...rule, a: rule.b, b: rule.a })) };
};

/** Why `differences` gives null for the data now shown. */
export const whyNoParts = () => (app.data.blob.regions ? "There are too many policies for this file to hold what differs; pivec serve OUT tells."
  : "This file does not hold what differs between these two: pivec explain and pivec serve tell, if the characterization decomposes distances.");

/** @param {number} i @param {number} j @returns {Promise<Differences | null>} null where this file does not know */
export const differences = async (i, j) => {
  const { blob, features } = app.data;
  const known = blob.decompositions.find((/** @type {any} */ { rows: [a, b] }) => (a === i && b === j) || (a === j && b === i));
  if (known) return known.rows[0] === i ? known : swapped(known);
  const points = await pointsOf();
  if (!blob.regions || !points) return null;
  const { words, shares, width } = await regionsOf(), n = words.length;
  const share = (/** @type {number} */ row, /** @type {number} */ region) => (shares ? shares[row * n + region] / 65535 : NaN);
  const sizes = squaredByRegion(points, width, n, i, j);
  const parts = words.map((/** @type {string} */ said, /** @type {number} */ region) => ({ regions: [region], words: said, part: sizes[region], shareA: share(i, region), shareB: share(j, region), features: [] }));
  parts.sort((/** @type {Part} */ a, /** @type {Part} */ b) => b.part - a.part);
  return {
    measured: sizes.reduce((sum, part) => sum + part, 0), parts, sure: false, words: "", rules: [],
    averages: features.map(({ values, ...named }) => ({ ...named, a: values[i], b: values[j] })),
  };
};
