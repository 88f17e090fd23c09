// The heatmap: distances of the policies in view, measured here; it zooms, and a cell chooses its pair.

import { measurer } from "../distances";
import { announce, byId, framed, make, number, whole } from "../format";
import { rowsInView } from "../map/map";
import { pageColour, placeTip, whenInSight } from "../pen";
import { app, on, set, state } from "../state";
import type { Place } from "./paint";
import { paintHeatmap, squareOf } from "./paint";
import { colourTile, distanceScale, everyOf, limitOf, measureTile } from "./tile";

const FINEST = 6; // rows of the smallest part that is shown
const NO_DISTANCES =
  "This file holds no distances between so many policies. pivec serve OUT, with the folder of this comparison, has them.";
const darkScheme = matchMedia("(prefers-color-scheme: dark)");

/** Returns 1st, 2nd, 3rd, 4th. */
const ordinal = (n: number): string =>
  whole(n) + (((n % 100 < 11 || n % 100 > 13) && ["", "st", "nd", "rd"][n % 10]) || "th");

export const heatmapPart = () => {
  const box = byId("heat");
  if (!box) return; // a page of one policy
  const canvas: HTMLCanvasElement = byId("heatmap");
  const tip = byId("heat-tip"),
    certain = byId("certain");
  let rows: Int32Array = new Int32Array(0);
  let measuring: import("../distances").Measurer;
  let tile: import("./tile").Tile | null = null;
  /** The cell pointed at. */
  let at: Place | null = null;
  let sight = { x: 0, y: 0, size: 1 },
    limit = NaN,
    most = NaN,
    turn = 0,
    timer = 0,
    scaled = false;

  const every = () => everyOf(sight.size),
    square = () => squareOf(canvas.clientWidth);
  const draw = framed(() => {
    if (!tile || !rows.length || !canvas.clientWidth) return;
    paintHeatmap(canvas, rows, sight, tile, every(), at);
    canvas.style.height = (canvas.height * canvas.clientWidth) / canvas.width + "px";
  });
  const colour = () => {
    const scale = distanceScale(darkScheme.matches);
    byId("heat-scale").style.background = `linear-gradient(to right, ${scale})`;
    if (tile && rows.length) colourTile(tile, limit, darkScheme.matches, pageColour("reference"));
    draw();
  };
  const explain = () => {
    const n = rows.length,
      where = "policies " + (state.selection ? "in the lasso" : "in view on the map"),
      known = n > 1 && limit >= 0,
      k = every();
    const some = k > 1 ? `every ${ordinal(k)} of ` : "",
      all = `${whole(n)} ${where}`,
      part =
        sight.size < n
          ? `${whole(Math.round(sight.size))} of ${all}` + (some && `, ${some}them`)
          : some + all;
    box.classList.toggle("nothing", !known);
    byId("heat-note").textContent =
      n < 2
        ? `Fewer than two ${where}: there is no distance to show.`
        : !known
          ? measuring.words || NO_DISTANCES
          : part +
            (k > 1 ? "; zoom in for all." : ".") +
            (measuring.complete ? "" : " Grey cells are not known. " + measuring.words);
    byId("heat-far").textContent = number(limit);
    byId("heat-beyond").textContent =
      most > limit
        ? `The scale ends where 99 % of these distances do; the largest is ${number(most)}.`
        : "";
  };

  /** Measure what is seen, at first all: the scale stays while a part is looked at. */
  const measure = async () => {
    const mine = ++turn,
      made = await measureTile(measuring, rows, sight, state.certain, () => mine !== turn);
    if (!made) return;
    tile = made;
    if (!scaled) ({ limit, most } = limitOf(tile));
    scaled = true;
    explain();
    colour();
  };
  /** Begin anew: other policies, or other data. */
  const renew = async () => {
    const mine = ++turn,
      made = await measurer();
    if (mine !== turn) return;
    const { data } = app,
      { selection, shown } = state,
      chosen = selection ? shown.map((is, i) => is & selection[i]) : new Uint8Array(data.n);
    if (!selection) for (const i of rowsInView()) chosen[i] = 1;
    rows = (data.heatmapOrder || data.order).filter((i) => chosen[i]);
    measuring = made;
    sight = { x: 0, y: 0, size: Math.max(1, rows.length) };
    scaled = false;
    point(null);
    measure();
  };
  const renewInSight = whenInSight(box, renew);
  const renewSoon = () => {
    turn++;
    clearTimeout(timer);
    timer = window.setTimeout(renewInSight, 120);
  };

  const look = (x: number, y: number, size: number) => {
    if (!scaled) return;
    const n = rows.length,
      inside = (k: number) => Math.max(0, Math.min(n - size, k));
    sight = { x: inside(x), y: inside(y), size };
    canvas.classList.toggle("zoomed", size < n);
    explain();
    draw();
    measure();
  };
  const zoom = (
    factor: number,
    { x, y } = at || { x: sight.x + sight.size / 2, y: sight.y + sight.size / 2 },
  ) => {
    const size = Math.min(rows.length, Math.max(FINEST, sight.size / factor)),
      real = size / sight.size;
    look(x - (x - sight.x) * real, y - (y - sight.y) * real, size);
  };
  const reset = () => look(0, 0, rows.length);

  const point = (cell: Place | null, aloud = false) => {
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
    const { left, side } = square(),
      scale = side / sight.size,
      half = every() / 2;
    placeTip(
      tip,
      left + (cell.x + half - sight.x) * scale,
      canvas.clientHeight - side + (cell.y + half - sight.y) * scale,
      canvas,
    );
    if (aloud) announce([label[i], label[j], ...words].join(", "));
  };
  const choosePair = () => {
    if (at) set(at.x === at.y ? { a: rows[at.x] } : { a: rows[at.y], b: rows[at.x] });
  };

  const placeOf = (event: MouseEvent) => {
    const { left, bottom } = canvas.getBoundingClientRect(),
      { left: margin, side } = square(),
      scale = sight.size / side;
    return {
      x: sight.x + (event.clientX - left - margin) * scale,
      y: sight.y + (event.clientY - bottom + side + 1) * scale,
    };
  };
  const cellOf = (k: number) => Math.floor(k / every()) * every();
  const cellAt = (event: MouseEvent) => {
    const { x, y } = placeOf(event),
      inside = [x - sight.x, y - sight.y].every((k) => k >= 0 && k < sight.size);
    return inside ? { x: cellOf(x), y: cellOf(y) } : null;
  };
  let held: (Place & { from: MouseEvent; moved: boolean }) | null = null;
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(
        Math.exp(
          Math.max(-200, Math.min(200, event.deltaY * (event.deltaMode ? 16 : 1))) * -0.0022,
        ),
        placeOf(event),
      );
      point(cellAt(event));
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    held = { ...placeOf(event), from: event, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (
      held &&
      (held.moved ||=
        Math.hypot(event.clientX - held.from.clientX, event.clientY - held.from.clientY) > 4)
    ) {
      const { x, y } = placeOf(event);
      look(sight.x + held.x - x, sight.y + held.y - y, sight.size);
      point(null);
    } else point(cellAt(event));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (held && !held.moved) {
      point(cellAt(event));
      choosePair();
    }
    held = null;
  });
  canvas.addEventListener("pointercancel", () => {
    held = null;
  });
  for (const kind of ["pointerleave", "blur"])
    canvas.addEventListener(kind, () => {
      if (!held) point(null);
    });
  canvas.addEventListener("dblclick", reset);
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
  byId("heat-in").addEventListener("click", () => zoom(2));
  byId("heat-out").addEventListener("click", () => zoom(0.5));
  byId("heat-all").addEventListener("click", reset);

  const showCertain = () => {
    if (certain) certain.checked = state.certain;
  };
  certain?.addEventListener("change", () => set({ certain: certain.checked }));
  on("certain", () => {
    showCertain();
    if (tile) measure();
  });
  on("view shown selection data", renewSoon);
  on("a b", draw);
  on("colour", colour);
  new ResizeObserver(draw).observe(canvas);
  box.hidden = false;
  byId("heat-static")?.classList.add("print-only");
  showCertain();
  renewInSight();
};
