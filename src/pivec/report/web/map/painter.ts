// What the map's painters are given, and which of them paints: a graphics card, or the processor.
import { pixelPainter } from "./pixels";
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
  /** of densities */
  scale: Uint32Array;
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

/** The points counted in squares, as points to paint: middles in pixels, upwards as on the map; colours by the logarithm of the count. */
export const counted = {
  n: 0,
  most: 0,
  points: new Float32Array(0),
  colour: new Uint32Array(0),
  shape: new Uint8Array(0),
  counts: new Uint32Array(0),
};

/** `look`: counts what is in view; squares stay where they are on the map. */
export const count = (scene: Scene, look: Look) => {
  const { cell, scale } = look,
    start = (at: number) => (((at % cell) + cell) % cell) - cell,
    startX = start(look.x),
    startY = start(look.y);
  const across = Math.ceil((look.width - startX) / cell),
    down = Math.ceil((look.height - startY) / cell),
    size = across * down;
  if (counted.colour.length < size)
    Object.assign(counted, {
      points: new Float32Array(2 * size),
      colour: new Uint32Array(size),
      shape: new Uint8Array(size).fill(3),
      counts: new Uint32Array(size),
    });
  const { counts, points, colour } = counted;
  const places = scene.points,
    f = scale / cell,
    offX = (look.x - startX) / cell,
    offY = (look.y - startY) / cell;
  let most = 0,
    n = 0;
  counts.fill(0);
  for (let k = 2 * scene.chosen, end = 2 * scene.n; k < end; k += 2) {
    const a = offX + places[k] * f,
      b = offY - places[k + 1] * f;
    if (a >= 0 && a < across && b >= 0 && b < down) counts[(b | 0) * across + (a | 0)]++;
  }
  for (let k = 0; k < size; k++) if (counts[k] > most) most = counts[k];
  const steps = (scene.scale.length - 1) / Math.log(Math.max(2, most));
  for (let k = 0; k < size; k++)
    if (counts[k]) {
      points[2 * n] = startX + ((k % across) + 0.5) * cell;
      points[2 * n + 1] = -startY - (Math.floor(k / across) + 0.5) * cell;
      colour[n++] = scene.scale[Math.round(Math.log(counts[k]) * steps)];
    }
  counted.n = n;
  counted.most = most;
};
