// Mouse and touch on the map, and which policy is under them.
import { byId, framed } from "../format";
import { app, choose, set, state } from "../state";
import { dropLasso, endLasso, extendLasso, lassoPressed, outline } from "./lasso";
import { extent, mapX, mapY, moveBy, screenX, screenY, view, zoomAt } from "./map";

/** Cells of the plane with the rows in each, so that few policies have to be looked at. */
const mapGrid = { side: 1, start: new Uint32Array(2), rows: new Uint32Array(0) };
/** `share`: of the half of what policies span, from the middle. */
const cellOf = (share: number) =>
  Math.min(mapGrid.side - 1, Math.max(0, Math.floor((share + 1) * 0.5 * mapGrid.side))) || 0;
const columnOf = (x: number) => cellOf((x - extent.x) / extent.halfX) * mapGrid.side;
const lineOf = (y: number) => cellOf((y - extent.y) / extent.halfY);

export const makeGrid = () => {
  const { x, y, n } = app.data,
    side = (mapGrid.side = Math.min(512, Math.ceil(Math.sqrt(n / 4))));
  const cells = Uint32Array.from(x, (v, i) => columnOf(v) + lineOf(y[i])),
    start = new Uint32Array(side * side + 1),
    rows = new Uint32Array(n);
  for (const c of cells) start[c + 1]++;
  for (let c = 0; c < side * side; c++) start[c + 1] += start[c];
  const next = start.slice();
  cells.forEach((c, i) => {
    rows[next[c]++] = i;
  });
  Object.assign(mapGrid, { start, rows });
};

/** `py`: pixels; `visit`: gets rows that are shown and no farther, and their squared distance. */
const visitNear = (
  px: number,
  py: number,
  reach: number,
  visit: (i: number, far: number) => void,
) => {
  const { x, y } = app.data,
    { start, rows, side } = mapGrid,
    d = reach / view.scale,
    mx = mapX(px),
    my = mapY(py),
    low = lineOf(my - d),
    high = lineOf(my + d) + 1;
  for (let c = columnOf(mx - d), last = columnOf(mx + d); c <= last; c += side)
    for (let k = start[c + low]; k < start[c + high]; k++) {
      const i = rows[k],
        far = (screenX(x[i]) - px) ** 2 + (screenY(y[i]) - py) ** 2;
      if (state.shown[i] && far <= reach * reach) visit(i, far);
    }
};

/** Returns the nearest policy that is shown, −1 without. */
const nearestAt = (px: number, py: number, reach: number): number => {
  let best = -1,
    least = Infinity;
  visitNear(px, py, reach, (i, far) => {
    const weight = far + (app.data.reference[i] ? 30 : 0);
    if (weight < least) {
      least = weight;
      best = i;
    }
  });
  return best;
};

/** Returns how many others lie about where it is, and the nearest of them. */
export const crowdAt = (i: number): { n: number; nearest: number[] } => {
  let others: number[][] = [];
  let n = 0;
  visitNear(screenX(app.data.x[i]), screenY(app.data.y[i]), Math.max(4, view.radius), (j, far) => {
    if (j === i) return;
    n++;
    others.push([far, j]);
    if (others.length > 99) others = others.sort((a, b) => a[0] - b[0]).slice(0, 8);
  });
  return {
    n,
    nearest: others
      .sort((a, b) => a[0] - b[0])
      .slice(0, 8)
      .map(([, j]) => j),
  };
};

export const startPointer = () => {
  const plane = byId("map-overlay"),
    pointed = { x: 0, y: 0 };
  const held: Map<number, { x: number; y: number }> = new Map();
  let start = pointed,
    dragged = false,
    clicked = -1e9,
    before = { a: -1, b: -1 };
  const place = (event: MouseEvent) => {
    const box = plane.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const under = (at: { x: number; y: number }, least = 12) =>
    nearestAt(at.x, at.y, Math.max(least, view.radius + 4));
  const lookUp = framed(() => set({ hovered: under(pointed) }));
  const hover = (at: { x: number; y: number }) => {
    Object.assign(pointed, at);
    lookUp();
  };
  const listen = (
    kinds: string,
    tell: (event: any, at: { x: number; y: number }, touch: boolean) => void,
  ) => {
    for (const kind of kinds.split(" "))
      plane.addEventListener(
        kind,
        (event: any) => tell(event, place(event), event.pointerType === "touch"),
        { passive: false },
      );
  };

  // Wheel and finger scroll a page that scrolls, unless the map is meant.
  const scrolls = () => document.documentElement.scrollHeight > innerHeight + 1,
    isActive = () => document.activeElement === plane;
  const follow = () => plane.classList.toggle("whole", !scrolls());
  new ResizeObserver(follow).observe(document.body);
  follow();
  let hinted = 0;
  const hint = () => {
    const words = byId("map-hint");
    words.textContent = "Ctrl + wheel zooms; so does the wheel after a click on the map";
    words.hidden = false;
    clearTimeout(hinted);
    hinted = window.setTimeout(() => {
      words.hidden = true;
    }, 1500);
  };
  listen("wheel", (event, at) => {
    if (!event.ctrlKey && !isActive() && scrolls()) return hint();
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1),
      speed = event.ctrlKey && Math.abs(pixels) < 50 ? 0.01 : 0.0022; // a pinch on a touchpad
    zoomAt(Math.exp(-speed * Math.max(-200, Math.min(200, pixels))), at.x, at.y);
    hover(at);
  });
  // Two fingers belong to the map, one to the page.
  for (const kind of ["touchstart", "touchmove"])
    plane.addEventListener(
      kind,
      (event: TouchEvent) => {
        if (event.touches.length > 1 && event.cancelable) event.preventDefault();
      },
      { passive: false },
    );
  listen("pointerdown", (event, at) => {
    if (event.button) return;
    plane.setPointerCapture(event.pointerId);
    held.set(event.pointerId, at);
    dragged = held.size > 1;
    start = at;
    if (dragged) dropLasso();
    else if (lassoPressed() || event.shiftKey) extendLasso(mapX(at.x), mapY(at.y));
  });
  listen("pointermove", (event, at, touch) => {
    const was = held.get(event.pointerId);
    if (!was) {
      if (!touch) hover(at);
      return;
    }
    if (!dragged && Math.hypot(at.x - start.x, at.y - start.y) < (touch ? 8 : 3)) return;
    if (!dragged && !touch) set({ hovered: -1 });
    dragged = true;
    plane.classList.add("dragging");
    held.set(event.pointerId, at);
    if (outline.length) extendLasso(mapX(at.x), mapY(at.y));
    else if (held.size === 2) {
      const [other] = [...held.entries()]
        .filter(([id]) => id !== event.pointerId)
        .map(([, p]) => p);
      moveBy((at.x - was.x) / 2, (at.y - was.y) / 2);
      zoomAt(
        Math.max(1, Math.hypot(at.x - other.x, at.y - other.y)) /
          Math.max(1, Math.hypot(was.x - other.x, was.y - other.y)),
        (at.x + other.x) / 2,
        (at.y + other.y) / 2,
      );
    } else if (!touch || !scrolls()) moveBy(at.x - was.x, at.y - was.y);
  });
  listen("pointerup pointercancel", (event, at, touch) => {
    if (!held.delete(event.pointerId) || held.size) return;
    plane.classList.remove("dragging");
    if (outline.length) {
      if (dragged && event.type === "pointerup") endLasso();
      else dropLasso();
    }
    if (dragged || event.type === "pointercancel") {
      if (!touch) hover(at);
      return;
    }
    const i = under(at, touch ? 24 : 12);
    // A touch shows the name and keeps it; a second one at the same place chooses.
    if (touch && i !== state.hovered) return set({ hovered: i });
    if (event.timeStamp - clicked < 400) return undefined; // the second click of two
    clicked = touch ? -1e9 : event.timeStamp;
    before = { a: state.a, b: state.b };
    return i < 0 ? undefined : choose(i, event.shiftKey);
  });
  listen("pointerleave", (_, _at, touch) => {
    if (!touch && !held.size) set({ hovered: -1 });
  });
  listen("dblclick", (_, at) => {
    if (clicked > 0) {
      set(before);
      zoomAt(2, at.x, at.y);
    }
  });
};
