// Heatmaps: distances of policies, measured here; they zoom, and a cell chooses its pair.

import { render } from "preact";
import { type Measurer, measurer } from "../distances";
import { announce, byId, framed, make, number, whole } from "../format";
import { rowsInView } from "../map/map";
import { fitted } from "../names";
import { pageColour, placeTip, scrolls, whenInSight } from "../pen";
import { app, isolate, on, set, state } from "../state";
import { type Place, paintHeatmap, type Stretch, squareOf, stretchesOf } from "./paint";
import {
  colourTile,
  distanceScale,
  everyOf,
  limitOf,
  measureTile,
  type Sight,
  type Tile,
} from "./tile";

const FINEST = 6, // rows of the smallest part that is shown
  NAMED = 14; // pixels of a row that has a name
const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches,
  isCoarse = () => matchMedia("(pointer: coarse)").matches;

/** What a heatmap shows: policies in their order, and their distances. */
export interface Source {
  rows: Int32Array;
  measuring: Measurer;
}
/** What is seen of it; `limit`: the end of its scale, NaN where nothing is known; `most`: the largest. */
export interface Seen extends Source {
  sight: Sight;
  every: number;
  limit: number;
  most: number;
}

type Name = { row: number; g: number; words: string; y: number };

const Names = ({ names, width, tall }: { names: Name[]; width: number; tall: number }) => (
  <>
    {names.map(({ row, g, words, y }) => {
      const place = { top: `${y - tall / 2}px`, height: `${tall}px`, width: `${width}px` },
        short = fitted(words, width - 6, 12, row < 0 ? app.data.groups : app.data.label);
      const own = row < 0 ? { "data-run": g } : { "data-row": row };
      return row < 0 && g < 0 ? (
        <span key="none" style={place}>
          {words}
        </span>
      ) : (
        <button type="button" class="entity" key={words} style={place} title={words} {...own}>
          {short}
        </button>
      );
    })}
  </>
);

/**
 * A heatmap in a box of a canvas, names and a tip.
 *
 * `load` gives what it shows, and is asked again by `renew`; `tell` is called when that, or the part
 * of it that is seen, changes; `byRun` names rows by their runs.
 */
export const heatmapIn = (
  box: HTMLElement,
  load: () => Promise<Source>,
  tell: (seen: Seen) => void,
  byRun = false,
) => {
  const canvas = box.querySelector("canvas") as HTMLCanvasElement,
    names = box.querySelector(".heat-names") as HTMLElement,
    tip = box.querySelector(".tip") as HTMLElement;
  let rows: Int32Array = new Int32Array(0),
    measuring: Measurer,
    tile: Tile | null = null;
  /** The cell pointed at. */
  let at: Place | null = null;
  let sight: Sight = { x: 0, y: 0, size: 1 },
    limit = NaN,
    most = NaN,
    turn = 0,
    scaled = false;

  const every = () => everyOf(sight.size),
    square = () => squareOf(canvas.clientWidth, canvas.clientHeight),
    stretches = (upright: boolean): Stretch[] => {
      const { left, top, side } = square();
      return stretchesOf(
        rows,
        upright ? sight.y : sight.x,
        sight,
        every(),
        upright ? top : left,
        side,
      );
    };
  const draw = framed(() => {
    if (!tile || !rows.length || !canvas.clientWidth || !canvas.clientHeight) return;
    paintHeatmap(canvas, rows, sight, tile, every(), limit, isDark(), at);
    writeNames();
  });
  /** Names at the left, as far as there is room. */
  const writeNames = () => {
    const { top, side, names: width } = square(),
      { data } = app,
      scale = side / sight.size,
      tall = isCoarse() ? 24 : 16;
    let all: Name[] = stretches(true).map(({ g, at: start, long }) => ({
      row: -1,
      g,
      words: data.groups[g] ?? "no run",
      y: start + long / 2,
    }));
    if (scale >= NAMED && !byRun) {
      const first = Math.ceil(sight.y - 0.4),
        last = Math.min(rows.length, sight.y + sight.size - 0.4);
      all = Array.from({ length: Math.max(0, Math.ceil(last) - first) }, (_, k) => ({
        row: rows[first + k],
        g: -1,
        words: data.label[rows[first + k]],
        y: top + (first + k + 0.5 - sight.y) * scale,
      }));
    }
    let named = -Infinity;
    const some = all.filter(({ y }) => {
      const fits = width > 60 && y - named >= tall - 2;
      if (fits) named = y;
      return fits;
    });
    render(<Names names={some} width={width} tall={tall} />, names);
  };
  const colour = () => {
    if (tile && rows.length) colourTile(tile, limit, isDark(), pageColour("reference"));
    draw();
  };
  const said = () => tell({ rows, measuring, sight, every: every(), limit, most });

  /** Measure what is seen, at first all: the scale stays while a part is looked at. */
  const measure = async () => {
    const mine = ++turn,
      asks = state.certain && measuring.sure,
      made = await measureTile(measuring, rows, sight, asks, () => mine !== turn);
    if (!made) return;
    tile = made;
    if (!scaled) ({ limit, most } = limitOf(tile));
    scaled = true;
    said();
    colour();
  };
  /** Begin anew: other policies, or other data. */
  const renew = async () => {
    const mine = ++turn,
      made = await load();
    if (mine !== turn) return;
    ({ rows, measuring } = made);
    sight = { x: 0, y: 0, size: Math.max(1, rows.length) };
    scaled = false;
    point(null);
    measure();
  };

  const look = (x: number, y: number, size: number) => {
    if (!scaled) return;
    const inside = (k: number) => Math.max(0, Math.min(rows.length - size, k));
    sight = { x: inside(x), y: inside(y), size };
    said();
    draw();
    measure();
  };
  const zoom = (
    factor: number,
    { x, y } = at || { x: sight.x + sight.size / 2, y: sight.y + sight.size / 2 },
  ) => {
    const size = Math.min(
        rows.length,
        Math.max(Math.min(FINEST, rows.length), sight.size / factor),
      ),
      real = size / sight.size;
    look(x - (x - sight.x) * real, y - (y - sight.y) * real, size);
  };
  const reset = () => look(0, 0, rows.length);

  const point = (cell: Place | null, aloud = false) => {
    if (cell?.x === at?.x && cell?.y === at?.y && !aloud) return;
    at = cell;
    tip.hidden = !cell;
    draw();
    if (!cell) return;
    const { label } = app.data,
      i = rows[cell.y],
      j = rows[cell.x],
      { distance, low, high, alike } = measuring.pair(i, j);
    const interval = low >= 0 ? ` (${number(low)} to ${number(high)})` : "";
    const words =
      i === j
        ? []
        : distance >= 0
          ? [
              "distance " + number(distance) + interval,
              ...(alike ? ["cannot be distinguished"] : []),
            ]
          : ["distance not known in this file"];
    tip.replaceChildren(
      ...[label[i], label[j]].slice(Number(i === j)).map((text) => make("strong", text)),
      ...words.map((text) => make("div", text)),
    );
    const { left, top, side } = square(),
      scale = side / sight.size,
      half = every() / 2;
    placeTip(
      tip,
      left + (cell.x + half - sight.x) * scale,
      top + (cell.y + half - sight.y) * scale,
      canvas,
    );
    if (aloud) announce([label[i], label[j], ...words].join(", "));
  };
  const choosePair = () => {
    if (at)
      set(at.x === at.y ? { a: rows[at.x], run: -1 } : { a: rows[at.y], b: rows[at.x], run: -1 });
  };

  const pixelOf = (event: MouseEvent) => {
    const { left, top } = canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const placeOf = ({ x, y }: Place): Place => {
    const { left, top, side } = square(),
      scale = sight.size / side;
    return { x: sight.x + (x - left) * scale, y: sight.y + (y - top) * scale };
  };
  const cellOf = (k: number) => Math.floor(k / every()) * every();
  const cellAt = (pixel: Place) => {
    const { x, y } = placeOf(pixel),
      inside = [x - sight.x, y - sight.y].every((k) => k >= 0 && k < sight.size);
    return inside ? { x: cellOf(x), y: cellOf(y) } : null;
  };
  /** The run whose strip is there, −1 without. */
  const runAt = ({ x, y }: Place): number => {
    const { left, top, side } = square(),
      upright = x < left && x > left - 24 && y >= top && y <= top + side,
      lying = y < top && x >= left && x <= left + side;
    if (!upright && !lying) return -1;
    const along = upright ? y : x;
    const found = stretches(upright).find((s) => along >= s.at && along <= s.at + s.long);
    return found ? found.g : -1;
  };

  const held: Map<number, Place> = new Map();
  let start: Place = { x: 0, y: 0 },
    dragged = false;
  const hover = (pixel: Place) => {
    const run = runAt(pixel);
    if (run >= 0) set({ lit: { of: "run", number: run } });
    else if (state.lit) set({ lit: null });
    canvas.style.cursor = run >= 0 ? "pointer" : "";
    point(cellAt(pixel));
  };
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas && scrolls(canvas)) return;
      event.preventDefault();
      const pixels = event.deltaY * (event.deltaMode ? 16 : 1),
        speed = event.ctrlKey && Math.abs(pixels) < 50 ? 0.01 : 0.0022; // a pinch on a touchpad
      zoom(Math.exp(-speed * Math.max(-200, Math.min(200, pixels))), placeOf(pixelOf(event)));
      at = null;
      point(cellAt(pixelOf(event)));
    },
    { passive: false },
  );
  // Two fingers belong to the heatmap, one to the page.
  canvas.addEventListener(
    "touchmove",
    (event) => {
      if (event.touches.length > 1 && event.cancelable) event.preventDefault();
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const pixel = pixelOf(event);
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, pixel);
    dragged = held.size > 1;
    start = pixel;
  });
  canvas.addEventListener("pointermove", (event) => {
    const pixel = pixelOf(event),
      was = held.get(event.pointerId),
      touch = event.pointerType === "touch";
    if (!was) {
      if (!touch) hover(pixel);
      return;
    }
    if (!dragged && Math.hypot(pixel.x - start.x, pixel.y - start.y) < (touch ? 8 : 4)) return;
    dragged = true;
    held.set(event.pointerId, pixel);
    const from = placeOf(was),
      to = placeOf(pixel);
    if (held.size === 2) {
      const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
      const apart = (p: Place) => Math.max(1, Math.hypot(p.x - other.x, p.y - other.y));
      zoom(
        apart(pixel) / apart(was),
        placeOf({ x: (pixel.x + other.x) / 2, y: (pixel.y + other.y) / 2 }),
      );
    }
    if (held.size === 2 || !touch)
      look(sight.x + from.x - to.x, sight.y + from.y - to.y, sight.size);
    point(null);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!held.delete(event.pointerId) || held.size || dragged) return;
    const pixel = pixelOf(event),
      run = runAt(pixel),
      cell = cellAt(pixel);
    if (run >= 0) return set({ run: state.run === run ? -1 : run });
    // A touch shows the pair; a second one at the same place chooses it.
    const known = cell && at && cell.x === at.x && cell.y === at.y;
    point(cell);
    if (event.pointerType !== "touch" || known) choosePair();
  });
  canvas.addEventListener("pointercancel", (event) => held.delete(event.pointerId));
  for (const kind of ["pointerleave", "blur"])
    canvas.addEventListener(kind, (event) => {
      if (!held.size && (event as PointerEvent).pointerType !== "touch") point(null);
      if (state.lit) set({ lit: null });
    });
  canvas.addEventListener("dblclick", (event) => {
    const run = runAt(pixelOf(event));
    if (run >= 0) isolate({ of: "run", number: run });
    else reset();
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !scaled) return;
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const move = moves[event.key],
      k = every(),
      from = at || { x: cellOf(sight.x), y: cellOf(sight.y) };
    if (move) {
      const [x, y] = [from.x + k * move[0], from.y + k * move[1]].map((to) =>
        Math.max(0, Math.min(cellOf(rows.length - 1), to)),
      );
      const follow = (to: number, low: number) => Math.min(to, Math.max(low, to + k - sight.size));
      look(follow(x, sight.x), follow(y, sight.y), sight.size);
      point({ x, y }, true);
    } else if (event.key === "Enter") choosePair();
    else if ("+=".includes(event.key)) zoom(1.5);
    else if ("-−".includes(event.key)) zoom(1 / 1.5);
    else if (event.key === "0") reset();
    else if (event.key === "Escape") point(null);
    else return;
    event.preventDefault();
  });
  const stop = [
    on("certain", () => {
      if (tile) measure();
    }),
    on("a b hovered lit run", draw),
    on("colour", colour),
  ];
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  return {
    renew,
    zoom,
    reset,
    /** Forget what is under way. */
    cancel: () => {
      turn++;
    },
    remove: () => {
      turn++;
      observer.disconnect();
      for (const end of stop) end();
    },
  };
};

const NO_DISTANCES =
  "This file does not contain the distances between so many policies; pivec serve OUT, with the folder of this comparison, shows them.";

/** Returns 1st, 2nd, 3rd, 4th. */
const ordinal = (n: number): string =>
  whole(n) + (((n % 100 < 11 || n % 100 > 13) && ["", "st", "nd", "rd"][n % 10]) || "th");

/** Say which policies are seen, and what is not known of them. */
const wordsOf = ({ rows, measuring, sight, every, limit }: Seen): string => {
  const n = rows.length,
    where = "policies " + (state.selection ? "selected" : "in view");
  if (n < 2) return `Fewer than two ${where}: there is no distance to show.`;
  if (!(limit >= 0)) return measuring.words || NO_DISTANCES;
  const some = every > 1 ? `every ${ordinal(every)} of ` : "",
    all = `${whole(n)} ${where}`,
    part =
      sight.size < n
        ? `${whole(Math.round(sight.size))} of ${all}` + (some && `, ${some}them`)
        : some + all;
  return (
    part +
    (every > 1 ? "; zoom in for all." : ".") +
    (measuring.complete ? "" : " Grey cells are not known. " + measuring.words)
  );
};

/** The tab of the heatmap: the policies in view on the map, or those selected. */
/** Cut the names of listed pairs to the width that they have. */
const namePairs = () => {
  const { label } = app.data;
  for (const pair of document.querySelectorAll<HTMLElement>("#tab-heatmap .pairs [data-pair]"))
    (pair.dataset.pair as string).split(" ").forEach((row, k) => {
      const span = pair.children[k];
      span.textContent = fitted(label[Number(row)], span.clientWidth - 2, 12.5, label);
    });
};

export const heatmapPart = () => {
  const box = byId("heat");
  if (!box) return; // a page of one policy
  new ResizeObserver(namePairs).observe(box.parentElement);
  document.addEventListener("pivec-renewed", namePairs);
  const certain = byId("certain");
  let timer = 0;
  const load = async (): Promise<Source> => {
    const measuring = await measurer(),
      { data } = app,
      { selection, shown } = state,
      chosen = selection ? shown.map((is, i) => is & selection[i]) : new Uint8Array(data.n);
    if (!selection) for (const i of rowsInView()) chosen[i] = 1;
    return { rows: (data.heatmapOrder || data.order).filter((i) => chosen[i]), measuring };
  };
  const shadeKey = () => {
    const scale = distanceScale(isDark());
    byId("heat-scale").style.background = `linear-gradient(to right, ${scale})`;
  };
  const heatmap = heatmapIn(box.querySelector(".heat"), load, (seen) => {
    const { rows, limit, most } = seen;
    box.classList.toggle("nothing", !(rows.length > 1 && limit >= 0));
    byId("heat-note").textContent = wordsOf(seen);
    byId("heat-far").textContent = number(limit);
    byId("heat-beyond").textContent =
      most > limit ? `The scale ends at the 99th percentile; the largest is ${number(most)}.` : "";
  });
  const renewInSight = whenInSight(box, heatmap.renew);
  const renewSoon = () => {
    heatmap.cancel();
    clearTimeout(timer);
    timer = window.setTimeout(renewInSight, 120);
  };
  byId("heat-in").addEventListener("click", () => heatmap.zoom(2));
  byId("heat-out").addEventListener("click", () => heatmap.zoom(0.5));
  byId("heat-all").addEventListener("click", heatmap.reset);

  const showCertain = () => {
    if (certain) certain.checked = state.certain;
  };
  certain?.addEventListener("change", () => set({ certain: certain.checked }));
  on("certain", showCertain);
  on("view shown selection data", renewSoon);
  on("colour", shadeKey);
  box.hidden = false;
  byId("heat-static")?.classList.add("print-only");
  showCertain();
  shadeKey();
  renewInSight();
};
