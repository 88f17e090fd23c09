// The distance of A and B: a small picture, and words that say how sure it is.
import { make, number, percent } from "./format.js";
import { nest } from "./panel_nodes.js";

/** @typedef {import("./distances.js").Pair} PairNumbers */

/** @param {PairNumbers} pair @returns {[string, string]} the distance, and how sure it is */
const wordsOf = ({ distance, low, high }) => [number(distance),
  !Number.isFinite(distance) ? "the distance of these two is not in this file"
    : Number.isFinite(low + high) ? `95 % between ${number(Math.max(low, 0))} and ${number(high)}` : "its interval is not in this file"];

/** @param {PairNumbers} pair */
const chanceWords = ({ alike, p }) => {
  const said = Number.isFinite(p) ? ` (p ${p < 0.001 ? "< 0.001" : "= " + number(p)})` : "";
  return alike === null ? "" : alike ? `Cannot be distinguished${said}: chance explains the distance.` : `Different${said}.`;
};

/** @param {PairNumbers} pair @returns {string} */
export const spokenDistance = (pair) => `${wordsOf(pair).join(", ")}. ${chanceWords(pair)}`;

/** @param {PairNumbers} pair @param {number} longest distance of all @param {string} assumed @returns {any} */
export const distanceSection = (pair, longest, assumed) => {
  const { distance, low, high, alike, overlap } = pair, [value, sure] = wordsOf(pair);
  const section = nest("div.distance", make("h3", "Distance"), nest("p.figure", make("strong", value), " " + sure));
  const say = (/** @type {string} */ words, className = "hint") => { if (words) section.append(make("p", words, className)); };
  if (Number.isFinite(distance) && longest) section.append(ruler(distance, low, high, longest));
  say(chanceWords(pair), alike ? "verdict tag" : "verdict");
  if (Number.isFinite(overlap)) say(`In different places: ${percent(1 - overlap)} of the time.`, "");
  say(assumed);
  return section;
};

/** @param {number} distance @param {number} low @param {number} high @param {number} longest @returns {any} a line from 0 to the largest distance */
const ruler = (distance, low, high, longest) => {
  const end = Math.max(longest, distance, high || 0) || 1;
  const place = (/** @type {number} */ value) => 100 * Math.min(Math.max(value / end, 0), 1), band = nest("i.band"), point = nest("i.point");
  point.style.left = place(distance) + "%";
  band.style.left = place(low) + "%"; band.style.width = place(high) - place(low) + "%";
  const node = nest("div.ruler", nest("div.line", ...(Number.isFinite(low + high) ? [band] : []), point), nest("div.ends", make("span", "0"), make("span", number(end) + (end === longest ? ", the largest here" : ""))));
  node.ariaHidden = "true";
  return node;
};
