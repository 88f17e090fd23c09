// Elements, and numbers as text. Text from data is set as text only.

import type { Outcome } from "./data";

/** Returns the element of the page with this name. */
export const byId = (id: string): any => document.getElementById(id);

export const make = (tag: string, text?: string, className?: string): any => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};

/** `digits`: in groups of three. */
const grouped = (digits: string) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

/** `digits`: at most so many significant ones. */
export const number = (value: number, digits: number = 3) => {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7))
    return value.toExponential(Math.max(0, digits - 1)).replace("e+", "e");
  if (size >= 10 ** digits) return grouped(value.toFixed(0));
  return String(Number(value.toPrecision(digits))).replace("-", "−");
};

/** `value`: a count, or NaN. */
export const whole = (value: number) => (Number.isFinite(value) ? grouped(String(value)) : "–");

/** `value`: a training step; returns few letters: 20k, 1.5M. */
export const shortStep = (value: number): string => {
  if (!Number.isFinite(value)) return "–";
  const [unit, sign] = value >= 1e6 ? [1e6, "M"] : value >= 1e4 ? [1e3, "k"] : [1, ""];
  return Number((value / unit).toPrecision(3)) + sign;
};

/** `share`: from 0 to 1. */
export const percent = (share: number) =>
  Number.isFinite(share)
    ? (100 * share).toFixed(share >= 0.0005 && share < 0.0995 ? 1 : 0) + " %"
    : "–";

/** Returns the mean of row i with its interval. */
export const estimate = ({ rate, values, low, high }: Outcome, i: number): string => {
  const shown = rate ? percent : number,
    ends = Number.isFinite(low[i]) ? ` (${shown(low[i])} to ${shown(high[i])})` : "";
  return shown(values[i]) + ends;
};

/** Returns asks for it once a frame, however often it is called. */
export const framed = (work: () => void): (() => void) => {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
};

/** `words`: that a screen reader says. */
export const announce = (words: string) => {
  byId("said").textContent = words;
};
