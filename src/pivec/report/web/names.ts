// Long names are cut where they do not differ from others, as text.py does.

const SAMPLE = 1000; // names that tell what is common

/** Of a list, in how many names of a sample a piece is, and how many these are. */
const common: WeakMap<string[], { times: Map<string, number>; n: number }> = new WeakMap();

/** Returns numbers, with the word before them, words, and what joins them; and their letters. */
const piecesOf = (name: string): [string, number][] => {
  let word = "";
  return (name.match(/\p{Nd}+|\p{L}+|./gsu) || []).map((piece) => {
    const key = /\p{Nd}/u.test(piece) ? word + piece : piece;
    if (/\p{L}/u.test(piece)) word = piece;
    return [key, [...piece].length];
  });
};

const commonOf = (names: string[]) => {
  if (!common.has(names)) {
    const every = Math.ceil(names.length / SAMPLE),
      some = names.filter((_, i) => i % every === 0),
      times = new Map();
    for (const name of some)
      for (const key of new Set(piecesOf(name).map(([key]) => key)))
        times.set(key, (times.get(key) || 0) + 1);
    common.set(names, { times, n: some.length });
  }
  return common.get(names) as { times: Map<string, number>; n: number };
};

/** Returns where the longest stretch lies that costs nothing. */
const freeStretch = (costs: number[]): [number, number] => {
  let start = 0,
    end = 0,
    from = 0;
  [...costs, 1].forEach((cost, k) => {
    if (cost) {
      if (k - from > end - start) {
        start = from;
        end = k;
      }
      from = k + 1;
    }
  });
  return [start, end];
};

/** `out`: letters; returns from where on these cost least, near the middle. */
const cheapestCut = (costs: number[], out: number): number => {
  const offCentre = (at: number) => Math.abs(2 * at + out - costs.length);
  let best = 1,
    least = Infinity,
    sum = costs.slice(0, out).reduce((a, b) => a + b, 0);
  for (let at = 1; at < costs.length - out; at++) {
    sum += costs[at + out - 1] - costs[at - 1];
    if (sum < least || (sum === least && offCentre(at) < offCentre(best))) {
      best = at;
      least = sum;
    }
  }
  return best;
};

/** `room`: for so many letters; `names`: all of its kind. */
export const squeezed = (name: string, room: number, names: string[]): string => {
  if (name.length <= room) return name;
  const { times, n } = commonOf(names),
    letters = [...name],
    costs = piecesOf(name).flatMap(([key, long]) => Array(long).fill(n - (times.get(key) || 0)));
  for (let out = 0; (out = letters.length - Math.max(Math.floor(room), 3) + 1) > 1; ) {
    const [start, end] = freeStretch(costs),
      free = end - start > 3;
    out = free ? Math.min(out, end - start - 2) : out;
    const at = free ? start + Math.floor((end - start - out) / 2) : cheapestCut(costs, out);
    letters.splice(at, out, "…");
    costs.splice(at, out, n);
  }
  return letters.join("");
};

let pen: CanvasRenderingContext2D | null = null;

/** The width of a text in letters of `size` pixels. */
export const textWidth = (text: string, size: number): number => {
  pen ||= document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
  pen.font = `${size}px system-ui, sans-serif`;
  return pen.measureText(text).width;
};

/** `width`: pixels that there is room for, in letters of `size` pixels. */
export const fitted = (name: string, width: number, size: number, names: string[]): string => {
  let short = name;
  for (let room = Math.ceil(width / (0.4 * size)); textWidth(short, size) > width; room--) {
    if (room < 3) break;
    short = squeezed(name, room, names);
  }
  return short;
};
