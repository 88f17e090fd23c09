// Names on the map: the most important first, each where it covers no other name and few points.

/** A name, the place it belongs to, and how far it keeps from it; pixels. */
export interface Wanted {
  text: string;
  x: number;
  y: number;
  gap: number;
  /** Width of the text. */
  width: number;
  /** Must be shown, even over points. */
  must?: boolean;
}
export interface Placed {
  /** Number of the name among those wanted. */
  of: number;
  /** Left end and middle of the text. */
  x: number;
  y: number;
}
type Box = [left: number, top: number, right: number, bottom: number];

export const LINE = 15; // height of a name

const overlaps = (p: Box, q: Box) => p[0] < q[2] && q[0] < p[2] && p[1] < q[3] && q[1] < p[3];

/** Where a name can be: to the right, left, above and below, and at the corners. */
const boxesOf = ({ x, y, gap, width }: Wanted): Box[] => {
  const half = LINE / 2,
    slant = 0.7 * gap;
  const at = (left: number, middle: number): Box => [
    left,
    middle - half,
    left + width,
    middle + half,
  ];
  return [
    at(x + gap, y),
    at(x - gap - width, y),
    at(x - width / 2, y - gap - half),
    at(x - width / 2, y + gap + half),
    at(x + slant, y - slant - half),
    at(x + slant, y + slant + half),
    at(x - slant - width, y - slant - half),
    at(x - slant - width, y + slant + half),
  ];
};

/**
 * Place as many names as there is room for, in their order.
 *
 * `points` are x, y, x, y of points that names should not cover, `radius` their size.
 */
export const placeLabels = (
  wanted: Wanted[],
  points: ArrayLike<number>,
  radius: number,
  width: number,
  height: number,
): Placed[] => {
  const taken: Box[] = [],
    placed: Placed[] = [];
  const covered = ([left, top, right, bottom]: Box) => {
    let n = 0;
    for (let k = 0; k < points.length; k += 2)
      if (
        points[k] > left - radius &&
        points[k] < right + radius &&
        points[k + 1] > top - radius &&
        points[k + 1] < bottom + radius
      )
        n++;
    return n;
  };
  wanted.forEach((name, of) => {
    const inside = boxesOf(name).filter(
      (box) => box[0] >= 2 && box[1] >= 2 && box[2] <= width - 2 && box[3] <= height - 2,
    );
    const free = inside.filter((box) => !taken.some((other) => overlaps(box, other)));
    let best: Box | undefined = free.find((box) => !covered(box));
    if (!best && name.must)
      best = [...(free.length ? free : inside)].sort((p, q) => covered(p) - covered(q))[0];
    if (!best) return;
    taken.push(best);
    placed.push({ of, x: best[0], y: (best[1] + best[3]) / 2 });
  });
  return placed;
};
