// Elements that the panel is made of; text is set as text only.
import { make } from "./format.js";

/** @param {string} selector a tag and classes, as "p.hint" @param {...(Node | string)} children @returns {any} */
export const nest = (selector, ...children) => {
  const [tag, ...names] = selector.split("."), node = make(tag, undefined, names.join(" "));
  node.append(...children);
  return node;
};

/** @param {string | Node} content @param {() => void} act @param {string} [className] @returns {any} */
export const pushButton = (content, act, className = "plain") => {
  const node = nest("button." + className, content);
  node.type = "button";
  node.addEventListener("click", act);
  return node;
};

/** @param {number} side 0 of A, 1 of B @returns {any} its letter */
export const badge = (side) => nest("b.badge." + "ab"[side], "AB"[side]);

/** @param {number} share of the whole length @param {string} className @returns {any} a bar whose number stands beside it */
export const shareBar = (share, className) => {
  const fill = nest("i." + className), track = nest("span.bar", fill);
  fill.style.width = 100 * Math.min(share || 0, 1) + "%";
  track.ariaHidden = "true";
  return track;
};

/** @param {string[]} words of a command @returns {any} the command, as a shell takes it, and a button that copies it */
export const commandLine = (...words) => {
  const text = words.map((word) => (/^[\w.\x2f:@%+=,-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`)).join(" ");
  const code = make("code", text), copy = pushButton("Copy", async () => {
    getSelection()?.selectAllChildren(code);  // to copy by hand, where a page may not
    copy.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Now copy it");
  });
  return nest("p.command", code, copy);
};

/** @template T @param {any} list is filled with rows @param {T[]} items @param {number} most at first @param {(item: T) => any} row @returns {any[]} the list, and a button for the rest */
export const listed = (list, items, most, row) => {
  list.append(...items.slice(0, most).map(row));
  const more = pushButton(`Show ${items.length - most} more`, () => {
    const rows = items.slice(most).map(row);
    list.append(...rows);
    more.remove();
    rows[0].tabIndex = -1;
    rows[0].focus();
  });
  return items.length > most ? [list, more] : [list];
};
