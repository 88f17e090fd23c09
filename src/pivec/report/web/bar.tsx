// The bar above the map: search, colours, filters, what can be saved, and links to the view.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { colourings, groupColour } from "./colours";
import { tableText } from "./csv";
import { PolicyName } from "./entities";
import { announce, byId, whole } from "./format";
import { link } from "./link";
import { fitRows, lookAt, rowsInView } from "./map/map";
import { save, savePicture } from "./save";
import { app, on, set, state, useApp } from "./state";

const LISTED = 50; // policies and runs; the others are found by their names

const say = (words: string) => {
  byId("tool-status").textContent = words;
  announce(words);
};

const Search = () => {
  const { query, found, nFound } = useApp("query found data view"),
    [open, setOpen] = useState(false),
    box = useRef<HTMLDivElement>(null);
  const rows = found && open ? [...app.data.order.filter((i) => found[i])] : [];
  const inView = found ? rowsInView().reduce((sum, i) => sum + found[i], 0) : 0;
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      if (!open || !query) set({ query: "" });
      setOpen(false);
    }
    if (event.key === "ArrowDown") {
      box.current?.querySelector<HTMLElement>("li button")?.focus();
      event.preventDefault();
    }
    if (event.key !== "Enter") return;
    const first = app.data.order.find((i) => state.found?.[i] === 1);
    if (first === undefined) return;
    set({ ...(event.shiftKey ? { b: first } : { a: first }), hovered: first, run: -1 });
    lookAt(first);
    setOpen(false);
  };
  const walk = (event: KeyboardEvent) => {
    const way = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" } as const,
      key = way[event.key as keyof typeof way],
      item = (event.target as Element).closest("li");
    if (event.key === "Escape") setOpen(false);
    if (!key || !item) return;
    ((item[key]?.firstElementChild || byId("search")) as HTMLElement).focus();
    event.preventDefault();
  };
  useEffect(() => {
    const close = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", close);
    return () => removeEventListener("pointerdown", close);
  }, []);
  return (
    <div class="search" ref={box}>
      <input
        type="search"
        id="search"
        placeholder="Search"
        aria-label="Search all policies by name, run or file"
        autocomplete="off"
        spellcheck={false}
        value={query}
        onInput={(event) => {
          set({ query: event.currentTarget.value });
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onKeyDown={press}
      />
      {found && (
        <span id="search-count" class="count" role="status">
          {whole(nFound)} found
          {nFound > inView && (
            <>
              , {whole(inView)} in view{" "}
              <button type="button" class="plain" onClick={() => fitRows((i) => found[i] === 1)}>
                Show
              </button>
            </>
          )}
        </span>
      )}
      {rows.length > 0 && (
        <ul class="results" onKeyDown={walk} aria-label="Policies found">
          {rows.slice(0, LISTED).map((row) => (
            <li key={row}>
              <PolicyName row={row} />
            </li>
          ))}
          {rows.length > LISTED && <li class="hint">and {whole(rows.length - LISTED)} more</li>}
        </ul>
      )}
    </div>
  );
};

const Colour = () => {
  const { colour } = useApp("colour data");
  return (
    <label class="field">
      <span>Colour</span>
      <select
        id="colour"
        aria-label="Colour"
        value={colour}
        onChange={(event) => set({ colour: event.currentTarget.value })}
      >
        {colourings().map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
};

const Menu = ({ name, id, children }: { name: string; id: string; children: any }) => (
  <details class="menu" id={id}>
    <summary>{name}</summary>
    <div class="sheet">{children}</div>
  </details>
);

/** Groups of policies that are no runs: those without one, and those of an earlier space. */
const others = (): [number, string][] => {
  const { group, reference } = app.data,
    lone = group.some((g, i) => g < 0 && !reference[i]);
  return [
    ...(lone ? [[-1, "no run"]] : []),
    ...(reference.includes(1) ? [[-2, "earlier map"]] : []),
  ] as [number, string][];
};

const Runs = () => {
  const { hidden } = useApp("hidden data colour"),
    [part, setPart] = useState(""),
    { groups } = app.data;
  const all = [...others(), ...groups.map((name, g) => [g, name] as [number, string])],
    fitting = all.filter(([, name]) => name.toLowerCase().includes(part.toLowerCase()));
  const toggle = (g: number) => {
    const next = new Set(hidden);
    if (!next.delete(g)) next.add(g);
    set({ hidden: next });
  };
  if (all.length < 2) return null;
  return (
    <fieldset>
      <legend>
        Runs: {whole(all.length - hidden.size)} of {whole(all.length)}
      </legend>
      {all.length > 12 && (
        <input
          type="search"
          aria-label="Find a run"
          placeholder="Find a run"
          onInput={(event) => setPart(event.currentTarget.value)}
        />
      )}
      <div class="actions">
        <button type="button" class="plain" onClick={() => set({ hidden: new Set() })}>
          All
        </button>
        <button
          type="button"
          class="plain"
          onClick={() => set({ hidden: new Set(all.map(([g]) => g)) })}
        >
          None
        </button>
      </div>
      <div class="runs" id="runs-list">
        {fitting.slice(0, LISTED).map(([g, name]) => (
          <label class="tick" key={g}>
            <input type="checkbox" checked={!hidden.has(g)} onChange={() => toggle(g)} />
            <i class="dot" style={{ background: groupColour(g) }} />
            <span>{name}</span>
          </label>
        ))}
        {fitting.length > LISTED && <p class="hint">and {whole(fitting.length - LISTED)} more</p>}
      </div>
    </fieldset>
  );
};

const LastCheckpoints = () => {
  const { last } = useApp("last data");
  if (!app.data.runs.length) return null;
  return (
    <label class="field">
      Checkpoints
      <select
        id="last"
        value={String(last)}
        onChange={(event) => set({ last: Number(event.currentTarget.value) })}
      >
        <option value="0">all</option>
        {[1, 2, 3, 5, 10].map((n) => (
          <option key={n} value={String(n)}>
            {n === 1 ? "last of each run" : `last ${n} of each run`}
          </option>
        ))}
      </select>
    </label>
  );
};

const Steps = () => {
  const { upTo } = useApp("upTo data"),
    [playing, setPlaying] = useState(false),
    { step, reference } = app.data;
  const steps = [...new Set(step.filter((s, i) => !reference[i] && !Number.isNaN(s)))].sort(
      (x, y) => x - y,
    ),
    at = Number.isFinite(upTo)
      ? Math.max(
          0,
          steps.findLastIndex((s: number) => s <= upTo),
        )
      : steps.length - 1;
  const go = (k: number) => set({ upTo: k >= steps.length - 1 ? Infinity : steps[Math.max(0, k)] });
  useEffect(() => {
    if (!playing) return undefined;
    // Fewer changes where motion is unwelcome.
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches,
      hop = Math.max(1, Math.round(steps.length / (calm ? 10 : 100)));
    let now = at >= steps.length - 1 ? 0 : at;
    const timer = setInterval(
      () => {
        now += hop;
        go(now);
        if (now >= steps.length - 1) setPlaying(false);
      },
      calm ? 1000 : 120,
    );
    return () => clearInterval(timer);
  }, [playing]);
  if (steps.length < 2) return null;
  const words = Number.isFinite(upTo) ? `to step ${whole(upTo)}` : "all steps";
  return (
    <div class="steps" id="steps">
      <button
        type="button"
        class="plain"
        id="play"
        aria-pressed={playing}
        onClick={() => setPlaying(!playing)}
      >
        {playing ? "Pause" : "Play training"}
      </button>
      <input
        type="range"
        id="step-slider"
        aria-label="Show checkpoints up to this training step"
        aria-valuetext={words}
        min={0}
        max={steps.length - 1}
        value={at}
        onInput={(event) => {
          setPlaying(false);
          go(Number(event.currentTarget.value));
        }}
      />
      <output id="step-shown">{words}</output>
    </div>
  );
};

const FLAGS = {
  labels: "Labels",
  lines: "Lines along runs",
  joins: "Bands between policies that cannot be distinguished",
  density: "Density instead of points",
} as const;

const Show = () => {
  const now = useApp("labels lines joins density data");
  return (
    <fieldset>
      <legend>Map</legend>
      {(Object.keys(FLAGS) as (keyof typeof FLAGS)[])
        .filter(
          (name) =>
            (name === "lines" ? app.data.runs : name === "joins" ? app.data.joins : "1").length,
        )
        .map((name) => (
          <label class="tick" key={name}>
            <input
              type="checkbox"
              id={`map-${name}`}
              checked={now[name]}
              onChange={() => set({ [name]: !state[name] })}
            />
            {FLAGS[name]}
          </label>
        ))}
    </fieldset>
  );
};

const saveTable = () => {
  const chosen = state.selection || state.found || state.shown,
    rows = app.data.order.filter((i) => chosen[i] && state.shown[i]);
  save("policies.csv", new Blob([tableText(rows)], { type: "text/csv" }));
  say(`${whole(rows.length)} policies saved as policies.csv`);
};

const copyLink = async () => {
  // A file has another address on another computer: only the part after # is of use there.
  const address = link(),
    local = location.protocol === "file:",
    text = local ? address.slice(address.indexOf("#")) : address;
  const done = await navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
  const where = local ? "Append it to the address of the page" : "It restores this view";
  say(done ? `Copied. ${where}.` : "Copy the address of this page: it contains this view.");
};

const Selected = () => {
  const { selection } = useApp("selection");
  if (!selection) return null;
  return (
    <span class="chip" id="selected">
      {whole(selection.reduce((sum, x) => sum + x, 0))} selected
      <button type="button" class="plain" id="export" onClick={saveTable}>
        Save as CSV
      </button>
      <button
        type="button"
        class="plain"
        id="clear-selection"
        aria-label="Clear selection"
        onClick={() => set({ selection: null })}
      >
        ×
      </button>
    </span>
  );
};

/** The filters that are on, each with a button that removes it. */
const Chips = () => {
  const { hidden, onlyClass, last, upTo } = useApp("hidden onlyClass last upTo data"),
    { groups } = app.data,
    total = groups.length + others().length;
  const left = [...groups.keys()].filter((g) => !hidden.has(g));
  const chips: [string, Partial<typeof state>][] = [];
  if (hidden.size)
    chips.push([
      left.length === 1 ? `only ${groups[left[0]]}` : `${total - hidden.size} of ${total} runs`,
      { hidden: new Set() },
    ]);
  if (onlyClass) chips.push([`only class ${onlyClass}`, { onlyClass: 0 }]);
  if (last) chips.push([last === 1 ? "last checkpoints" : `last ${last} checkpoints`, { last: 0 }]);
  if (Number.isFinite(upTo)) chips.push([`to step ${whole(upTo)}`, { upTo: Infinity }]);
  return (
    <>
      {chips.map(([words, patch]) => (
        <span class="chip" key={words}>
          {words}
          <button
            type="button"
            class="plain"
            aria-label={`Remove filter: ${words}`}
            onClick={() => set(patch)}
          >
            ×
          </button>
        </span>
      ))}
    </>
  );
};

const Tools = () => (
  <>
    <Search />
    <Colour />
    <Menu name="Filter" id="filter-menu">
      <Runs />
      <LastCheckpoints />
      <Steps />
    </Menu>
    <Menu name="View" id="view-menu">
      <Show />
    </Menu>
    <Menu name="Save" id="save-menu">
      <button type="button" class="plain" id="save-table" onClick={saveTable}>
        Policies (CSV)
      </button>
      <button type="button" class="plain" onClick={() => savePicture("map")}>
        Map (PNG)
      </button>
      <button type="button" class="plain" onClick={() => savePicture("heatmap")}>
        Heatmap (PNG)
      </button>
      <button type="button" class="plain" id="copy-link" onClick={copyLink}>
        Copy link
      </button>
    </Menu>
    <Selected />
    <Chips />
    <span id="tool-status" class="hint" role="status" />
  </>
);

/** Open a dialog of the page; it closes by Escape, its button, or a click beside it. */
export const dialogsPart = () => {
  for (const id of ["help", "keys"]) {
    const dialog = byId(id) as HTMLDialogElement;
    dialog.close(); // it is open for pages without scripts
    byId(`${id}-open`).addEventListener("click", () => dialog.showModal());
    dialog.addEventListener("click", (event) => {
      const { target } = event;
      if (target === dialog || (target as Element).closest(".close")) dialog.close();
    });
  }
  byId("notes-open")?.addEventListener("click", () => {
    byId("help").showModal();
    byId("notices").scrollIntoView();
  });
  addEventListener("keydown", (event) => {
    const typing = (event.target as Element).closest?.("input, select, textarea, dialog");
    if (event.key === "?" && !typing) byId("keys").showModal();
    if (event.key === "/" && !typing) {
      byId("search").focus();
      event.preventDefault();
    }
  });
};

export const barPart = () => {
  render(<Tools />, byId("tools"));
  addEventListener("pointerdown", ({ target }) => {
    for (const menu of document.querySelectorAll("details.menu[open]"))
      if (!menu.contains(target as Node)) menu.removeAttribute("open");
  });
  addEventListener("keydown", ({ key }) => {
    const menu = key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    menu.removeAttribute("open");
    menu.querySelector("summary")?.focus();
  });
  on("selection", () => {
    const { selection } = state;
    if (selection) announce(`${whole(selection.reduce((sum, x) => sum + x, 0))} policies selected`);
  });
};
