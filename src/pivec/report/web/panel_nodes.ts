// Elements that the panel is made of; text is set as text only.
import { make } from "./format";

/** `selector`: a tag and classes, as "p.hint". */
export const nest = (selector: string, ...children: (Node | string)[]): any => {
  const [tag, ...names] = selector.split("."),
    node = make(tag, undefined, names.join(" "));
  node.append(...children);
  return node;
};

export const pushButton = (
  content: string | Node,
  act: () => void,
  className: string = "plain",
): any => {
  const node = nest("button." + className, content);
  node.type = "button";
  node.addEventListener("click", act);
  return node;
};

/** `side`: 0 of A, 1 of B; returns its letter. */
export const badge = (side: number): any => nest("b.badge." + "ab"[side], "AB"[side]);

/** `share`: of the whole length; returns a bar whose number stands beside it. */
export const shareBar = (share: number, className: string): any => {
  const fill = nest("i." + className),
    track = nest("span.bar", fill);
  fill.style.width = 100 * Math.min(share || 0, 1) + "%";
  track.ariaHidden = "true";
  return track;
};

/** `words`: of a command; returns the command, as a shell takes it, and a button that copies it. */
export const commandLine = (...words: string[]): any => {
  const text = words
    .map((word) => (/^[\w.\x2f:@%+=,-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`))
    .join(" ");
  const code = make("code", text),
    copy = pushButton("Copy", async () => {
      getSelection()?.selectAllChildren(code); // to copy by hand, where a page may not
      copy.textContent = await navigator.clipboard.writeText(text).then(
        () => "Copied",
        () => "Now copy it",
      );
    });
  return nest("p.command", code, copy);
};

/** `list`: is filled with rows; `most`: at first; returns the list, and a button for the rest. */
export const listed = <T>(list: any, items: T[], most: number, row: (item: T) => any): any[] => {
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
