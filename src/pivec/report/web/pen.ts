// What canvases need: as sharp as the screen, in the colours of the page, drawn once in sight.

/** `width`: in the page's pixels. */
export const sharpPen = (
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
): CanvasRenderingContext2D => {
  const ratio = Math.min(2, devicePixelRatio),
    pen = canvas.getContext("2d") as CanvasRenderingContext2D;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  pen.scale(ratio, ratio);
  pen.font = "12px " + getComputedStyle(document.documentElement).fontFamily;
  pen.textBaseline = "middle";
  return pen;
};

/** `id`: of a variable of the styles, without its dashes. */
export const pageColour = (id: string): string =>
  getComputedStyle(document.documentElement)
    .getPropertyValue("--" + id)
    .trim();

/** `pen`: strokes its path so that it is seen on any colour. */
export const strokeTwice = (pen: CanvasRenderingContext2D, colour: string, width: number) => {
  pen.lineWidth = width + 2;
  pen.strokeStyle = pageColour("paper");
  pen.stroke();
  pen.lineWidth = width;
  pen.strokeStyle = colour;
  pen.stroke();
};

/** Returns asks for the work, which is done once the node is in sight. */
export const whenInSight = (node: any, work: () => void): (() => void) => {
  let inSight = false,
    wanted = false;
  const act = () => {
    if (inSight && wanted) {
      wanted = false;
      work();
    }
  };
  new IntersectionObserver(
    ([entry]) => {
      inSight = entry.isIntersecting;
      act();
    },
    { rootMargin: "150px" },
  ).observe(node);
  return () => {
    wanted = true;
    act();
  };
};

/** `x`: where it points to; `on`: what it lies. */
export const placeTip = (tip: HTMLElement, x: number, y: number, on: HTMLElement) => {
  tip.hidden = false;
  const { offsetWidth: wide, offsetHeight: tall } = tip,
    left = x + 16 + wide > on.clientWidth ? x - 16 - wide : x + 16;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, Math.min(on.clientHeight - tall - 4, y - tall / 2)) + "px";
};

/** Whether a wheel would scroll the page, or a part of it that the node is in. */
export const scrolls = (node: Element | null): boolean => {
  for (let at = node; at; at = at.parentElement)
    if (
      at.scrollHeight > at.clientHeight + 1 &&
      (at === document.documentElement || /auto|scroll/.test(getComputedStyle(at).overflowY))
    )
      return true;
  return false;
};
