// The map by keys: walking between policies, choosing them, moving and zooming.
import { announce, byId, whole } from "../format";
import { app, set, state } from "../state";
import { dropLasso, lassoPressed, outline, pressLasso } from "./lasso";
import { fitRows, lookAt, moveBy, screenX, screenY, view, zoomAt } from "./map";
import { factsOf } from "./overlay";
import { crowdAt } from "./pointer";

export const WAYS: Record<string, number[]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Returns the policy shown of the least cost, −1 if all are infinite. */
const cheapest = (cost: (i: number) => number): number => {
  let best = -1,
    least = Infinity;
  for (let i = 0; i < app.data.n; i++)
    if (state.shown[i]) {
      const c = cost(i);
      if (c < least) {
        least = c;
        best = i;
      }
    }
  return best;
};

/** What a step by an arrow key costs: infinite unless it is within 45° of the way. */
export const costOf = (dx: number, dy: number, [ux, uy]: number[]): number => {
  const along = dx * ux + dy * uy,
    across = Math.abs(dx * uy + dy * ux);
  return along > 0 && across <= along ? along + 2 * across : Infinity;
};

/** Returns the nearest policy that way, within 45° to both sides; −1 without. */
const nextTo = (from: number, way: number[]): number => {
  const { x, y } = app.data,
    px = screenX(x[from]),
    py = screenY(y[from]);
  return cheapest((i) => {
    const dx = screenX(x[i]) - px,
      dy = screenY(y[i]) - py;
    // Policies at the very same place follow each other by their number.
    if (!dx && !dy)
      return (i - from) * (way[0] + way[1]) > 0 ? Math.abs(i - from) * 1e-9 : Infinity;
    return costOf(dx, dy, way);
  });
};

const walk = (way: number[]) => {
  const { hovered, a, shown } = state,
    { x, y, label } = app.data;
  const i = shown[hovered]
    ? nextTo(hovered, way)
    : shown[a]
      ? a
      : cheapest((k) => (x[k] - view.x) ** 2 + (y[k] - view.y) ** 2);
  if (i < 0) {
    announce("No policy further that way");
    return;
  }
  lookAt(i);
  set({ hovered: i });
  const { n } = crowdAt(i);
  announce(
    [
      label[i],
      ...factsOf(i).map((fact) => fact.join(" ")),
      ...(n ? [`${whole(n)} more here`] : []),
    ].join(", "),
  );
};

/** Let go of what was taken last. */
const letGo = () => {
  if (outline.length || lassoPressed()) {
    dropLasso();
    pressLasso(false);
  } else
    set(
      state.selection
        ? { selection: null }
        : state.hovered >= 0
          ? { hovered: -1 }
          : { a: -1, b: -1 },
    );
};

export const startKeys = () => {
  byId("map-overlay").addEventListener("keydown", (event: KeyboardEvent) => {
    const { key, shiftKey } = event,
      way = WAYS[key],
      moves = event.ctrlKey || event.altKey || event.metaKey,
      i = state.hovered;
    if (way && moves) moveBy(-60 * way[0], -60 * way[1]);
    else if (moves) return;
    else if (way) walk(way);
    else if (key === "Enter") {
      if (i >= 0) {
        set(shiftKey ? { b: i } : { a: i });
        announce(`${app.data.label[i]} is ${shiftKey ? "B" : "A"}`);
      }
    } else if (key === "+" || key === "=") zoomAt(1.3);
    else if (key === "-" || key === "−") zoomAt(1 / 1.3);
    else if (key === "0") fitRows();
    else if (key === "Escape") letGo();
    else return;
    event.preventDefault();
  });
};
