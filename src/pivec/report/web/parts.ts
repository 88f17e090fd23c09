// The parts of the distance of two policies: as Python decomposed it, or squared distances of points in each region.
import { numbersOf, textsOf } from "./data";
import { perData, pointsOf, squaredByRegion, transposed, unpackAll } from "./distances";
import { app } from "./state";

/** of a feature, of both policies; `flag`: it is so or not */
export type Means = {
  name: string;
  unit: string;
  flag?: boolean;
  a: number;
  b: number;
  noise?: boolean;
};
/** a region of states, or several that are similar */
export interface Part {
  /** their numbers, of several that are merged the largest first */
  regions: number[];
  /** that describe it */
  words: string;
  /** of the distance */
  part: number;
  /** of its time that the first policy spends there; NaN where not known */
  shareA: number;
  shareB: number;
  /** that differ most there; empty where only points are known */
  features: Means[];
  /** whether chance may explain it */
  noise?: boolean;
  /** ends of the intervals of both shares */
  spans?: number[][];
}
export interface Differences {
  /** the distance, with the noise of sampling: the sum of all parts */
  measured: number;
  /** the largest first */
  parts: Part[];
  /** over all of the time */
  averages: Means[];
  /** what is assumed */
  words: string;
  /** that separate both, with their shares of time */
  rules: { where: string; a: number; b: number }[];
  /** whether noise is marked */
  sure: boolean;
  /** how many regions are left out, and the sum of their parts */
  otherParts?: [number, number];
  /** how many features are left out of the averages */
  otherAverages?: number;
}
/** how much time two policies spend in bins of a feature */
export interface Spread {
  name: string;
  unit: string;
  flag?: boolean;
  /** the first and the last bin are open */
  edges: number[];
  a: ArrayLike<number>;
  b: ArrayLike<number>;
}

const regionsOf = perData(async (data) => {
  const { words, ...columns } = data.blob.regions,
    made = await unpackAll(columns);
  made.words = await textsOf(words);
  for (const name of ["shares", "low", "high"])
    if (made[name]) made[name] = transposed(made[name], data.n, made.words.length);
  return made;
});

/** Returns the same from the second policy to the first. */
const swapped = (found: Differences): Differences => {
  const turn = (f: Means) => ({ ...f, a: f.b, b: f.a });
  const parts = found.parts.map((part) => ({
    ...part,
    shareA: part.shareB,
    shareB: part.shareA,
    spans: part.spans && [...part.spans].reverse(),
    features: part.features.map(turn),
  }));
  return {
    ...found,
    parts,
    averages: found.averages.map(turn),
    rules: found.rules.map((rule) => ({ ...rule, a: rule.b, b: rule.a })),
  };
};

/** Why `differences` gives null for the data now shown. */
export const whyNoParts = () =>
  app.data.blob.regions
    ? "There are too many policies for this file to contain what differs; pivec serve OUT shows it."
    : "This file does not contain what differs between these two; pivec explain and pivec serve show it if the characterization decomposes distances.";

/** Returns null where this file does not know. */
export const differences = async (i: number, j: number): Promise<Differences | null> => {
  const { blob, features } = app.data;
  const known = blob.decompositions.find(
    ({ rows: [a, b] }: any) => (a === i && b === j) || (a === j && b === i),
  );
  if (known) return known.rows[0] === i ? known : swapped(known);
  const points = await pointsOf();
  if (!blob.regions || !points) return null;
  const { words, shares, low, high, width } = await regionsOf(),
    n = words.length;
  const of = (values: any, row: number, region: number) =>
    values ? values[row * n + region] / 65535 : NaN;
  const sizes = squaredByRegion(points, width, n, i, j);
  const parts = words.map((said: string, region: number) => ({
    regions: [region],
    words: said,
    part: sizes[region],
    shareA: of(shares, i, region),
    shareB: of(shares, j, region),
    // A low end above the high one: the interval is not known.
    spans: low && high && [i, j].map((row) => [of(low, row, region), of(high, row, region)]),
    features: [],
  }));
  parts.sort((a: Part, b: Part) => b.part - a.part);
  return {
    measured: sizes.reduce((sum, part) => sum + part, 0),
    parts,
    sure: false,
    words: "",
    rules: [],
    averages: features.map(({ values, ...named }) => ({ ...named, a: values[i], b: values[j] })),
  };
};

export type Spreads = {
  features: Spread[];
  /** what was left out */
  words: string;
};

const sharesOf = perData(async (data) => {
  const { features, shares } = data.blob.spreads,
    columns: Uint16Array[] = await Promise.all(shares.map(numbersOf));
  return (row: number, f: number) => {
    const bins = features[f].edges.length - 1;
    return Float64Array.from(columns[f].subarray(row * bins, (row + 1) * bins), (x) => x / 65535);
  };
});

const sum = (values: ArrayLike<number>) => Array.from(values).reduce((a, b) => a + b, 0);

/** Returns the spreads of two policies, −1: of all together; those first that differ most. */
export const spreadsOf = async (i: number, j: number): Promise<Spreads> => {
  const { blob, n } = app.data;
  if (!blob.spreads) return { features: [], words: "" };
  const shares = await sharesOf();
  const every = (f: number) => {
    const mean = new Float64Array(blob.spreads.features[f].edges.length - 1);
    let known = 0;
    for (let row = 0; row < n; row++) {
      const own = shares(row, f);
      if (sum(own) > 0) known++;
      own.forEach((x, k) => (mean[k] += x));
    }
    return mean.map((x) => x / (known || 1));
  };
  const found = blob.spreads.features.map((feature: any, f: number) => ({
    ...feature,
    a: shares(i, f),
    b: j < 0 ? every(f) : shares(j, f),
  }));
  // Policies whose states are not stored have no shares.
  const features = found.filter(({ a, b }: Spread) => sum(a) > 0 && sum(b) > 0);
  return { features: ordered(features), words: blob.spreads.words };
};

/** Put those first that differ most. */
export const ordered = (spreads: Spread[]): Spread[] => {
  const apart = ({ a, b }: Spread) => sum(Array.from(a, (x, k) => Math.abs(x - b[k])));
  return [...spreads].sort((x, y) => apart(y) - apart(x));
};
