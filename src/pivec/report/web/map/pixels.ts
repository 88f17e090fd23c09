// The painter without a graphics card: discs of offsets worked out beforehand, written into the pixels.
import type { Look, Scene } from "./painter";
import { count, counted } from "./painter";

/** offsets of pixels covered wholly, and of others with their shares of 256 */
export type Stamp = { inner: Int32Array; rim: Int32Array; cover: Int32Array; fill: Int32Array };

/** `over`: packed colours; `share`: of 256. */
export const mixed = (under: number, over: number, share: number) => {
  const rb = under & 0xff00ff,
    g = under & 0xff00;
  return (
    ((rb + (Math.imul((over & 0xff00ff) - rb, share) >> 8)) & 0xff00ff) |
    ((g + (Math.imul((over & 0xff00) - g, share) >> 8)) & 0xff00) |
    0xff000000
  );
};

/** `phase`: of the middle, in quarters of a pixel. */
const stamped = (shape: number, phase: number, look: Look, stride: number): Stamp => {
  const diamond = (shape & 3) === 1,
    r = look.radius * ((shape & 3) === 2 ? 0.62 : diamond ? 1.15 / Math.SQRT2 : 1);
  const half = (shape & 4 ? look.hollow : look.edge) / 2,
    reach = Math.ceil(1.5 * (r + half)) + 2;
  const share = (value: number) => Math.round(256 * Math.min(1, Math.max(0, value + 0.5)));
  const [inner, rim, cover, fill]: number[][] = [[], [], [], []];
  for (let v = -reach; v <= reach; v++)
    for (let u = -reach; u <= reach; u++) {
      const dx = Math.abs(u + 0.5 - (phase & 3) / 4),
        dy = Math.abs(v + 0.5 - (phase >> 2) / 4),
        far = diamond ? (dx + dy) / Math.SQRT2 : Math.hypot(dx, dy);
      const outside = share(r + half - far),
        inside = half ? share(r - half - far) : 256;
      if (outside + inside === 512) inner.push(v * stride + u);
      else if (outside) {
        rim.push(v * stride + u);
        cover.push(outside);
        fill.push(inside);
      }
    }
  return {
    inner: Int32Array.from(inner),
    rim: Int32Array.from(rim),
    cover: Int32Array.from(cover),
    fill: Int32Array.from(fill),
  };
};

export const pixelPainter = (canvas: HTMLCanvasElement): import("./painter").Painter => {
  const pen = canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
  let scene: Scene;
  let image: ImageData;
  let buffer = new Uint32Array(0),
    wide = 0,
    tall = 0,
    pad = -1,
    form = "";
  let stamps: Stamp[] = [];

  /** Goes along the longer direction, a column of pixels across at a time. Bands cover each other without adding up; `alpha`: of 256, 0 for bands; `hidden`: of both ends, by points. */
  const line = (
    x0: number,
    y0: number,
    x1: number,
    y1: number,
    colour: number,
    half: number,
    alpha: number,
    hidden: number,
  ) => {
    if (
      (x0 < 0 && x1 < 0) ||
      (y0 < 0 && y1 < 0) ||
      (x0 > wide && x1 > wide) ||
      (y0 > tall && y1 > tall)
    )
      return;
    const dx = x1 - x0,
      dy = y1 - y0,
      long = Math.sqrt(dx * dx + dy * dy),
      steep = Math.abs(dy) > Math.abs(dx);
    if (long <= 2 * hidden) return;
    const cut = hidden / long,
      slope = steep ? dx / dy : dy / dx,
      reach = half * Math.sqrt(1 + slope * slope) + 0.5;
    const a0 = steep ? y0 + cut * dy : x0 + cut * dx,
      a1 = steep ? y1 - cut * dy : x1 - cut * dx,
      b0 = steep ? x0 + cut * dx : y0 + cut * dy;
    const most = (steep ? wide : tall) - reach,
      enter = a0 + (reach - b0) / slope,
      leave = a0 + (most - b0) / slope; // where it crosses the border
    if (!slope && !(b0 > reach && b0 < most)) return;
    const first = Math.ceil(Math.max(0, Math.min(a0, a1) - 0.5, Math.min(enter, leave))) | 0,
      last =
        Math.ceil(Math.min(steep ? tall : wide, Math.max(a0, a1) - 0.5, Math.max(enter, leave))) |
        0;
    const along = steep ? wide : 1,
      across = steep ? 1 : wide,
      { paper } = scene,
      darker = (colour & 0xff00) < (paper & 0xff00),
      pixels = buffer,
      ink = colour | 0;
    for (let u = first, v = b0 + slope * (first + 0.5 - a0); u < last; u++, v += slope) {
      const end = (v + reach - 0.5) | 0;
      for (let w = (v - reach + 0.5) | 0; w <= end; w++) {
        let cover = reach - Math.abs(w + 0.5 - v);
        if (cover > 1) cover = 1;
        const at = u * along + w * across;
        if (alpha) pixels[at] = mixed(pixels[at] | 0, ink, (cover * alpha) | 0);
        else {
          const over = mixed(paper, ink, (cover * 256) | 0);
          if (darker === (over & 0xff00) < (pixels[at] & 0xff00)) pixels[at] = over;
        }
      }
    }
  };
  /** `colours`: of lines, null for bands. */
  const drawLines = (look: Look, n: number, ends: Float32Array, colours: Uint32Array | null) => {
    const x = look.x + pad,
      y = look.y + pad,
      s = look.scale,
      half = colours ? look.line : look.band,
      hidden = colours ? Math.max(0, look.radius - 0.5) : 0;
    for (let k = 0; k < n && half; k++) {
      const e = 4 * k;
      line(
        x + ends[e] * s,
        y - ends[e + 1] * s,
        x + ends[e + 2] * s,
        y - ends[e + 3] * s,
        colours ? colours[k] : scene.band,
        half,
        colours ? 256 * look.alpha : 0,
        hidden,
      );
    }
  };
  const drawPoints = (look: Look) => {
    const { n, points, colour, shape, paper } = scene,
      s = look.scale,
      pixels = buffer;
    const offX = look.x + pad,
      offY = look.y + pad,
      far = pad / 2,
      right = wide - far,
      low = tall - far;
    for (let k = 0; k < n; k++) {
      const px = Math.floor((offX + points[2 * k] * s) * 4 + 0.5),
        py = Math.floor((offY - points[2 * k + 1] * s) * 4 + 0.5),
        left = px >> 2,
        top = py >> 2;
      if (!(left > far && left < right && top > far && top < low)) continue;
      const phase = ((py & 3) << 2) | (px & 3),
        kind = (shape[k] << 4) | phase;
      const { inner, rim, cover, fill } =
        stamps[kind] || (stamps[kind] = stamped(shape[k], phase, look, wide));
      const at = top * wide + left,
        hollow = shape[k] & 4,
        body = (hollow ? paper : colour[k]) | 0,
        edge = (hollow ? scene.rim : paper) | 0;
      for (let j = 0; j < inner.length; j++) pixels[at + inner[j]] = body;
      if (hollow || look.edge)
        for (let j = 0; j < rim.length; j++)
          pixels[at + rim[j]] = mixed(
            pixels[at + rim[j]] | 0,
            mixed(edge, body, fill[j]),
            cover[j],
          );
      else
        for (let j = 0; j < rim.length; j++)
          pixels[at + rim[j]] = mixed(pixels[at + rim[j]] | 0, body, cover[j]);
    }
  };
  const drawCounts = (look: Look) => {
    count(scene, look);
    const { n, points, colour } = counted,
      half = look.cell / 2;
    for (let k = 0; k < n; k++) {
      const x = points[2 * k] + pad,
        y = pad - points[2 * k + 1],
        low = Math.round(y + half);
      for (let v = Math.round(y - half); v < low; v++)
        buffer.fill(colour[k], v * wide + Math.round(x - half), v * wide + Math.round(x + half));
    }
  };
  return {
    name: "pixels",
    load: (given) => {
      scene = given;
    },
    paint: (look) => {
      const around = 16 * Math.ceil((3 * look.radius + 9) / 16); // twice what a point reaches, so that none has to be clipped
      const renewed = [look.width, look.height, around, look.radius, look.edge, look.hollow].join();
      if (renewed !== form) {
        stamps = [];
        form = renewed;
      }
      if (canvas.width !== look.width || canvas.height !== look.height || pad !== around) {
        Object.assign(canvas, { width: look.width, height: look.height });
        pad = around;
        wide = look.width + 2 * pad;
        tall = look.height + 2 * pad;
        image = new ImageData(wide, tall);
        buffer = new Uint32Array(image.data.buffer);
      }
      buffer.fill(scene.paper);
      if (look.cell) drawCounts(look);
      else {
        drawLines(look, scene.nBands, scene.bands, null);
        drawLines(look, scene.nLines, scene.lines, scene.lineColour);
        drawPoints(look);
      }
      pen.putImageData(image, -pad, -pad);
    },
  };
};
