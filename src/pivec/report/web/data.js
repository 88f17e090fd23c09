// What is known of all policies: columns unpacked from the text in the page.

/**
 * @typedef {{type: string, data: string}} Packed
 * @typedef {Uint8Array | Uint16Array | Int32Array | Float32Array | Float64Array} Numbers
 * @typedef {{group: number, rows: number[], cumulative: number[], half: number[] | null}} Travel the distance along a run
 * @typedef {{name: string, unit: string, flag?: boolean, values: Float32Array}} Feature mean of a feature of the states, a number a policy
 * @typedef {object} Data a row a policy; NaN where something is not known
 * @property {any} blob as it came; what is needed later is unpacked from it by `numbersOf`
 * @property {number} n
 * @property {string[]} label
 * @property {string[]} source
 * @property {Int32Array} group number of its run, −1 without
 * @property {Float64Array} step
 * @property {Float32Array} x
 * @property {Float32Array} y
 * @property {Float32Array} returns
 * @property {Float32Array} deviation of the returns
 * @property {Int32Array} episodes
 * @property {Float64Array} states
 * @property {Int32Array} behaviour class of policies that behave alike, from 1; 0 without
 * @property {Uint8Array} reference 1 for policies of an earlier space
 * @property {Uint8Array} placed 1 for policies that came after the space was fitted
 * @property {Int32Array} order rows by run and step
 * @property {string[]} groups names of runs
 * @property {string[]} groupColours
 * @property {Int32Array[]} runs rows of each run of two or more checkpoints, in order of training
 * @property {Int32Array} joins pairs that cannot be distinguished, two rows each
 * @property {Travel[]} travels
 * @property {Feature[]} features
 * @property {Int32Array} heatmapOrder rows, alike beside alike; by run and step where these are too many to tell
 */

/** @type {Record<string, any>} */
const KINDS = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

/** @param {string} text base64 of a deflated content @returns {Promise<ArrayBuffer>} */
const inflated = (text) => {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
};

/** @param {Packed} column the first bytes of all numbers, then the second bytes @returns {Promise<any>} numbers of the column's type */
export const numbersOf = async (column) => {
  const planes = new Uint8Array(await inflated(column.data)), kind = KINDS[column.type], size = kind.BYTES_PER_ELEMENT;
  if (size === 1) return planes;
  const bytes = new Uint8Array(planes.length), n = planes.length / size;
  for (let k = 0, from = 0; k < size; k++) for (let i = 0, to = k; i < n; i++, to += size) bytes[to] = planes[from++];
  return new kind(bytes.buffer);
};

/** @param {Packed} column @returns {Promise<string[]>} */
export const textsOf = async (column) => new TextDecoder().decode(await inflated(column.data)).split("\n");

/** @param {any} blob `page_data` of report/script_data.py @returns {Promise<Data>} */
export const unpack = async (blob) => {
  const names = Object.keys(blob.columns);
  /** @type {any} */
  const data = { blob, n: blob.n, groups: blob.groups, groupColours: blob.groupColours, travels: blob.travels };
  await Promise.all(names.map(async (name) => {
    const column = blob.columns[name];
    data[name === "return" ? "returns" : name] = await (column.type === "text" ? textsOf(column) : numbersOf(column));
  }));
  data.joins = await numbersOf(blob.joins);
  data.heatmapOrder = await numbersOf(blob.heatmapOrder);
  data.features = await Promise.all((blob.features || []).map(async (/** @type {any} */ f) => ({ ...f, values: await numbersOf(f.values) })));
  data.runs = runsOf(data);
  return data;
};

/** @param {Data} data @returns {Int32Array[]} */
const runsOf = (data) => {
  /** @type {number[][]} */
  const runs = data.groups.map(() => []);
  for (const i of data.order) if (data.group[i] >= 0 && !data.reference[i] && !Number.isNaN(data.step[i])) runs[data.group[i]].push(i);
  return runs.filter((rows) => rows.length > 1).map((rows) => Int32Array.from(rows));
};
