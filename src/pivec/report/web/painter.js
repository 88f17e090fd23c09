// What the map's painters are given, and which of them paints: a graphics card, or the processor.
import { pixelPainter } from "./pixels.js";
import { webglPainter } from "./webgl.js";

/**
 * @typedef {object} Scene what is painted, from the back to the front; packed colours are 0xAABBGGRR
 * @property {number} n points
 * @property {number} chosen where the points in front of the others begin: those selected
 * @property {Float32Array} points x, y a point, from the middle of the map
 * @property {Uint32Array} colour
 * @property {Uint8Array} shape 0 disc, 1 diamond, 2 small disc, 3 square; + 4 hollow
 * @property {number} nLines
 * @property {Float32Array} lines x, y, x, y a line
 * @property {Uint32Array} lineColour
 * @property {number} nBands
 * @property {Float32Array} bands
 * @property {number} band colour
 * @property {number} paper colour
 * @property {number} rim colour of hollow points
 * @property {Uint32Array} scale of densities
 *
 * @typedef {object} Look how it is painted; lengths in pixels of the canvas
 * @property {number} width
 * @property {number} height
 * @property {number} x where the middle of the map is
 * @property {number} y
 * @property {number} scale pixels a unit
 * @property {number} radius
 * @property {number} edge width of the paper's colour around points
 * @property {number} hollow width of the rim of hollow points
 * @property {number} line half the width of lines, 0 for none
 * @property {number} alpha of lines
 * @property {number} band half the width of bands, 0 for none
 * @property {number} cell side of the squares in which points are counted, 0 to paint points
 *
 * @typedef {{name: string, load: (scene: Scene) => void, paint: (look: Look) => void}} Painter
 */

const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/** @param {HTMLCanvasElement} canvas @param {(painter: Painter) => void} use is called with a painter, and again if that one fails */
export const findPainter = (canvas, use) => {
  const wish = new URLSearchParams(location.search).get("painter"), forced = wish === "webgl";
  const settle = (/** @type {Painter} */ painter) => { canvas.dataset.painter = painter.name; use(painter); };
  const byProcessor = () => {
    const other = /** @type {HTMLCanvasElement} */ (canvas.cloneNode());  // a canvas has one kind of context for ever
    canvas.replaceWith(other);
    canvas = other;
    settle(pixelPainter(canvas));
  };
  const gl = wish === "pixels" ? null : canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false, failIfMajorPerformanceCaveat: !forced });
  const info = gl && gl.getExtension("WEBGL_debug_renderer_info");
  const painter = gl && (forced || !SOFTWARE.test(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER))) ? webglPainter(gl) : null;
  if (!painter) return byProcessor();
  canvas.addEventListener("webglcontextlost", byProcessor, { once: true });
  return settle(painter);
};

/** The points counted in squares, as points to paint: middles in pixels, upwards as on the map; colours by the logarithm of the count. */
export const counted = { n: 0, most: 0, points: new Float32Array(0), colour: new Uint32Array(0), shape: new Uint8Array(0), counts: new Uint32Array(0) };

/** @param {Scene} scene @param {Look} look counts what is in view; squares stay where they are on the map */
export const count = (scene, look) => {
  const { cell, scale } = look, start = (/** @type {number} */ at) => (((at % cell) + cell) % cell) - cell, startX = start(look.x), startY = start(look.y);
  const across = Math.ceil((look.width - startX) / cell), down = Math.ceil((look.height - startY) / cell), size = across * down;
  if (counted.colour.length < size) Object.assign(counted, { points: new Float32Array(2 * size), colour: new Uint32Array(size), shape: new Uint8Array(size).fill(3), counts: new Uint32Array(size) });
  const { counts, points, colour } = counted;
  const places = scene.points, f = scale / cell, offX = (look.x - startX) / cell, offY = (look.y - startY) / cell;
  let most = 0, n = 0;
  counts.fill(0);
  for (let k = 2 * scene.chosen, end = 2 * scene.n; k < end; k += 2) {
    const a = offX + places[k] * f, b = offY - places[k + 1] * f;
    if (a >= 0 && a < across && b >= 0 && b < down) counts[(b | 0) * across + (a | 0)]++;
  }
  for (let k = 0; k < size; k++) if (counts[k] > most) most = counts[k];
  const steps = (scene.scale.length - 1) / Math.log(Math.max(2, most));
  for (let k = 0; k < size; k++) if (counts[k]) {
    points[2 * n] = startX + ((k % across) + 0.5) * cell;
    points[2 * n + 1] = -startY - (Math.floor(k / across) + 0.5) * cell;
    colour[n++] = scene.scale[Math.round(Math.log(counts[k]) * steps)];
  }
  counted.n = n; counted.most = most;
};
