// Names of policies, runs and classes: wherever one stands on the page, it can be pointed at,
// selected by a click (Shift: as B) and isolated by a double click.
import { behaviourColour, colourOf, css, groupColour } from "./colours";
import { app, choose, type Group, isolate, on, set, state } from "./state";

const Dot = ({ colour }: { colour: string }) => <i class="dot" style={{ background: colour }} />;

export const PolicyName = ({ row }: { row: number }) => (
  <button type="button" class="entity" data-row={row}>
    <Dot colour={colourOf(row)} />
    {app.data.label[row]}
  </button>
);

export const RunName = ({ run }: { run: number }) => (
  <button type="button" class="entity" data-run={run}>
    <Dot colour={groupColour(run)} />
    {run < 0 ? "no run" : app.data.groups[run]}
  </button>
);

export const ClassName = ({ number }: { number: number }) => (
  <button type="button" class="entity" data-class={number}>
    <Dot colour={css(behaviourColour(number))} />
    class {number}
  </button>
);

export const KindName = ({ number, colour }: { number: number; colour: string }) => (
  <button type="button" class="entity" data-kind={number}>
    <Dot colour={colour} />
    kind {number}
  </button>
);

export const Badge = ({ side }: { side: number }) => (
  <b class={`badge ${"ab"[side]}`}>{"AB"[side]}</b>
);

const SELECTOR = "[data-pair],[data-row],[data-run],[data-class],[data-kind],[data-episode]";

/** The element of a name that an event is about; null without. */
const named = (event: Event): HTMLElement | null =>
  (event.target as Element | null)?.closest?.(SELECTOR) ?? null;

const groupOf = ({ dataset }: HTMLElement): Group | null =>
  dataset.run !== undefined
    ? { of: "run", number: Number(dataset.run) }
    : dataset.class !== undefined
      ? { of: "class", number: Number(dataset.class) }
      : dataset.kind !== undefined
        ? { of: "kind", number: Number(dataset.kind) }
        : null;

const select = (node: HTMLElement, shift: boolean) => {
  const { pair, row, run, class: number, episode } = node.dataset;
  if (pair !== undefined) {
    const [a, b] = pair.split(" ").map(Number);
    set({ a, b, run: -1 });
  } else if (row !== undefined) choose(Number(row), shift);
  else if (run !== undefined) set({ run: Number(run) === state.run ? -1 : Number(run) });
  else if (episode !== undefined) set({ episode: Number(episode), tab: "episodes" });
  else if (number !== undefined) {
    const own = app.data.behaviour.map((b) => (b === Number(number) ? 1 : 0)),
      same = state.selection?.every((is, i) => is === own[i]);
    set({ selection: same ? null : Uint8Array.from(own) });
  }
};

/** Mark all names of what is under the pointer, and of what is selected. */
const mark = () => {
  for (const node of document.querySelectorAll(".lit")) node.classList.remove("lit");
  const { hovered, lit } = state;
  if (hovered >= 0)
    for (const node of document.querySelectorAll(`[data-row="${hovered}"]`))
      node.classList.add("lit");
  if (lit)
    for (const node of document.querySelectorAll(`[data-${lit.of}="${lit.number}"]`))
      node.classList.add("lit");
};

export const startEntities = () => {
  let before: Partial<typeof state> = {};
  document.addEventListener("click", (event) => {
    const node = named(event);
    if (!node || String(getSelection())) return; // unless text was marked
    if (event.detail < 2) {
      before = { a: state.a, b: state.b, run: state.run, selection: state.selection };
      select(node, event.shiftKey);
      return;
    }
    if (event.detail > 2) return;
    const row = Number(node.dataset.row ?? -1),
      group =
        groupOf(node) || (row >= 0 ? { of: "run" as const, number: app.data.group[row] } : null);
    if (!group || group.of === "kind") return;
    set(before); // the first click of two selects nothing
    isolate(group);
  });
  document.addEventListener("pointerover", (event) => {
    const node = named(event),
      row = Number(node?.dataset.row ?? -1);
    if (node && row >= 0) set({ hovered: row, lit: null });
    else if (node) set({ lit: groupOf(node), hovered: -1 });
    else if (state.lit || !(event.target as Element).closest("canvas, svg"))
      set({ lit: null, hovered: -1 });
  });
  on("hovered lit data", mark);
};
