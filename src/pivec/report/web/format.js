// Elements, and numbers as text. Text from data is set as text only.

/** @param {string} id @returns {any} the element of the page with this name */
export const byId = (id) => document.getElementById(id);

/** @param {string} tag @param {string} [text] @param {string} [className] @returns {any} */
export const make = (tag, text, className) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};

/** @param {string} digits in groups of three */
const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

/** @param {number} value @param {number} [digits] at most so many significant ones */
export const number = (value, digits = 3) => {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(Math.max(0, digits - 1)).replace("e+", "e");
  if (size >= 10 ** digits) return grouped(value.toFixed(0));
  return String(Number(value.toPrecision(digits))).replace("-", "−");
};

/** @param {number} value a count, or NaN */
export const whole = (value) => (Number.isFinite(value) ? grouped(String(value)) : "–");

/** @param {number} share from 0 to 1 */
export const percent = (share) => (Number.isFinite(share) ? (100 * share).toFixed(share >= 0.0005 && share < 0.0995 ? 1 : 0) + " %" : "–");

/** @param {() => void} work @returns {() => void} asks for it once a frame, however often it is called */
export const framed = (work) => {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; work(); });
  };
};

/** @param {string} words that a screen reader says */
export const announce = (words) => { byId("said").textContent = words; };
