// The dock below the map: tabs, and its height.
import { behaviourColour, css, groupColour } from "./colours";
import { byId } from "./format";
import { app, on, set, state } from "./state";

const tabs = (): HTMLElement[] => [...byId("tabs").querySelectorAll("[role=tab]")] as HTMLElement[];
const nameOf = (tab: HTMLElement) => tab.id.slice("open-".length);

const show = () => {
  const all = tabs(),
    wanted = state.tab || (app.data.n === 1 ? "episodes" : ""),
    chosen = all.find((tab) => nameOf(tab) === wanted) || all[0];
  for (const tab of all) {
    const is = tab === chosen;
    tab.ariaSelected = String(is);
    tab.tabIndex = is ? 0 : -1;
    byId("tab-" + nameOf(tab)).hidden = !is;
  }
};

const press = (event: KeyboardEvent) => {
  const all = tabs(),
    at = all.indexOf(event.target as HTMLElement),
    goal: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 };
  if (!(event.key in goal)) return;
  const tab = all.at(goal[event.key] % all.length) as HTMLElement;
  set({ tab: nameOf(tab) });
  tab.focus();
  event.preventDefault();
};

/** Names that Python wrote get the colours of runs and classes that this scheme has. */
const recolour = () => {
  for (const dot of document.querySelectorAll<HTMLElement>("#dock tr > * > .entity > .dot")) {
    const { run, class: number } = (dot.parentElement as HTMLElement).dataset;
    if (run !== undefined) dot.style.background = groupColour(Number(run));
    if (number !== undefined) dot.style.background = css(behaviourColour(Number(number)));
  }
};

/** The line between map and dock moves by mouse, touch and arrow keys. */
const splitter = () => {
  const line = byId("splitter"),
    bench = byId("bench");
  const resize = (share: number) => {
    const part = Math.min(0.8, Math.max(0.12, share));
    bench.style.setProperty("--dock", `${(100 * part).toFixed(1)}%`);
    line.ariaValueNow = (100 * part).toFixed(0);
  };
  line.addEventListener("pointerdown", (event: PointerEvent) => {
    line.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  line.addEventListener("pointermove", (event: PointerEvent) => {
    if (!line.hasPointerCapture(event.pointerId)) return;
    const { bottom, height } = bench.getBoundingClientRect();
    resize((bottom - event.clientY) / height);
  });
  line.addEventListener("keydown", (event: KeyboardEvent) => {
    const way = { ArrowUp: 0.05, ArrowDown: -0.05 }[event.key];
    if (!way) return;
    resize(Number(line.ariaValueNow) / 100 + way);
    event.preventDefault();
  });
};

export const dockPart = () => {
  byId("tabs").addEventListener("click", (event: Event) => {
    const tab = (event.target as Element).closest("[role=tab]");
    if (tab) set({ tab: nameOf(tab as HTMLElement) });
  });
  byId("tabs").addEventListener("keydown", press);
  on("tab data", show);
  on("colour data", recolour);
  document.addEventListener("pivec-renewed", recolour);
  recolour();
  if (byId("splitter")) splitter();
  show();
  return app;
};
