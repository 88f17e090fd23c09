// Squares of distances, measured in slices so that nothing freezes, and their colours.
import type { Measurer } from "../distances";

/** a square part of all pairs: its first column and line among the rows, and how many */
export type Sight = { x: number; y: number; size: number };
/** distances of some rows (from top to bottom) to some (from left to right) */
export interface Tile {
  /** first of the columns among all rows */
  x: number;
  y: number;
  /** how many rows a cell stands for */
  every: number;
  /** rows of the data */
  columns: Int32Array;
  lines: Int32Array;
  /** line by line, NaN where not known */
  values: Float32Array;
  /** 1 for pairs that cannot be distinguished; empty if not requested */
  alike: Uint8Array;
  /** a pixel a cell */
  image: HTMLCanvasElement;
}

const MOST_CELLS = 300,
  SLICE = 10; // cells of a side; ms of work at a time
// magma of matplotlib, as in distances.png.
const MAGMA = "000004 120d31 331067 59157e 7e2482 a3307e c83e73 e95462 f97b5d fea973 fed395 fcfdbf"
  .split(" ")
  .map((hex) => "#" + hex);

/** Returns one in so many rows is shown. */
export const everyOf = (size: number): number => Math.max(1, Math.ceil(size / MOST_CELLS));

/** `rows`: in their order; `dropped`: whether nobody waits any more; returns null then. */
export const measureTile = async (
  measuring: Measurer,
  rows: Int32Array,
  sight: Sight,
  asksAlike: boolean,
  dropped: () => boolean,
): Promise<Tile | null> => {
  const every = everyOf(sight.size),
    [x, y] = [sight.x, sight.y].map((at) => Math.floor(at / every) * every); // the same rows while it is dragged
  const [columns, lines] = [x, y].map((from) =>
      rows.slice(from, from + sight.size + 2 * every).filter((_, k) => k % every === 0),
    ),
    wide = columns.length;
  const values = new Float32Array(wide * lines.length),
    alike = new Uint8Array(asksAlike ? values.length : 0),
    image = document.createElement("canvas");
  let began = performance.now();
  for (let r = 0; r < lines.length; r++) {
    for (let c = 0; c < wide; c++) {
      const at = r * wide + c,
        back = x === y && c < r ? c * wide + r : -1,
        i = lines[r],
        j = columns[c];
      values[at] = back < 0 ? measuring.between(i, j) : values[back];
      if (asksAlike)
        alike[at] = back < 0 ? Number(i !== j && measuring.pair(i, j).alike === true) : alike[back];
    }
    if (performance.now() - began < SLICE) continue;
    await new Promise((done) => {
      setTimeout(done);
    });
    if (dropped()) return null;
    began = performance.now();
  }
  image.width = wide;
  image.height = lines.length;
  return { x, y, every, columns, lines, values, alike, image };
};

/** Returns the end of the scale: the 99th percentile where few are far beyond; and the largest. NaN where nothing is known. */
export const limitOf = ({ values, lines, columns }: Tile): { limit: number; most: number } => {
  const known = values
      .filter(
        (value, at) =>
          value >= 0 && lines[Math.floor(at / columns.length)] !== columns[at % columns.length],
      )
      .sort(),
    n = known.length;
  const place = 0.99 * (n - 1),
    low = Math.floor(place),
    most = known[n - 1],
    high = known[low] + (place - low) * ((known[low + 1] ?? most) - known[low]);
  return { limit: most === 0 ? 1 : high > 0 && high < 0.5 * most ? high : (most ?? NaN), most };
};

/** Returns colours from near to far: far stands out from the paper. */
export const distanceScale = (dark: boolean): string[] => (dark ? MAGMA : [...MAGMA].reverse());

/** `tile`: gets its colours; `unknown`: colour. */
export const colourTile = (
  { image, values, alike }: Tile,
  limit: number,
  dark: boolean,
  unknown: string,
) => {
  const rgb = [...distanceScale(dark), unknown].map((hex) =>
    [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)),
  );
  const last = MAGMA.length - 1,
    pen = image.getContext("2d") as CanvasRenderingContext2D,
    pixels = pen.createImageData(image.width, image.height);
  values.forEach((value, at) => {
    const t = Math.min(1, value / limit) * last,
      low = Math.min(last - 1, Math.floor(t));
    for (let k = 0; k < 3; k++)
      pixels.data[4 * at + k] =
        t >= 0 ? rgb[low][k] + (t - low) * (rgb[low + 1][k] - rgb[low][k]) : rgb[last + 1][k];
    pixels.data[4 * at + 3] = alike[at] ? 0 : 255; // the hatch below shows through
  });
  pen.putImageData(pixels, 0, 0);
};
