// The distance of A and B: a small picture, and words that say how sure it is.
import type { Pair as PairNumbers } from "./distances";
import { make, number, percent } from "./format";
import { nest } from "./panel_nodes";

/** Returns the distance, and how sure it is. */
const wordsOf = ({ distance, low, high }: PairNumbers): [string, string] => [
  number(distance),
  !Number.isFinite(distance)
    ? "the distance of these two is not in this file"
    : Number.isFinite(low + high)
      ? `95 % between ${number(Math.max(low, 0))} and ${number(high)}`
      : "its interval is not in this file",
];

const chanceWords = ({ alike, p }: PairNumbers) => {
  const said = Number.isFinite(p) ? ` (p ${p < 0.001 ? "< 0.001" : "= " + number(p)})` : "";
  return alike === null
    ? ""
    : alike
      ? `Cannot be distinguished${said}: chance explains the distance.`
      : `Different${said}.`;
};

export const spokenDistance = (pair: PairNumbers): string =>
  `${wordsOf(pair).join(", ")}. ${chanceWords(pair)}`;

/** `longest`: distance of all. */
export const distanceSection = (pair: PairNumbers, longest: number, assumed: string): any => {
  const { distance, low, high, alike, overlap } = pair,
    [value, sure] = wordsOf(pair);
  const section = nest(
    "div.distance",
    make("h3", "Distance"),
    nest("p.figure", make("strong", value), " " + sure),
  );
  const say = (words: string, className = "hint") => {
    if (words) section.append(make("p", words, className));
  };
  if (Number.isFinite(distance) && longest) section.append(ruler(distance, low, high, longest));
  say(chanceWords(pair), alike ? "verdict tag" : "verdict");
  if (Number.isFinite(overlap))
    say(`In different places: ${percent(1 - overlap)} of the time.`, "");
  say(assumed);
  return section;
};

/** Returns a line from 0 to the largest distance. */
const ruler = (distance: number, low: number, high: number, longest: number): any => {
  const end = Math.max(longest, distance, high || 0) || 1;
  const place = (value: number) => 100 * Math.min(Math.max(value / end, 0), 1),
    band = nest("i.band"),
    point = nest("i.point");
  point.style.left = place(distance) + "%";
  band.style.left = place(low) + "%";
  band.style.width = place(high) - place(low) + "%";
  const node = nest(
    "div.ruler",
    nest("div.line", ...(Number.isFinite(low + high) ? [band] : []), point),
    nest(
      "div.ends",
      make("span", "0"),
      make("span", number(end) + (end === longest ? ", the largest here" : "")),
    ),
  );
  node.ariaHidden = "true";
  return node;
};
