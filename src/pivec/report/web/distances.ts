// Distances of policies: those that Python measured, and of many policies squared distances of their points.
import type { Data } from "./data";
import { numbersOf } from "./data";
import { app } from "./state";

/** rows of whole numbers; distances are those of `step` times them, in squares */
export interface Points {
  /** row by row */
  codes: Uint8Array | Uint16Array;
  /** numbers of a row */
  width: number;
  step: number;
  /** columns of a point that the codes are of; the others do not vary */
  kept: Int32Array;
}
export interface Pair {
  /** without the noise of sampling where Python subtracted it; NaN where this file does not tell */
  distance: number;
  low: number;
  /** ends of the interval; NaN where they are not known */
  high: number;
  /** of "the same behaviour"; NaN where it is not known */
  p: number;
  /** whether chance explains the distance; null where that is not known */
  alike: boolean | null;
  /** share of time that both spend in the same places */
  overlap: number;
}
export interface Measurer {
  /** distance of two policies */
  between: (i: number, j: number) => number;
  pair: (i: number, j: number) => Pair;
  /** others, the nearest first */
  nearest: (i: number, k: number) => { row: number; distance: number }[];
  /** distances of these rows to each other, row by row */
  block: (rows: Int32Array | number[]) => Float32Array;
  /** whether all distances are known, and not those of near policies alone */
  complete: boolean;
  /** whether some pairs are known to be alike or different */
  sure: boolean;
  /** what is assumed, or left out for want of room */
  words: string;
}

/** Returns makes it once for the data now shown. */
export const perData = <T>(make: (data: Data) => Promise<T>): (() => Promise<T>) => {
  let last: { data: Data; made: Promise<T> } | null = null;
  return () => {
    if (!last || last.data !== app.data) last = { data: app.data, made: make(app.data) };
    return last.made;
  };
};

/** `columns`: packed ones by their names; others stay as they are. */
export const unpackAll = async (columns: any): Promise<any> =>
  columns &&
  Object.fromEntries(
    await Promise.all(
      Object.entries<any>(columns).map(async ([name, column]) => [
        name,
        column?.data ? await numbersOf(column) : column,
      ]),
    ),
  );

/** The points, row by row; null if the file has none. */
export const pointsOf: () => Promise<Points | null> = perData(async (data) => {
  const made = await unpackAll(data.blob.points);
  return (
    made && {
      ...made,
      width: made.kept.length,
      codes: transposed(made.codes, data.n, made.kept.length),
    }
  );
});

/** `columns`: numbers column by column; returns row by row. */
export const transposed = (columns: any, n: number, width: number): any => {
  const rows = new columns.constructor(n * width);
  for (let first = 0; first < n; first += 64) {
    // few rows at a time stay at hand
    const last = Math.min(first + 64, n);
    for (let c = 0; c < width; c++)
      for (let i = first, from = c * n + first; i < last; i++)
        rows[i * width + c] = columns[from++];
  }
  return rows;
};

const squared = ({ codes, width, step }: Points, i: number, j: number) => {
  let a = i * width,
    b = j * width,
    p = 0,
    q = 0,
    r = 0,
    s = 0;
  const end = a + width;
  for (; a + 3 < end; a += 4, b += 4) {
    // four sums do not wait for each other
    const t = codes[a] - codes[b],
      u = codes[a + 1] - codes[b + 1],
      v = codes[a + 2] - codes[b + 2],
      w = codes[a + 3] - codes[b + 3];
    p += t * t;
    q += u * u;
    r += v * v;
    s += w * w;
  }
  for (; a < end; a++, b++) p += (codes[a] - codes[b]) ** 2;
  return (p + q + r + s) * step * step;
};

/** `columns`: of a region; `n`: regions; returns squared distances in each region. */
export const squaredByRegion = (
  { codes, width, step, kept }: Points,
  columns: number,
  n: number,
  i: number,
  j: number,
): Float64Array => {
  const sums = new Float64Array(n);
  for (let c = 0; c < width; c++)
    sums[Math.floor(kept[c] / columns)] +=
      ((codes[i * width + c] - codes[j * width + c]) * step) ** 2;
  return sums;
};

export const measurer: () => Promise<Measurer> = perData(async (data) => {
  const points = await pointsOf(),
    { n } = data;
  const [pairs, listed, near] = await Promise.all(
    ["pairs", "listed", "near"].map((name) => unpackAll(data.blob[name])),
  );
  const complete = Boolean(points || pairs),
    sure = Boolean((pairs || listed)?.alike);
  /** Where a pair is in the upper triangle. */
  const place = (i: number, j: number) =>
    i < j ? (i * (2 * n - i - 1)) / 2 + j - i - 1 : (j * (2 * n - j - 1)) / 2 + i - j - 1;
  const places = new Map(
    listed ? Array.from(listed.i as Int32Array, (i, k) => [place(i, listed.j[k]), k]) : [],
  );
  /** May be below 0 by chance, where the noise that was subtracted is larger than a distance. */
  const estimate = (i: number, j: number): number => {
    if (i === j) return 0;
    if (pairs) return pairs.distance[place(i, j)];
    if (points) return squared(points, i, j);
    for (const [a, b] of near
      ? [
          [i, j],
          [j, i],
        ]
      : []) {
      const at = near.rows.subarray(a * near.k, (a + 1) * near.k).indexOf(b);
      if (at >= 0) return near.distances[a * near.k + at];
    }
    return NaN;
  };
  const between = (i: number, j: number) => Math.max(estimate(i, j), 0);
  const pair = (i: number, j: number): Pair => {
    if (i === j) return { distance: 0, low: 0, high: 0, p: 1, alike: true, overlap: 1 };
    const known = pairs || listed,
      at = pairs ? place(i, j) : places.get(place(i, j));
    const result: Pair = {
      distance: between(i, j),
      low: NaN,
      high: NaN,
      p: NaN,
      alike: null,
      overlap: NaN,
    };
    if (!known || at === undefined) return result;
    result.distance = Math.max(known.distance[at], 0);
    if (known.low)
      Object.assign(result, { low: known.low[at], high: known.high[at], p: known.p[at] });
    if (known.alike && known.alike[at] < 2) result.alike = known.alike[at] === 1;
    if (known.overlap && known.overlap[at] < 65535) result.overlap = known.overlap[at] / 65534;
    return result;
  };
  const nearest = (i: number, k: number) => {
    const best: { row: number; distance: number }[] = [];
    const offer = (row: number) => {
      const distance = estimate(i, row);
      if (
        row === i ||
        Number.isNaN(distance) ||
        (best.length === k && distance >= best[k - 1].distance)
      )
        return;
      let at = Math.min(best.length, k - 1);
      for (; at && best[at - 1].distance > distance; at--) best[at] = best[at - 1];
      best[at] = { row, distance };
    };
    if (complete) for (let row = 0; row < n; row++) offer(row);
    else if (near) near.rows.subarray(i * near.k, (i + 1) * near.k).forEach(offer);
    return best.map(({ row, distance }) => ({ row, distance: Math.max(distance, 0) }));
  };
  const block = (rows: Int32Array | number[]) => {
    const m = rows.length,
      values = new Float32Array(m * m);
    for (let a = 0; a < m; a++)
      for (let b = a + 1; b < m; b++)
        values[a * m + b] = values[b * m + a] = between(rows[a], rows[b]);
    return values;
  };
  return { between, pair, nearest, block, complete, sure, words: data.blob.words };
});
