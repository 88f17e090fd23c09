// Small charts in SVG, as wide as their place. Positions are percentages, and all text is HTML, so
// that neither lines nor letters are stretched.
import type { ComponentChildren } from "preact";

/** A place on an axis, from 0 to 1, and its label. */
export type Tick = { at: number; label: string };

/** A line; NaN leaves a gap. */
export interface Series {
  colour: string;
  /** from 0 to 1 */
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  /** ends of intervals */
  low?: ArrayLike<number>;
  high?: ArrayLike<number>;
  /** of the policies at the points: these can be pointed at and selected */
  rows?: ArrayLike<number>;
  /** of the run */
  run?: number;
}

const MOST_POINTS = 60; // of a line; the points of a longer one would hide it

/** Returns round numbers within a range, about as many as wanted. */
export const roundTicks = (low: number, high: number, wanted = 4): number[] => {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / wanted)),
    step = [1, 2, 5, 10]
      .map((k) => k * power)
      .find((size) => size * wanted >= span * 0.999) as number;
  const first = Math.ceil(low / step - 1e-9),
    last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, k) =>
    Number(((first + k) * step).toPrecision(12)),
  );
};

/** Returns which of so many places have a label: the first, the last, and some evenly between. */
export const evenPlaces = (n: number, most: number): number[] => {
  const count = Math.min(n, most);
  return Array.from({ length: count }, (_, k) =>
    count < 2 ? 0 : Math.round((k * (n - 1)) / (count - 1)),
  );
};

const place = (share: number) => `${(100 * share).toFixed(2)}%`;

/** Labels below or above a chart; those at the ends stay within it. */
export const Axis = ({ ticks }: { ticks: Tick[] }) => (
  <div class="axis" aria-hidden="true">
    {ticks.map(({ at, label }) => (
      <span
        key={label}
        class={at <= 0.02 ? "first" : at >= 0.98 ? "last" : ""}
        style={{ left: place(at) }}
      >
        {label}
      </span>
    ))}
  </div>
);

const Grid = ({ at }: { at: number[] }) => (
  <>
    {at.map((share) => (
      <line key={share} class="grid" x1={place(share)} x2={place(share)} y1="0" y2="100%" />
    ))}
  </>
);

/** The values of A and B on a line from 0 to 1, with their intervals; `pale`: may be chance. */
export const Dumbbell = ({
  values,
  spans,
  pale = false,
}: {
  values: number[];
  spans?: number[][];
  pale?: boolean;
}) => {
  const [a, b] = values.map(place),
    lanes = [6, 13];
  return (
    <svg class={`dumbbell ${pale ? "pale" : ""}`} aria-hidden="true">
      <Grid at={[0, 0.25, 0.5, 0.75, 1]} />
      <line class="join" x1={a} x2={b} y1={lanes[0]} y2={lanes[1]} />
      {spans?.map(
        ([low, high], side) =>
          low <= high && (
            <line
              key={"ab"[side]}
              class={`whisker ${"ab"[side]}`}
              x1={place(low)}
              x2={place(high)}
              y1={lanes[side]}
              y2={lanes[side]}
            />
          ),
      )}
      {[a, b].map((cx, side) => (
        <circle key={"ab"[side]} class={"ab"[side]} cx={cx} cy={lanes[side]} r="4" />
      ))}
    </svg>
  );
};

/** A value with its interval on a line from 0 to `end`. */
export const Ruler = ({
  value,
  low,
  high,
  end,
}: {
  value: number;
  low: number;
  high: number;
  end: number;
}) => {
  const at = (x: number) => place(Math.min(Math.max(x / end, 0), 1));
  return (
    <svg class="ruler" aria-hidden="true">
      <line class="grid" x1="0" x2="100%" y1="8" y2="8" />
      <Grid at={[0, 1]} />
      {low <= high && <line class="whisker" x1={at(low)} x2={at(high)} y1="8" y2="8" />}
      <circle cx={at(value)} cy="8" r="4.5" />
    </svg>
  );
};

/** Points of a path in a box of 100 × 100; it begins anew after what is not known. */
const pathOf = (points: number[][]): string => {
  let pen = "M";
  return points
    .map(([x, y]) => {
      if (Number.isNaN(x + y)) {
        pen = "M";
        return "";
      }
      const piece = `${pen}${(100 * x).toFixed(2)} ${(100 - 100 * y).toFixed(2)}`;
      pen = "L";
      return piece;
    })
    .join("");
};

/** Paths that fill a chart, whatever its shape. */
const Stretched = ({ children }: { children: ComponentChildren }) => (
  <svg
    viewBox="0 0 100 100"
    preserveAspectRatio="none"
    width="100%"
    height="100%"
    aria-hidden="true"
  >
    {children}
  </svg>
);

/** The steps of a histogram in a box of 100 × 100; `most`: the share at its top. */
export const stepsOf = (edges: number[], shares: ArrayLike<number>, most: number): string => {
  const low = edges[0],
    span = edges[edges.length - 1] - low || 1,
    points = [[0, 0]];
  for (let k = 0; k < edges.length - 1; k++)
    for (const edge of [edges[k], edges[k + 1]])
      points.push([(edge - low) / span, shares[k] / most]);
  return pathOf([...points, [1, 0]]);
};

/** Histograms on top of each other; the same bins and the same scale for all. */
export const Histogram = ({
  edges,
  sides,
  label,
}: {
  edges: number[];
  sides: { name: string; shares: ArrayLike<number> }[];
  label: string;
}) => {
  const most = Math.max(...sides.flatMap(({ shares }) => Array.from(shares)), 1e-9);
  return (
    <svg class="histogram" role="img" aria-label={label}>
      <Stretched>
        {sides.map(({ name, shares }) => (
          <path key={name} class={name} d={stepsOf(edges, shares, most)} />
        ))}
      </Stretched>
    </svg>
  );
};

/** Lines with bands and points above an axis; `columns`: each place of the first line is a target. */
export const LineChart = ({
  series,
  low,
  high,
  xTicks,
  yTicks,
  label,
  height = 64,
  columns = false,
}: {
  series: Series[];
  low: number;
  high: number;
  xTicks: Tick[];
  yTicks: Tick[];
  label: string;
  height?: number;
  columns?: boolean;
}) => {
  const share = (y: number) => (y - low) / (high - low || 1),
    [first] = series,
    at = Array.from(first?.x ?? []);
  return (
    <div class="line-chart">
      <div class="scale-labels" style={{ height }} aria-hidden="true">
        {yTicks.map(({ at: up, label: words }) => (
          <span key={words} style={{ bottom: place(up) }}>
            {words}
          </span>
        ))}
      </div>
      <svg style={{ height }} role="img" aria-label={label}>
        {yTicks.map(({ at: up }) => (
          <line key={up} class="grid" x1="0" x2="100%" y1={place(1 - up)} y2={place(1 - up)} />
        ))}
        <Stretched>
          {series.map(({ colour, x, y, low: lower, high: upper, run }, s) => {
            const places = Array.from(x, (_, k) => k),
              through = (side: ArrayLike<number>, these = places) =>
                pathOf(these.map((k) => [x[k], share(side[k])]));
            const known = lower && upper ? places.filter((k) => lower[k] <= upper[k]) : [],
              back = [...known].reverse();
            const band =
              known.length > 1 && through(lower!, known) + through(upper!, back).replace("M", "L");
            return (
              <g key={s} data-run={run} style={{ color: colour }}>
                {band && <path class="band" d={band} />}
                <path class="line" d={through(y)} />
              </g>
            );
          })}
        </Stretched>
        {series.map(
          ({ colour, x, y, rows }, s) =>
            x.length <= MOST_POINTS &&
            Array.from(x, (at, k) =>
              Number.isFinite(y[k]) ? (
                <circle
                  key={`${s} ${k}`}
                  style={{ color: colour }}
                  cx={place(at)}
                  cy={place(1 - share(y[k]))}
                  r="3"
                  data-row={columns ? undefined : rows?.[k]}
                />
              ) : null,
            ),
        )}
        {columns &&
          at.map((x, k) => {
            const from = k ? (at[k - 1] + x) / 2 : 0,
              to = k < at.length - 1 ? (x + at[k + 1]) / 2 : 1;
            const row = first.rows?.[k];
            return (
              <rect
                key={row}
                class="column"
                data-row={row}
                x={place(from)}
                width={place(to - from)}
                height="100%"
              />
            );
          })}
      </svg>
      <div />
      <Axis ticks={xTicks} />
    </div>
  );
};
