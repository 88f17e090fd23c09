// Canvases as sharp as the screen, in the colours of the page; what is out of sight waits.

/** @param {HTMLCanvasElement} canvas @param {number} width in the page's pixels @param {number} height @returns {CanvasRenderingContext2D} */
export const sharpPen = (canvas, width, height) => {
  const ratio = Math.min(2, window.devicePixelRatio || 1), pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const wide = Math.round(width * ratio), tall = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== tall) { canvas.width = wide; canvas.height = tall; }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px " + getComputedStyle(document.documentElement).fontFamily;
  pen.textBaseline = "middle";
  return pen;
};

/** @param {string} name of a variable of the styles, without its dashes @returns {string} */
export const pageColour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

/** @param {CanvasRenderingContext2D} pen @param {string} text @param {number} room in pixels @returns {string} with its middle left out where it is too long */
export const fittingText = (pen, text, room) => {
  const share = room / pen.measureText(text).width;
  return share >= 1 ? text : squeezed(text, Math.max(3, Math.floor(text.length * share)));
};

/** @param {string} text @param {number} room for so many letters; ends often tell more than the middle */
export const squeezed = (text, room) => (text.length > room ? text.slice(0, Math.floor(room * 0.4)) + "…" + text.slice(-Math.max(1, Math.floor(room * 0.6) - 1)) : text);

/** @param {any} node @param {() => void} work @returns {() => void} asks for the work, which is done once the node is in sight */
export const whenInSight = (node, work) => {
  let inSight = false, wanted = false;
  new IntersectionObserver(([entry]) => {
    inSight = entry.isIntersecting;
    if (inSight && wanted) { wanted = false; work(); }
  }, { rootMargin: "150px" }).observe(node);
  return () => { if (inSight) work(); else wanted = true; };
};

/** @param {HTMLElement} tip @param {number} x where it points to @param {number} y @param {number} width of what it lies on @param {number} height */
export const placeTip = (tip, x, y, width, height) => {
  tip.hidden = false;
  const left = x + 16 + tip.offsetWidth > width ? x - 16 - tip.offsetWidth : x + 16;
  tip.style.left = Math.max(4, Math.min(width - tip.offsetWidth - 4, left)) + "px";
  tip.style.top = Math.max(4, Math.min(height - tip.offsetHeight - 4, y - tip.offsetHeight / 2)) + "px";
};
