// What the map's painters are given, and which of them paints: a graphics card, or the processor.
import { mixed, pixelPainter } from "./pixels";
import { webglPainter } from "./webgl";

/** what is painted, from the back to the front; packed colours are 0xAABBGGRR */
export interface Scene {
  /** points */
  n: number;
  /** where the points in front of the others begin: those selected */
  chosen: number;
  /** x, y a point, from the middle of the map */
  points: Float32Array;
  colour: Uint32Array;
  /** 0 disc, 1 diamond, 2 small disc, 3 square; + 4 hollow */
  shape: Uint8Array;
  nLines: number;
  /** x, y, x, y a line */
  lines: Float32Array;
  lineColour: Uint32Array;
  nBands: number;
  bands: Float32Array;
  /** colour */
  band: number;
  /** colour */
  paper: number;
  /** colour of hollow points */
  rim: number;
  /** Shades of the variable that points are coloured by; null if it is not a number. */
  shades: Uint32Array | null;
  /** Place of each point in these shades, from 0 to 1; NaN if it is not known. */
  level: Float32Array;
}
/** how it is painted; lengths in pixels of the canvas */
export interface Look {
  width: number;
  height: number;
  /** where the middle of the map is */
  x: number;
  y: number;
  /** pixels a unit */
  scale: number;
  radius: number;
  /** width of the paper's colour around points */
  edge: number;
  /** width of the rim of hollow points */
  hollow: number;
  /** half the width of lines, 0 for none */
  line: number;
  /** of lines */
  alpha: number;
  /** half the width of bands, 0 for none */
  band: number;
  /** side of the squares in which points are counted, 0 to paint points */
  cell: number;
}
export type Painter = { name: string; load: (scene: Scene) => void; paint: (look: Look) => void };

/** Side of the squares in which points are counted, in pixels of the page. */
export const CELL = 4;
const FAINTEST = 0.4; // share of its colour that a square with a single policy has
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/** `use`: is called with a painter, and again if that one fails. */
export const findPainter = (canvas: HTMLCanvasElement, use: (painter: Painter) => void) => {
  const wish = new URLSearchParams(location.search).get("painter"),
    forced = wish === "webgl";
  const settle = (painter: Painter) => {
    canvas.dataset.painter = painter.name;
    use(painter);
  };
  const byProcessor = () => {
    const other = canvas.cloneNode() as HTMLCanvasElement; // a canvas has one kind of context for ever
    canvas.replaceWith(other);
    canvas = other;
    settle(pixelPainter(canvas));
  };
  const gl =
    wish === "pixels"
      ? null
      : canvas.getContext("webgl2", {
          alpha: false,
          antialias: false,
          depth: false,
          failIfMajorPerformanceCaveat: !forced,
        });
  const info = gl?.getExtension("WEBGL_debug_renderer_info");
  const painter =
    gl &&
    (forced || !SOFTWARE.test(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER)))
      ? webglPainter(gl)
      : null;
  if (!painter) return byProcessor();
  canvas.addEventListener("webglcontextlost", byProcessor, { once: true });
  return settle(painter);
};

/**
 * Squares with at least one point, as points to paint: middles in pixels, upwards as on the map.
 * Their hue is the mean of the variable, or the most frequent colour; they are paler where fewer
 * points are.
 */
export const counted = {
  n: 0,
  most: 0,
  points: new Float32Array(0),
  colour: new Uint32Array(0),
  shape: new Uint8Array(0),
  counts: new Uint32Array(0),
  sums: new Float32Array(0),
  known: new Uint32Array(0),
};

/** Count what is in view; squares stay where they are on the map. */
export const count = (scene: Scene, look: Look) => {
  const { cell, scale } = look,
    start = (at: number) => (((at % cell) + cell) % cell) - cell,
    startX = start(look.x),
    startY = start(look.y);
  const across = Math.ceil((look.width - startX) / cell),
    down = Math.ceil((look.height - startY) / cell),
    size = across * down;
  if (counted.counts.length < size)
    Object.assign(counted, {
      points: new Float32Array(2 * size),
      colour: new Uint32Array(size),
      shape: new Uint8Array(size).fill(3),
      counts: new Uint32Array(size),
      sums: new Float32Array(size),
      known: new Uint32Array(size),
    });
  const { counts, points, colour, sums, known } = counted,
    { shades, level, points: places, colour: tints } = scene;
  const f = scale / cell,
    offX = (look.x - startX) / cell,
    offY = (look.y - startY) / cell;
  let most = 0,
    n = 0;
  counts.fill(0);
  sums.fill(0);
  known.fill(0);
  for (let i = scene.chosen; i < scene.n; i++) {
    const a = offX + places[2 * i] * f,
      b = offY - places[2 * i + 1] * f;
    if (!(a >= 0 && a < across && b >= 0 && b < down)) continue;
    const at = (b | 0) * across + (a | 0);
    if (++counts[at] > most) most = counts[at];
    if (!shades) {
      // The majority by Boyer and Moore: `known` is the colour that leads, `sums` its lead.
      if (sums[at] === 0) known[at] = tints[i];
      sums[at] += known[at] === tints[i] ? 1 : -1;
    } else if (level[i] === level[i]) {
      sums[at] += level[i];
      known[at]++;
    }
  }
  const steps = (1 - FAINTEST) / Math.log(Math.max(2, most)),
    last = shades ? shades.length - 1 : 0;
  for (let k = 0; k < size; k++)
    if (counts[k]) {
      points[2 * n] = startX + ((k % across) + 0.5) * cell;
      points[2 * n + 1] = -startY - (Math.floor(k / across) + 0.5) * cell;
      const hue = !shades
        ? known[k]
        : known[k]
          ? shades[Math.round((sums[k] / known[k]) * last)]
          : 0;
      const share = Math.round(256 * (FAINTEST + Math.log(counts[k]) * steps));
      colour[n++] = mixed(scene.paper, hue || scene.rim, share);
    }
  counted.n = n;
  counted.most = most;
};
