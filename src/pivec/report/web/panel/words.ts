// What the panel says of a pair and of a run.
import type { Pair } from "../distances";
import { number, percent } from "../format";

/** The interval of a distance, or why there is none. */
export const intervalWords = ({ distance, low, high }: Pair): string =>
  !Number.isFinite(distance)
    ? "The distance of these two is not in this file."
    : Number.isFinite(low + high)
      ? `95 % interval ${number(Math.max(low, 0))} to ${number(high)}`
      : "Its interval is not in this file.";

/** Whether chance explains the distance; nothing if that is not known. */
export const verdictWords = ({ alike, p }: Pair): string => {
  const sure = Number.isFinite(p) ? ` (p ${p < 0.001 ? "< 0.001" : `= ${number(p)}`})` : "";
  if (alike === null) return "";
  return alike ? `Cannot be distinguished${sure}` : `Different${sure}`;
};

/** All of it, for a screen reader. */
export const spokenPair = (names: string[], pair: Pair): string =>
  [
    `${names.join(" and ")}: distance ${number(pair.distance)}`,
    intervalWords(pair),
    verdictWords(pair),
  ]
    .filter(Boolean)
    .join(", ");

/** The interval of a share of time in one unit: "0.2 to 1.8 %". */
export const percentRange = (low: number, high: number): string =>
  `${percent(low).replace(" %", "")} to ${percent(high)}`;

/** Keeps numbers and their units on one line. */
export const tight = (words: string): string => words.replace(/(\d) (?!to\b|→)/g, "$1\u00a0");

/** A command as a shell takes it. */
export const commandText = (words: string[]): string =>
  words
    .map((word) => (/^[\w.\x2f:@%+=,-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`))
    .join(" ");
