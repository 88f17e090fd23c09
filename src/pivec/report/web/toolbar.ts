// The tools above the map: search, colour, runs, training steps, saving and the link.

import { colourings, groupColour } from "./colours";
import { tableText } from "./csv";
import { announce, byId, framed, make, whole } from "./format";
import { link } from "./link";
import { fitAll, lookAt } from "./map/map";
import { app, on, set, state } from "./state";

const LISTED = 200; // runs in the menu; the others are found by their names

const report = (words: string) => {
  byId("tool-status").textContent = words;
};

const searchTool = () => {
  const field = byId("search"),
    { data } = app;
  let timer = 0;
  field.value = state.query;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => set({ query: field.value }), data.n > 50000 ? 200 : 0);
  });
  field.addEventListener("keydown", (event: KeyboardEvent) => {
    if (event.key !== "Enter") return;
    set({ query: field.value });
    const first = app.data.order.find((i) => state.shown[i] === 1);
    if (first === undefined) return;
    set(event.shiftKey ? { b: first, hovered: first } : { a: first, hovered: first });
    lookAt(first);
  });
  on("shown", () => {
    if (field.value !== state.query) field.value = state.query;
    const all = state.nShown === app.data.n;
    byId("search-count").textContent = all ? "" : `${whole(state.nShown)} of ${whole(app.data.n)}`;
  });
};

const colourTool = () => {
  const choice = byId("colour");
  const fill = () => {
    const known = colourings();
    if (!known.some(({ id }) => id === state.colour)) set({ colour: known[0].id });
    choice.replaceChildren(
      ...known.map(({ id, name }) => {
        const option = make("option", name);
        option.value = id;
        return option;
      }),
    );
    choice.value = state.colour;
  };
  choice.addEventListener("change", () => set({ colour: choice.value }));
  on("data", fill);
  on("colour", () => {
    choice.value = state.colour;
  });
  fill();
};

const runsTool = () => {
  const list = byId("runs-list"),
    menu = byId("runs-menu"),
    finder = make("input"),
    rows = make("div", undefined, "runs");
  finder.type = "search";
  finder.placeholder = "Find a run";
  finder.setAttribute("aria-label", "Find a run");
  const button = (text: string, hidden: () => number[]) => {
    const node = make("button", text, "plain");
    node.type = "button";
    node.addEventListener("click", () => set({ hidden: new Set(hidden()) }));
    return node;
  };
  const everything = () => [...app.data.groups.keys(), ...others().map(([g]) => g)];
  const others = () => {
    const { data } = app,
      lone = data.group.some((g, i) => g < 0 && !data.reference[i]),
      old = data.reference.some(Boolean);
    return [...(lone ? [[-1, "no run"]] : []), ...(old ? [[-2, "earlier map"]] : [])] as [
      number,
      string,
    ][];
  };
  const draw = () => {
    const { data } = app,
      part = finder.value.toLowerCase();
    const named = [...others(), ...data.groups.map((name, g) => [g, name] as [number, string])];
    const fitting = named.filter(([, name]) => name.toLowerCase().includes(part));
    rows.replaceChildren(
      ...fitting.slice(0, LISTED).map(([g, name]) => {
        const row = make("label", undefined, "tick"),
          box = make("input"),
          dot = make("i", undefined, "dot");
        box.type = "checkbox";
        box.checked = !state.hidden.has(g);
        dot.style.background = groupColour(g);
        box.addEventListener("change", () => {
          const hidden = new Set(state.hidden);
          if (box.checked) hidden.delete(g);
          else hidden.add(g);
          set({ hidden });
        });
        row.append(box, dot, make("span", name));
        return row;
      }),
    );
    if (fitting.length > LISTED)
      rows.append(make("p", `and ${whole(fitting.length - LISTED)} more`, "hint"));
    menu.firstElementChild.textContent = state.hidden.size
      ? `Runs (${whole(everything().length - state.hidden.size)} of ${whole(everything().length)})`
      : "Runs";
    menu.hidden = everything().length < 2;
  };
  const top = make("div", undefined, "actions");
  top.append(
    button("All", () => []),
    button("None", everything),
  );
  list.append(finder, top, rows);
  finder.addEventListener("input", draw);
  on("hidden data", draw);
  draw();
};

const ticks = () => {
  for (const name of ["lines", "joins", "density"] as const) {
    const box = byId("map-" + name);
    box.addEventListener("change", () => set({ [name]: box.checked }));
    const show = () => {
      box.checked = state[name];
      box.parentElement.hidden =
        name === "lines" ? !app.data.runs.length : name === "joins" && !app.data.joins.length;
    };
    on(name + " data", show);
    show();
  }
};

const stepTool = () => {
  const slider = byId("step-slider"),
    play = byId("play"),
    last = 1000;
  let steps: number[] = [];
  let timer = 0;
  const gather = () => {
    const { data } = app;
    steps = [
      ...new Set(data.step.filter((step, i) => !data.reference[i] && !Number.isNaN(step))),
    ].sort((x, y) => x - y);
    byId("steps").hidden = steps.length < 2;
    show();
  };
  /** `value`: of the slider. */
  const stepAt = (value: number) =>
    value >= last ? Infinity : steps[Math.floor((value / last) * (steps.length - 1))];
  const show = () => {
    const text = Number.isFinite(state.upTo) ? "to step " + whole(state.upTo) : "all steps";
    byId("step-shown").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    if (stepAt(Number(slider.value)) === state.upTo) return;
    const k = steps.findIndex((step) => step >= state.upTo);
    slider.value = k < 0 ? last : (k / (steps.length - 1)) * last;
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  };
  const apply = framed(() => set({ upTo: stepAt(Number(slider.value)) }));
  slider.addEventListener("input", () => {
    stop();
    apply();
  });
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) >= last) slider.value = 0;
    // Less often where motion is unwelcome.
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches,
      hop = last / Math.min(calm ? 10 : 100, steps.length - 1);
    let at = Number(slider.value);
    timer = window.setInterval(
      () => {
        at += hop;
        slider.value = at;
        apply();
        if (at >= last) stop();
      },
      calm ? 1000 : 120,
    );
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    return undefined;
  });
  on("data", gather);
  on("upTo", show);
  gather();
};

const saveTools = () => {
  byId("export").addEventListener("click", () => {
    const { order } = app.data,
      chosen = state.selection || state.shown,
      rows = order.filter((i) => chosen[i] && state.shown[i]);
    const address = URL.createObjectURL(new Blob([tableText(rows)], { type: "text/csv" })),
      save = make("a");
    save.href = address;
    save.download = "policies.csv";
    save.click();
    window.setTimeout(() => URL.revokeObjectURL(address), 1000);
    report(
      `${whole(rows.length)} ${state.selection ? "selected " : ""}policies saved as policies.csv`,
    );
  });
  byId("copy-link").addEventListener("click", async () => {
    const address = link();
    try {
      await navigator.clipboard.writeText(address);
      report("Link copied");
    } catch {
      report("Copy the address of this page: it holds this view");
    }
  });
  byId("map-reset").addEventListener("click", fitAll);
  byId("clear-selection").addEventListener("click", () => set({ selection: null }));
  on("selection", () => {
    const count = state.selection ? state.selection.reduce((sum, x) => sum + x, 0) : 0;
    byId("clear-selection").hidden = !state.selection;
    byId("export").textContent = state.selection ? "Save selection as CSV" : "Save as CSV";
    report(state.selection ? `${whole(count)} policies selected` : "");
    if (state.selection) announce(`${whole(count)} policies selected`);
  });
};

export const toolbarPart = () => {
  searchTool();
  colourTool();
  runsTool();
  ticks();
  stepTool();
  saveTools();
  // A menu closes when something else is pressed.
  addEventListener("pointerdown", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]"))
      if (!menu.contains(event.target as Node)) menu.removeAttribute("open");
  });
};
