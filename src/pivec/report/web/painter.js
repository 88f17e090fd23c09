// What the map's painters are given, and which of them paints: a graphics card, or the processor.
import { pixelPainter } from "./pixels.js";
import { webglPainter } from "./webgl.js";

/**
 * @typedef {object} Scene what is painted, from the back to the front; packed colours are 0xAABBGGRR
 * @property {number} n points
 * @property {number} chosen where the points in front of the others begin: those selected
 * @property {Float32Array} x from the middle of the map
 * @property {Float32Array} y
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
 * @property {number} lineHalf half the width of lines, 0 for none
 * @property {number} lineAlpha
 * @property {number} bandHalf half the width of bands, 0 for none
 * @property {number} cell side of the squares in which points are counted, 0 to paint points
 *
 * @typedef {{name: string, load: (scene: Scene) => void, paint: (look: Look) => void}} Painter
 */

/** @param {HTMLCanvasElement} canvas @returns {HTMLCanvasElement} another in its place, for another kind of context */
const renewed = (canvas) => {
  const other = /** @type {HTMLCanvasElement} */ (canvas.cloneNode());
  canvas.replaceWith(other);
  return other;
};

/** @param {WebGL2RenderingContext} gl */
const emulated = (gl) => {
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER)));
};

/** @param {HTMLCanvasElement} canvas @param {(painter: Painter) => void} use is called with a painter, and again if that one fails */
export const findPainter = (canvas, use) => {
  const wish = new URLSearchParams(location.search).get("painter");
  let place = canvas;
  const settle = (/** @type {Painter} */ painter) => { place.dataset.painter = painter.name; use(painter); };
  const byProcessor = () => { place = renewed(place); settle(pixelPainter(place)); };
  if (wish === "pixels") return byProcessor();
  const gl = place.getContext("webgl2", { alpha: false, antialias: false, depth: false, failIfMajorPerformanceCaveat: wish !== "webgl" });
  if (!gl || (wish !== "webgl" && emulated(gl))) return byProcessor();
  place.addEventListener("webglcontextlost", byProcessor, { once: true });
  const painter = webglPainter(gl);
  if (painter) settle(painter); else byProcessor();
};

/** Counts of the points in squares, as squares to paint: middles in pixels, colours by the logarithm of the count. */
export const counted = {
  n: 0, most: 0, x: new Float32Array(0), y: new Float32Array(0), colour: new Uint32Array(0), shape: new Uint8Array(0),
  counts: new Uint32Array(0),
};

/** @param {Scene} scene @param {Look} look counts what is in view; squares stay where they are on the map */
export const count = (scene, look) => {
  const { cell } = look, startX = (((look.x % cell) + cell) % cell) - cell, startY = (((look.y % cell) + cell) % cell) - cell;
  const across = Math.ceil((look.width - startX) / cell), down = Math.ceil((look.height - startY) / cell), size = across * down;
  if (counted.counts.length < size) {
    Object.assign(counted, {
      x: new Float32Array(size), y: new Float32Array(size), colour: new Uint32Array(size), shape: new Uint8Array(size).fill(3), counts: new Uint32Array(size),
    });
  }
  const { counts } = counted, offX = look.x - startX, offY = look.y - startY;
  counts.fill(0);
  let most = 0;
  for (let k = scene.chosen; k < scene.n; k++) {
    const a = Math.floor((offX + scene.x[k] * look.scale) / cell), b = Math.floor((offY - scene.y[k] * look.scale) / cell);
    if (a >= 0 && a < across && b >= 0 && b < down && ++counts[b * across + a] > most) most = counts[b * across + a];
  }
  const steps = (scene.scale.length - 1) / Math.log(Math.max(2, most));
  let n = 0;
  for (let b = 0; b < down; b++) for (let a = 0; a < across; a++) {
    const many = counts[b * across + a];
    if (!many) continue;
    counted.x[n] = startX + (a + 0.5) * cell;
    counted.y[n] = startY + (b + 0.5) * cell;
    counted.colour[n++] = scene.scale[Math.round(Math.log(many) * steps)];
  }
  counted.n = n; counted.most = most;
};
