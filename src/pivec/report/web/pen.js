// What canvases need: as sharp as the screen, in the colours of the page, drawn once in sight.

/** @param {HTMLCanvasElement} canvas @param {number} width in the page's pixels @param {number} height @returns {CanvasRenderingContext2D} */
export const sharpPen = (canvas, width, height) => {
  const ratio = Math.min(2, devicePixelRatio), pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  pen.scale(ratio, ratio);
  pen.font = "12px " + getComputedStyle(document.documentElement).fontFamily; pen.textBaseline = "middle";
  return pen;
};

/** @param {string} id of a variable of the styles, without its dashes @returns {string} */
export const pageColour = (id) => getComputedStyle(document.documentElement).getPropertyValue("--" + id).trim();

/** @param {CanvasRenderingContext2D} pen strokes its path so that it is seen on any colour @param {string} colour @param {number} width */
export const strokeTwice = (pen, colour, width) => {
  pen.lineWidth = width + 2; pen.strokeStyle = pageColour("paper"); pen.stroke();
  pen.lineWidth = width; pen.strokeStyle = colour; pen.stroke();
};

/** @param {any} node @param {() => void} work @returns {() => void} asks for the work, which is done once the node is in sight */
export const whenInSight = (node, work) => {
  let inSight = false, wanted = false;
  const act = () => { if (inSight && wanted) { wanted = false; work(); } };
  new IntersectionObserver(([entry]) => { inSight = entry.isIntersecting; act(); }, { rootMargin: "150px" }).observe(node);
  return () => { wanted = true; act(); };
};

/** @param {HTMLElement} tip @param {number} x where it points to @param {number} y @param {HTMLElement} on what it lies */
export const placeTip = (tip, x, y, on) => {
  tip.hidden = false;
  const { offsetWidth: wide, offsetHeight: tall } = tip, left = x + 16 + wide > on.clientWidth ? x - 16 - wide : x + 16;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, Math.min(on.clientHeight - tall - 4, y - tall / 2)) + "px";
};
