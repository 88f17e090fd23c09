// The tab of runs: the distance travelled along each, and how far apart they end.
import { render } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { roundTicks, spread, stepAxis } from "./axes";
import { groupColour } from "./colours";
import type { Travel } from "./data";
import { type Measurer, type Pair, perData, unpackAll } from "./distances";
import { RunName } from "./entities";
import { byId, number, shortStep, whole } from "./format";
import { heatmapIn } from "./heatmap/heatmap";
import { fitted, textWidth } from "./names";
import { app, set, state, useApp, useResult } from "./state";

const MOST_LINES = 300, // that an SVG holds without delay
  MOST_DOTS = 2000,
  LEFT = 46,
  TOP = 10,
  BELOW = 40;

/** The size of an element, as it changes. */
const useSize = () => {
  const box = useRef<HTMLDivElement>(null),
    [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const look = () => {
      const { clientWidth: width, clientHeight: height } = box.current!;
      setSize((now) => (now.width === width && now.height === height ? now : { width, height }));
    };
    const observer = new ResizeObserver(look);
    observer.observe(box.current!);
    look();
    return () => observer.disconnect();
  }, []);
  return { box, ...size };
};

type Line = Travel & { x: number[]; y: number[]; n: number };

const nameOf = (group: number, groups: string[]) => groups[group] ?? "no run";

/** The runs that are shown, and where their checkpoints are in a chart of this size. */
const layOut = (width: number, height: number) => {
  const { travels, step, groups } = app.data;
  const shown = travels.filter(({ group, rows }) => {
      const alone = group < 0 || !state.hidden.has(group);
      return alone && rows.some((i) => state.shown[i]);
    }),
    total = ({ cumulative }: Travel) => cumulative[cumulative.length - 1];
  const drawn = [...shown].sort((p, q) => total(q) - total(p)).slice(0, MOST_LINES),
    picked = shown.find(({ group }) => group === state.run);
  if (picked && !drawn.includes(picked)) drawn.push(picked);
  const longest = Math.max(28, ...drawn.map(({ group }) => textWidth(nameOf(group, groups), 12))),
    names = Math.min(150, Math.max(40, 0.3 * width), longest + 28),
    right = width - names,
    floor = height - BELOW;
  const axis = stepAxis(drawn.flatMap(({ rows }) => rows.map((i) => step[i]))),
    most = Math.max(
      0,
      ...drawn.flatMap(({ cumulative, half }) => cumulative.map((c, k) => c + (half?.[k] ?? 0))),
    ),
    ticks = roundTicks(0, most || 1, Math.max(2, Math.floor(height / 55))),
    top = ticks[ticks.length - 1];
  const xOf = (at: number) => LEFT + axis.at(at) * (right - LEFT - 8),
    yOf = (far: number) => floor - (far / top) * (floor - TOP);
  const lines: Line[] = drawn.map((run) => ({
    ...run,
    x: run.rows.map((i) => xOf(step[i])),
    y: run.cumulative.map(yOf),
    n: run.rows.filter((i) => step[i] <= state.upTo).length,
  }));
  return { lines, shown: shown.length, axis, ticks, xOf, yOf, right, floor, names };
};

type Layout = ReturnType<typeof layOut>;

const pointsOf = (x: number[], y: number[]) =>
  x.map((px, k) => `${px.toFixed(1)},${y[k].toFixed(1)}`);

const RunLine = ({ line, yOf, dots }: { line: Line; yOf: Layout["yOf"]; dots: boolean }) => {
  const { group, n, half, cumulative } = line,
    x = line.x.slice(0, n),
    y = line.y.slice(0, n),
    points = pointsOf(x, y).join(" ");
  const band = half && [
    ...pointsOf(
      x,
      x.map((_, k) => yOf(cumulative[k] + half[k])),
    ),
    ...pointsOf(
      x,
      x.map((_, k) => yOf(Math.max(0, cumulative[k] - half[k]))),
    ).reverse(),
  ];
  return (
    <g class="run" data-run={group} style={{ "--run": groupColour(group) }}>
      {band && <polygon class="band" points={band.join(" ")} />}
      <polyline class="wide" points={points} />
      <polyline points={points} />
      {dots && x.map((px, k) => <circle key={px} cx={px} cy={y[k]} r="3" />)}
    </g>
  );
};

/** Names at the right, at the height of their lines, as many as there is room for. */
const labelled = ({ lines, floor }: Layout) => {
  const gap = matchMedia("(pointer: coarse)").matches ? 24 : 16,
    most = Math.max(1, Math.floor((floor - TOP) / gap));
  const some = lines
      .filter(({ n, group }, k) => n && (k < most || group === state.run))
      .slice(-most),
    ends = some.map(({ y, n }) => y[n - 1]);
  return spread(ends, gap, TOP, floor).map((y, k) => ({ line: some[k], y, end: ends[k], gap }));
};

/** Rings around policies in the chart: A, B and the one pointed at. */
const Rings = ({ lines }: { lines: Line[] }) => {
  const { a, b, hovered } = useApp("a b hovered data");
  return (
    <>
      {[
        [hovered, "ink"],
        [a, "a"],
        [b, "b"],
      ].map(([row, id]) => {
        const line = lines.find(({ rows, n }) => rows.slice(0, n).includes(row as number)),
          k = line ? line.rows.indexOf(row as number) : -1;
        return (
          line && (
            <circle
              key={id}
              class="ring"
              cx={line.x[k]}
              cy={line.y[k]}
              r="6.5"
              style={{ stroke: `var(--${id})` }}
            />
          )
        );
      })}
    </>
  );
};

const Chart = () => {
  const { data } = app;
  useApp("shown data colour run");
  const { box, width, height } = useSize(),
    [at, setAt] = useState<{ line: Line; k: number } | null>(null),
    made = useMemo(
      () => (width > 0 && height > 0 ? layOut(width, height) : null),
      [width, height, data, state.shown, state.run, state.hidden],
    );
  const point = (event: PointerEvent) => {
    const { left, top } = box.current!.getBoundingClientRect(),
      px = event.clientX - left,
      py = event.clientY - top;
    let best: { line: Line; k: number } | null = null,
      least = 30 ** 2;
    for (const line of made?.lines ?? [])
      for (let k = 0; k < line.n; k++) {
        const far = (line.x[k] - px) ** 2 + (line.y[k] - py) ** 2;
        if (far < least) {
          least = far;
          best = { line, k };
        }
      }
    if (best?.line !== at?.line || best?.k !== at?.k) setAt(best);
    const hovered = best ? best.line.rows[best.k] : -1;
    if (state.hovered !== hovered)
      set({ hovered, lit: best && { of: "run", number: best.line.group } });
  };
  const leave = () => {
    setAt(null);
    set({ hovered: -1, lit: null });
  };
  if (!made) return <div class="chart" ref={box} />;
  const { lines, shown, axis, ticks, xOf, yOf, right, floor, names } = made,
    dots = lines.reduce((sum, { n }) => sum + n, 0) <= MOST_DOTS,
    labels = labelled(made);
  const few = axis.ticks.filter(
    (tick, k, all) => !k || k === all.length - 1 || xOf(tick) - xOf(all[k - 1]) > 30,
  );
  return (
    <div class="chart" ref={box}>
      <svg
        class={"travel" + (lines.length > 60 ? " many" : "")}
        width={width}
        height={height}
        role="img"
        aria-label="Distance travelled along each run by training step"
        onPointerMove={point}
        onPointerLeave={leave}
      >
        {ticks.map((tick) => (
          <g key={tick}>
            <line class="grid" x1={LEFT} x2={right} y1={yOf(tick)} y2={yOf(tick)} />
            <text class="axis" x={LEFT - 6} y={yOf(tick) + 4} text-anchor="end">
              {number(tick)}
            </text>
          </g>
        ))}
        {few.map((tick) => (
          <text key={`x${tick}`} class="axis" x={xOf(tick)} y={floor + 17} text-anchor="middle">
            {shortStep(tick)}
          </text>
        ))}
        <text class="axis" x={(LEFT + right) / 2} y={height - 6} text-anchor="middle">
          training step{axis.log ? " (log scale)" : ""}
        </text>
        {[...lines].reverse().map((line) => (
          <RunLine key={line.group} line={line} yOf={yOf} dots={dots} />
        ))}
        {labels.map(({ line, y, end }) => (
          <polyline
            key={`l${line.group}`}
            class="leader"
            style={{ "--run": groupColour(line.group) }}
            points={`${line.x[line.n - 1] + 5},${end} ${right - 6},${end} ${right + 2},${y}`}
          />
        ))}
        <Rings lines={lines} />
      </svg>
      {labels.map(({ line: { group }, y, gap }) => (
        <button
          key={group}
          type="button"
          class="entity"
          data-run={group}
          title={data.groups[group]}
          style={{
            left: `${right + 2}px`,
            top: `${y - gap / 2}px`,
            height: `${gap}px`,
            width: `${names - 2}px`,
          }}
        >
          <i class="dot" style={{ background: groupColour(group) }} />
          {fitted(nameOf(group, data.groups), names - 26, 12, data.groups)}
        </button>
      ))}
      {lines.length < shown && (
        <p class="hint">
          The {whole(lines.length)} of {whole(shown)} runs that travelled farthest.
        </p>
      )}
      {at && (
        <div
          class="tip"
          style={{
            left: `${Math.min(at.line.x[at.k] + 12, width - 190)}px`,
            top: `${Math.max(0, Math.min(at.line.y[at.k] - 30, height - 76))}px`,
          }}
        >
          <strong>{data.groups[at.line.group] ?? "no run"}</strong>
          <div>step {whole(data.step[at.line.rows[at.k]])}</div>
          <div>
            travelled {number(at.line.cumulative[at.k])}
            {at.line.half && ` ± ${number(at.line.half[at.k], 2)}`}
          </div>
        </div>
      )}
    </div>
  );
};

/** Distances between the last checkpoints of runs; null without two runs. */
const endsOf = perData(async (data) => {
  const { runEnds } = data.blob;
  if (!runEnds?.rows.length) return null;
  const { distance, low, high, alike } = await unpackAll(runEnds),
    rows: number[] = runEnds.rows,
    m = rows.length,
    place = new Map(rows.map((row, k) => [row, k]));
  const at = (i: number, j: number) => place.get(i)! * m + place.get(j)!;
  const pair = (i: number, j: number): Pair => {
    const k = at(i, j);
    return {
      distance: Math.max(distance[k], 0),
      low: low[k],
      high: high[k],
      p: NaN,
      alike: alike[k] < 2 ? alike[k] === 1 : null,
      overlap: NaN,
    };
  };
  const measuring: Measurer = {
    between: (i, j) => Math.max(distance[at(i, j)], 0),
    pair,
    nearest: () => [],
    block: () => new Float32Array(0),
    complete: true,
    sure: alike.some((is: number) => is < 2),
    words: runEnds.words,
  };
  return { rows, measuring, groups: runEnds.groups as number[] };
});

type Ends = NonNullable<Awaited<ReturnType<typeof endsOf>>>;

/** The two of these runs that end farthest apart. */
export const farthest = ({ rows, measuring }: Pick<Ends, "rows" | "measuring">) => {
  let best: [number, number] | null = null,
    most = -1;
  rows.forEach((i, k) => {
    for (const j of rows.slice(0, k)) {
      const distance = measuring.between(i, j);
      if (distance > most) {
        most = distance;
        best = [j, i];
      }
    }
  });
  return best as [number, number] | null;
};

const Matrix = ({ ends }: { ends: Ends }) => {
  const box = useRef<HTMLDivElement>(null);
  const { hidden } = useApp("hidden data"),
    { data } = app;
  const shown = ends.rows.filter((_, k) => !hidden.has(ends.groups[k])),
    far = farthest({ rows: shown, measuring: ends.measuring });
  useEffect(() => {
    const is = new Set(shown);
    const load = async () => ({
      rows: data.heatmapOrder.filter((i) => is.has(i)),
      measuring: ends.measuring,
    });
    const heatmap = heatmapIn(box.current!, load, () => {}, true);
    heatmap.renew();
    return heatmap.remove;
  }, [ends, hidden]);
  const pair = far && ends.measuring.pair(...far);
  return (
    <div class="ends-of-runs">
      {far && pair && (
        <h3 id="farthest-ends">
          Farthest apart at the end: <RunName run={data.group[far[0]]} /> and{" "}
          <RunName run={data.group[far[1]]} />,{" "}
          <button type="button" class="entity" data-pair={far.join(" ")}>
            <b>{number(pair.distance)}</b>
            {pair.low >= 0 && ` (${number(pair.low, 2)} to ${number(pair.high, 2)})`}
          </button>
          {pair.alike && ", cannot be distinguished"}
        </h3>
      )}
      {ends.measuring.words && <p class="hint">{ends.measuring.words}</p>}
      <div class="heat" ref={box}>
        {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: arrow keys move between cells */}
        <canvas
          tabIndex={0}
          role="application"
          aria-label="Distances between the last checkpoints of runs"
        />
        <div class="heat-names" />
        <div class="tip" hidden />
      </div>
    </div>
  );
};

const Runs = () => {
  useApp("data");
  const { data } = app,
    ends = useResult(endsOf, [data]),
    words = !data.blob.runEnds?.rows.length && data.blob.runEnds?.words;
  return (
    <div class={`runs-grid${ends && data.travels.length ? "" : " one"}`}>
      {data.travels.length > 0 && (
        <section>
          <h3>Distance travelled</h3>
          <Chart />
        </section>
      )}
      {ends && (
        <section>
          <Matrix ends={ends} />
        </section>
      )}
      {words && <p class="hint">{words}</p>}
    </div>
  );
};

export const runsPart = () => {
  const box = byId("runs-live");
  if (box) render(<Runs />, box);
};
