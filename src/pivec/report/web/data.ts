// What is known of all policies: columns unpacked from the text in the page.

export type Packed = { type: string; data: string };
export type Numbers = Uint8Array | Uint16Array | Int32Array | Float32Array | Float64Array;
/** the distance along a run */
export type Travel = { group: number; rows: number[]; cumulative: number[]; half: number[] | null };
/** mean of a feature of the states, a number a policy */
export type Feature = { name: string; unit: string; flag?: boolean; values: Float32Array };
/** mean of a number per episode, with the ends of its interval */
export type Outcome = Feature & { rate: boolean; low: Float32Array; high: Float32Array };
/** a row a policy; NaN where something is not known */
export interface Data {
  /** as it came; what is needed later is unpacked from it by `numbersOf` */
  blob: any;
  n: number;
  label: string[];
  source: string[];
  /** number of its run, −1 without */
  group: Int32Array;
  step: Float64Array;
  x: Float32Array;
  y: Float32Array;
  returns: Float32Array;
  /** of the returns */
  deviation: Float32Array;
  episodes: Int32Array;
  states: Float64Array;
  /** class of policies that behave alike, from 1; 0 without */
  behaviour: Int32Array;
  /** 1 for policies of an earlier space */
  reference: Uint8Array;
  /** 1 for policies that came after the space was fitted */
  placed: Uint8Array;
  /** When each policy joined a served page; null in a file. */
  rounds: Int32Array | null;
  /** rows by run and step */
  order: Int32Array;
  /** names of runs */
  groups: string[];
  groupColours: string[];
  /** rows of each run of two or more checkpoints, in order of training */
  runs: Int32Array[];
  /** pairs that cannot be distinguished, two rows each */
  joins: Int32Array;
  travels: Travel[];
  features: Feature[];
  outcomes: Outcome[];
  /** rows, alike beside alike; by run and step where these are too many to tell */
  heatmapOrder: Int32Array;
}

const KINDS: Record<string, any> = {
  u1: Uint8Array,
  u2: Uint16Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
};

/** `text`: base64 of a deflated content. */
const inflated = (text: string): Promise<ArrayBuffer> => {
  const binary = atob(text),
    bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Response(
    new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")),
  ).arrayBuffer();
};

/** `column`: the first bytes of all numbers, then the second bytes; returns numbers of the column's type. */
export const numbersOf = async (column: Packed): Promise<any> => {
  const planes = new Uint8Array(await inflated(column.data)),
    kind = KINDS[column.type],
    size = kind.BYTES_PER_ELEMENT;
  if (size === 1) return planes;
  const bytes = new Uint8Array(planes.length),
    n = planes.length / size;
  for (let k = 0, from = 0; k < size; k++)
    for (let i = 0, to = k; i < n; i++, to += size) bytes[to] = planes[from++];
  return new kind(bytes.buffer);
};

export const textsOf = async (column: Packed): Promise<string[]> =>
  new TextDecoder().decode(await inflated(column.data)).split("\n");

/** `blob`: `page_data` of report/script_data.py. */
export const unpack = async (blob: any): Promise<Data> => {
  const names = Object.keys(blob.columns);
  const data: any = {
    blob,
    n: blob.n,
    groups: blob.groups,
    groupColours: blob.groupColours,
    travels: blob.travels,
  };
  await Promise.all(
    names.map(async (name) => {
      const column = blob.columns[name];
      data[name === "return" ? "returns" : name] = await (column.type === "text"
        ? textsOf(column)
        : numbersOf(column));
    }),
  );
  data.joins = await numbersOf(blob.joins);
  data.rounds = blob.added ? await numbersOf(blob.added.rounds) : null;
  data.heatmapOrder = await numbersOf(blob.heatmapOrder);
  data.features = await Promise.all(
    (blob.features || []).map(async (f: any) => ({ ...f, values: await numbersOf(f.values) })),
  );
  data.outcomes = await Promise.all(
    (blob.outcomes || []).map(async (o: any) => {
      const [values, low, high] = await Promise.all([o.values, o.low, o.high].map(numbersOf));
      return { ...o, unit: "", flag: o.rate, values, low, high };
    }),
  );
  data.runs = runsOf(data);
  return data;
};

const runsOf = (data: Data): Int32Array[] => {
  const runs: number[][] = data.groups.map(() => []);
  for (const i of data.order)
    if (data.group[i] >= 0 && !data.reference[i] && !Number.isNaN(data.step[i]))
      runs[data.group[i]].push(i);
  return runs.filter((rows) => rows.length > 1).map((rows) => Int32Array.from(rows));
};
