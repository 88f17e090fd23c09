// The heatmap: distances of the policies in view, measured here; it zooms, and a cell chooses its pair.
import { announce, byId, framed, make, number, whole } from "./format.js";
import { app, on, set, state } from "./state.js";
import { measurer } from "./distances.js";
import { rowsInView } from "./map.js";
import { pageColour, placeTip, whenInSight } from "./pen.js";
import { colourTile, distanceScale, everyOf, limitOf, measureTile } from "./heatmap_tile.js";
import { paintHeatmap, squareOf } from "./heatmap_paint.js";

/** @typedef {import("./distances.js").Measurer} Measurer @typedef {import("./heatmap_tile.js").Tile} Tile */

const FINEST = 6;  // rows of the smallest part that is shown
const NO_DISTANCES = "This file holds no distances between so many policies. pivec serve OUT, with the folder of this comparison, has them.";
const darkScheme = matchMedia("(prefers-color-scheme: dark)");

/** @param {number} n @returns {string} 1st, 2nd, 3rd, 4th */
const ordinal = (n) => whole(n) + (["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] || "th");

export const heatmapPart = () => {
  const box = byId("heat");
  if (!box) return;  // a page of one policy
  /** @type {HTMLCanvasElement} */
  const canvas = byId("heatmap");
  const tip = byId("heat-tip"), note = byId("heat-note"), key = byId("heat-key"), certain = byId("certain");
  /** @type {Int32Array} */
  let rows = new Int32Array(0);
  let sight = { x: 0, y: 0, size: 1 }, limit = 1, most = 0, turn = 0, timer = 0, letters = 0;
  /** @type {Measurer | null} */
  let measuring = null;
  /** @type {Tile | null} */
  let coarse = null;
  /** @type {Tile | null} */
  let fine = null;
  /** Places among the rows of the cell pointed at. @type {{line: number, column: number} | null} */
  let at = null;

  const every = () => everyOf(sight.size), square = () => squareOf(canvas.clientWidth, letters);
  const covers = (/** @type {Tile} */ tile) => tile.every === every() && tile.x <= sight.x && tile.y <= sight.y
    && tile.x + tile.columns.length * tile.every >= Math.min(rows.length, sight.x + sight.size) && tile.y + tile.lines.length * tile.every >= Math.min(rows.length, sight.y + sight.size);
  const draw = framed(() => {
    if (!coarse || canvas.hidden) return;
    canvas.style.height = (({ top, side }) => top + side + 1)(square()) + "px";
    paintHeatmap(canvas, { rows, sight, tiles: fine ? (covers(fine) ? [fine] : [coarse, fine]) : [coarse], at, every: every(), letters });
  });

  const explain = () => {
    const n = rows.length, where = state.selection ? "in the lasso" : "in view on the map", size = Math.round(sight.size), zoomed = sight.size < n;
    const words = every() > 1 ? `Every ${ordinal(every())} of ` : "", few = n < 2, none = Number.isNaN(limit);
    canvas.parentElement?.toggleAttribute("hidden", few || none); key.hidden = few || none;
    const partly = measuring && !(/** @type {any} */ (measuring).complete ?? true) && !none ? ` Grey cells are not known. ${measuring.words}` : "";
    note.textContent = few ? `Fewer than two policies are ${where}: there is no distance to show.`
      : none ? (measuring && measuring.words) || NO_DISTANCES
      : zoomed ? `${words}${whole(size)} of ${whole(n)} policies ${where}${words ? "; zoom in for all" : ""}.${partly}`
      : `${words}${whole(n)} policies ${where}${words ? "; zoom in for all" : ""}.${partly}`;
    byId("heat-scale").style.background = `linear-gradient(to right, ${distanceScale(darkScheme.matches).join(",")})`;
    byId("heat-far").textContent = number(limit) + (most > limit ? " and more" : "");
    byId("heat-beyond").textContent = most > limit ? `The scale ends where 99 % of these distances do; the largest is ${number(most)}.` : "";
  };
  const colour = () => { for (const tile of [coarse, fine]) if (tile) colourTile(tile, limit, darkScheme.matches, pageColour("reference")); draw(); };

  /** Measure what is seen, unless it is there already. */
  const refine = async () => {
    const mine = ++turn, given = measuring;
    explain(); draw();
    if (!given || !coarse || covers(coarse)) { fine = null; return; }
    if (fine && covers(fine)) return;
    const tile = await measureTile(given, rows, { ...sight }, state.certain, () => mine !== turn);
    if (!tile) return;
    fine = tile; colourTile(tile, limit, darkScheme.matches, pageColour("reference")); draw();
  };
  /** Begin anew: other policies, or other data. */
  const renew = async () => {
    const mine = ++turn, given = measuring = await measurer();
    if (mine !== turn) return;
    const { data } = app, chosen = new Uint8Array(data.n), { selection, shown } = state;
    if (selection) for (let i = 0; i < data.n; i++) chosen[i] = selection[i] & shown[i];
    else for (const i of rowsInView()) chosen[i] = 1;
    const next = (/** @type {any} */ (data).heatmapOrder || data.order).filter((/** @type {number} */ i) => chosen[i]);
    const same = next.length === rows.length && next.every((/** @type {number} */ row, /** @type {number} */ k) => row === rows[k]);
    if (!same) sight = { x: 0, y: 0, size: Math.max(1, next.length) };
    letters = Math.max(...data.groups.map((text) => text.length), ...Array.from(next.slice(0, 99), (i) => data.label[i].length));
    rows = next; at = null; tip.hidden = true;
    const tile = await measureTile(given, rows, { x: 0, y: 0, size: Math.max(1, rows.length) }, state.certain, () => mine !== turn);
    if (!tile) return;
    coarse = tile; fine = null;
    ({ limit, most } = limitOf(tile));
    colour(); refine();
  };
  const renewInSight = whenInSight(box, renew);
  const renewSoon = () => { turn++; clearTimeout(timer); timer = setTimeout(renewInSight, 120); };

  const look = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ size) => {
    const n = rows.length;
    size = Math.min(n, Math.max(Math.min(FINEST, n), size));
    sight = { x: Math.max(0, Math.min(n - size, x)), y: Math.max(0, Math.min(n - size, y)), size };
    canvas.classList.toggle("zoomed", size < n);
    refine();
  };
  const zoom = (/** @type {number} */ factor, /** @type {number} */ column, /** @type {number} */ line) => {
    const size = Math.min(rows.length, Math.max(Math.min(FINEST, rows.length), sight.size / factor)), real = size / sight.size;
    look(column - (column - sight.x) * real, line - (line - sight.y) * real, size);
  };
  const middle = () => /** @type {[number, number]} */ (at ? [at.column, at.line] : [sight.x + sight.size / 2, sight.y + sight.size / 2]);
  const reset = () => look(0, 0, rows.length);

  const pairWords = (/** @type {number} */ i, /** @type {number} */ j) => {
    if (!measuring || i === j) return [];
    const { distance, low, high, bound, alike } = measuring.pair(i, j);
    if (Number.isNaN(distance)) return ["distance not known in this file"];
    const interval = Number.isNaN(low) ? "" : ` (${bound ? "within " : ""}${number(low)} to ${number(high)})`;
    return ["distance " + number(distance) + interval, ...(alike ? ["cannot be told apart"] : [])];
  };
  /** @param {{line: number, column: number} | null} cell @param {boolean} [aloud] */
  const point = (cell, aloud) => {
    at = cell; draw();
    if (!cell) { tip.hidden = true; return; }
    const i = rows[cell.line], j = rows[cell.column], { label } = app.data, words = pairWords(i, j);
    tip.replaceChildren(make("strong", label[i]), ...(i === j ? [] : [make("strong", label[j])]), ...words.map((line) => make("div", line)));
    const { left, top, side } = square(), scale = side / sight.size;
    placeTip(tip, left + (cell.column + every() / 2 - sight.x) * scale, top + (cell.line + every() / 2 - sight.y) * scale, canvas.clientWidth, top + side);
    if (aloud) announce([label[i], label[j], ...words].join(", "));
  };
  const choosePair = () => {
    if (!at) return;
    const a = rows[at.line], b = rows[at.column];
    set(a === b ? { a } : { a, b });
  };

  const place = (/** @type {MouseEvent} */ event) => {
    const { left: x0, top: y0 } = canvas.getBoundingClientRect(), { left, top, side } = square();
    return { column: sight.x + ((event.clientX - x0 - left) / side) * sight.size, line: sight.y + ((event.clientY - y0 - top) / side) * sight.size };
  };
  const cellAt = (/** @type {MouseEvent} */ event) => {
    const { column, line } = place(event), down = (/** @type {number} */ k) => Math.floor(k / every()) * every();
    return column < sight.x || line < sight.y || Math.max(column - sight.x, line - sight.y) >= sight.size ? null : { column: down(column), line: down(line) };
  };
  /** @type {{column: number, line: number, x: number, y: number, moved: boolean} | null} */
  let held = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { column, line } = place(event);
    zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY * (event.deltaMode === 1 ? 16 : 1))) * 0.0022), column, line);
    point(cellAt(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    held = { ...place(event), x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && (held.moved ||= Math.hypot(event.clientX - held.x, event.clientY - held.y) > 4)) {
      const { column, line } = place(event);
      look(sight.x + held.column - column, sight.y + held.line - line, sight.size);
      point(null);
    } else point(cellAt(event));
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = held && !held.moved;
    held = null;
    if (clicked) { point(cellAt(event)); choosePair(); }
  });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointerleave", () => { if (!held) point(null); });
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("blur", () => point(null));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    /** @type {Record<string, number[]>} */
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[event.key], last = Math.floor((rows.length - 1) / every()) * every();
    if (move) {
      const from = at || { column: Math.ceil(sight.x / every()) * every(), line: Math.ceil(sight.y / every()) * every() }, by = at ? every() : 0;
      const next = { column: Math.max(0, Math.min(last, from.column + by * move[0])), line: Math.max(0, Math.min(last, from.line + by * move[1])) };
      const inside = (/** @type {number} */ k, /** @type {number} */ low) => Math.min(k, Math.max(low, k + every() - sight.size));
      look(inside(next.column, sight.x), inside(next.line, sight.y), sight.size);
      point(next, true);
    } else if (event.key === "Enter") choosePair();
    else if (event.key === "+" || event.key === "=") zoom(1.5, ...middle());
    else if (event.key === "-" || event.key === "−") zoom(1 / 1.5, ...middle());
    else if (event.key === "0") reset();
    else if (event.key === "Escape") point(null);
    else return;
    event.preventDefault();
  });
  for (const [id, act] of /** @type {[string, () => void][]} */ ([["heat-in", () => zoom(2, ...middle())], ["heat-out", () => zoom(0.5, ...middle())], ["heat-all", reset]])) byId(id).addEventListener("click", act);

  if (certain) {
    certain.addEventListener("change", () => set({ certain: certain.checked }));
    on("certain", () => { certain.checked = state.certain; byId("heat-hatched").hidden = !state.certain; renewSoon(); });
    certain.checked = state.certain; byId("heat-hatched").hidden = !state.certain;
  }
  on("view shown selection data", renewSoon);
  on("a b", draw);
  on("colour", colour);
  darkScheme.addEventListener("change", () => { explain(); colour(); });
  new ResizeObserver(draw).observe(canvas);
  box.hidden = false;
  byId("heat-static")?.classList.add("print-only");
  renewInSight();
};
