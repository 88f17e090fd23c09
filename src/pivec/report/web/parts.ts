// The parts of the distance of two policies: as Python decomposed it, or squared distances of points in each region.
import { textsOf } from "./data";
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
}

const regionsOf = perData(async (data) => {
  const { words, ...columns } = data.blob.regions,
    made = await unpackAll(columns);
  made.words = await textsOf(words);
  if (made.shares) made.shares = transposed(made.shares, data.n, made.words.length);
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
    ? "There are too many policies for this file to hold what differs; pivec serve OUT tells."
    : "This file does not hold what differs between these two: pivec explain and pivec serve tell, if the characterization decomposes distances.";

/** Returns null where this file does not know. */
export const differences = async (i: number, j: number): Promise<Differences | null> => {
  const { blob, features } = app.data;
  const known = blob.decompositions.find(
    ({ rows: [a, b] }: any) => (a === i && b === j) || (a === j && b === i),
  );
  if (known) return known.rows[0] === i ? known : swapped(known);
  const points = await pointsOf();
  if (!blob.regions || !points) return null;
  const { words, shares, width } = await regionsOf(),
    n = words.length;
  const share = (row: number, region: number) => (shares ? shares[row * n + region] / 65535 : NaN);
  const sizes = squaredByRegion(points, width, n, i, j);
  const parts = words.map((said: string, region: number) => ({
    regions: [region],
    words: said,
    part: sizes[region],
    shareA: share(i, region),
    shareB: share(j, region),
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
