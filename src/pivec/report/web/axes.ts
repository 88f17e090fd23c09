// Axes of charts: round numbers, training steps, and labels that keep apart.

/** An axis from 0 to 1, and the round values to mark on it. */
export interface Axis {
  at: (value: number) => number;
  ticks: number[];
  /** Whether equal lengths are equal ratios. */
  log: boolean;
}

const MOST_RATIO = 1000, // of steps on a linear axis
  LEAST_RATIO = 20, // of steps on a logarithmic one
  CROWDED = 1 / 8, // of a linear axis: where half of the steps lie
  ROOM_FOR_ZERO = 0.08; // of a logarithmic axis

/** Round numbers from at or below one to at or above another. */
export const roundTicks = (low: number, high: number, most = 5): number[] => {
  const span = high - low || 1,
    power = 10 ** Math.floor(Math.log10(span / most));
  const size = ([1, 2, 2.5, 5].find((m) => m * power * most >= span * 0.999) || 10) * power,
    first = Math.floor(low / size + 1e-9);
  return Array.from({ length: Math.max(2, Math.ceil(high / size - 1e-9) - first + 1) }, (_, k) =>
    Number(((first + k) * size).toPrecision(12)),
  );
};

/** An axis of training steps: logarithmic if most of them would crowd at the left of a linear one. */
export const stepAxis = (steps: number[]): Axis => {
  const known = [...new Set(steps)].sort((a, b) => a - b),
    positive = known.filter((step) => step > 0);
  const first = known[0] ?? 0,
    last = known[known.length - 1] ?? 1,
    least = positive[0],
    ratio = last / least,
    middle = positive[Math.floor((positive.length - 1) / 2)];
  const log =
    first >= 0 && (ratio > MOST_RATIO || (ratio > LEAST_RATIO && middle < last * CROWDED));
  if (!log)
    return {
      at: (step) => (last > first ? (step - first) / (last - first) : 0.5),
      ticks: roundTicks(first, last).filter((tick) => tick >= first && tick <= last),
      log,
    };
  const zero = first < least ? ROOM_FOR_ZERO : 0,
    factors = ratio < 300 ? [1, 2, 5] : [1],
    ticks = zero ? [0] : [];
  for (let power = 10 ** Math.floor(Math.log10(least)); power <= last; power *= 10)
    for (const factor of factors)
      if (factor * power >= least && factor * power <= last) ticks.push(factor * power);
  return {
    at: (step) =>
      step < least
        ? (zero * step) / least
        : zero + ((1 - zero) * Math.log(step / least)) / Math.log(ratio),
    ticks,
    log,
  };
};

/** Move labels so that they keep a distance and stay in order; `low` to `high` is enough room. */
export const spread = (wanted: number[], gap: number, low: number, high: number): number[] => {
  const order = [...wanted.keys()].sort((i, j) => wanted[i] - wanted[j]),
    places = wanted.slice();
  // Labels that touch form a block, whose middle is that of what its labels want.
  const blocks: { from: number; n: number; start: number }[] = [];
  order.forEach((label, k) => {
    let block = { from: k, n: 1, start: wanted[label] };
    for (;;) {
      const room = (block.n - 1) * gap;
      block.start = Math.max(low, Math.min(high - room, block.start));
      const before = blocks[blocks.length - 1];
      if (!before || before.start + before.n * gap <= block.start) break;
      blocks.pop();
      const n = before.n + block.n;
      let sum = 0;
      for (let j = 0; j < n; j++) sum += wanted[order[before.from + j]] - j * gap;
      block = { from: before.from, n, start: sum / n };
    }
    blocks.push(block);
  });
  for (const { from, n, start } of blocks)
    for (let j = 0; j < n; j++) places[order[from + j]] = start + j * gap;
  return places;
};
