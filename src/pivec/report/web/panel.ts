// The panel of the two policies chosen: who they are, how far apart, what differs, and who is near.

import { colourOf } from "./colours";
import { measurer } from "./distances";
import { announce, byId, make, number, whole } from "./format";
import { exactPair } from "./live";
import { factsOf } from "./map/overlay";
import { clipsOf, mediaOf } from "./panel_media";
import { badge, nest, pushButton } from "./panel_nodes";
import { distanceSection, spokenDistance } from "./panel_pair";
import { averagesSection, differsSection } from "./panel_parts";
import { differences } from "./parts";
import { app, on, set, state } from "./state";

const NEAREST = 10;
let asked = 0,
  turn = 0,
  known = ""; // answers about what is no longer chosen are ignored

/** Returns its name behind the dot of its point on the map. */
const nameOf = (row: number): any => {
  const dot = make("i", undefined, "dot");
  dot.dataset.row = row;
  dot.style.background = colourOf(row);
  return nest("span.name", dot, app.data.label[row]);
};

/** `m`: measurer; `side`: that it is; returns its nearest, each of which can be chosen beside it. */
const nearestOf = (m: any, row: number, side: number): any =>
  nest(
    "div.near",
    make("h3", "Nearest to " + "AB"[side]),
    nest(
      "ol",
      ...m.nearest(row, NEAREST).map((near: { row: number; distance: number }) => {
        const content = nest(
          "span",
          nameOf(near.row),
          make("span", number(near.distance), "value"),
        );
        if (m.pair(row, near.row).alike)
          content.append(make("span", "cannot be distinguished", "tag"));
        const button = pushButton(
          content,
          () => set(side ? { a: near.row } : { b: near.row }),
          "row",
        );
        if (near.row === state.a || near.row === state.b) button.ariaCurrent = "true";
        return nest("li", button);
      }),
    ),
  );

const clearButton = () => pushButton("Clear", () => set({ a: -1, b: -1 }));

const invitation = (): any[] => [
  make("h3", "Compare two policies"),
  make(
    "p",
    "Choose A and then B: click points on the map, or search for a name and press Enter (Shift+Enter for B), or walk on the map with the arrow keys. A cell of the heatmap chooses both.",
  ),
  nest(
    "ul.begin",
    ...app.data.blob.media.notable.map(({ words, rows: [a, b] }: any) =>
      nest(
        "li",
        pushButton(
          nest(
            "span",
            make("strong", words),
            make("small", `${app.data.label[a]} and ${app.data.label[b]}`),
          ),
          () => set({ a, b }),
          "row",
        ),
      ),
    ),
  ),
];

/** `m`: measurer. */
const alone = (m: any, row: number, side: number): any[] => {
  const { label, episodes, states, source } = app.data;
  announce(`${"AB"[side]}: ${label[row]}`);
  return [
    nest("div.top", make("h3", "Policy " + "AB"[side]), clearButton()),
    nest("div.who", badge(side), nameOf(row)),
    nest(
      "dl.facts",
      ...[
        ...factsOf(row),
        ["episodes", whole(episodes[row])],
        ["states", whole(states[row])],
        ["source", source[row]],
      ].flatMap(([name, value]) => [make("dt", name), make("dd", value)]),
    ),
    make(
      "p",
      `Choose ${"BA"[side]} too to see what differs: another point, or one of the nearest.`,
      "hint",
    ),
    nearestOf(m, row, side),
    make("p", m.words, "hint"),
  ];
};

/** `m`: measurer. */
const bothNearest = (m: any, a: number, b: number) =>
  nest("div.both", nearestOf(m, a, 0), nearestOf(m, b, 1));

/** `m`: measurer; `found`: what differs. */
const together = (m: any, found: any, a: number, b: number): any[] => {
  const rows = [a, b],
    mine = turn,
    { label, blob } = app.data,
    numbers = make("div"),
    details = make("div");
  let pair = m.pair(a, b),
    { frames } = mediaOf(a, b),
    reason = "";
  const far = blob.media.notable.find(({ words }: any) => words.includes("farthest"))?.rows;
  const fill = (assumed = "") =>
    keepFocus(() => {
      numbers.replaceChildren(distanceSection(pair, far ? m.between(far[0], far[1]) : 0, assumed));
      details.replaceChildren(
        differsSection(found, frames, rows, reason),
        ...averagesSection(found),
      );
    });
  fill(m.words);
  announce(`${label[a]} and ${label[b]}: ${spokenDistance(pair)}`);
  exactPair(a, b)?.then(
    (exact) => {
      if (mine !== turn) return;
      const before = spokenDistance(pair),
        { distance, low, high, overlap, p } = exact;
      pair = {
        distance,
        low: low ?? NaN,
        high: high ?? NaN,
        overlap: overlap ?? NaN,
        p: p ?? NaN,
        alike: low === null ? null : low <= 0,
      };
      if (exact.difference) found = exact.difference;
      reason = exact.reason;
      fill();
      if (spokenDistance(pair) !== before) announce("Exactly: " + spokenDistance(pair));
    },
    (error) => {
      numbers.append(make("p", error.message + ": these are the numbers of the page.", "hint"));
    },
  );
  return [
    nest(
      "div.top",
      make("h3", "A and B"),
      pushButton("Swap", () => set({ a: b, b: a })),
      clearButton(),
    ),
    ...rows.flatMap((row, side) => [
      nest("div.who", badge(side), nameOf(row)),
      make(
        "p",
        factsOf(row)
          .map((fact) => fact.join(" ").replace(/ /g, "\u00a0"))
          .join(", "),
        "brief",
      ),
    ]),
    numbers,
    ...clipsOf(a, b, (made) => {
      frames = made;
      fill();
    }),
    details,
    bothNearest(m, a, b),
  ];
};

/** `change`: of the panel: what had the focus, or the heading of what came instead, has it afterwards. */
const keepFocus = (change: () => any) => {
  const panel = byId("panel"),
    active = document.activeElement as any,
    inside = panel.contains(active);
  change();
  if (!inside || panel.contains(active)) return;
  const heading = panel.querySelector("h3"),
    same = [...panel.querySelectorAll(".plain")].find(
      (node) => node.textContent === active.textContent,
    );
  heading.tabIndex = -1;
  (same || heading).focus({ preventScroll: true });
};

const showPanel = async () => {
  const mine = ++asked,
    { a, b } = state,
    panel = byId("panel"),
    two = a >= 0 && b >= 0 && a !== b,
    row = Math.max(a, b),
    { label } = app.data;
  const m: any = row < 0 ? null : await measurer(),
    found = two ? await differences(a, b) : null;
  if (mine !== asked) return;
  const now = [a, b, label[a], label[b], two ? spokenDistance(m.pair(a, b)) : mine].join("\n");
  keepFocus(() => {
    // New data that changes nothing of the two leaves what was made of them.
    if (now === known) return panel.lastChild.replaceWith(bothNearest(m, a, b));
    known = now;
    turn++;
    panel.replaceChildren(
      ...(two ? together(m, found, a, b) : row < 0 ? invitation() : alone(m, row, Number(a < 0))),
    );
    panel.className = two ? "two" : "";
    panel.scrollTop = 0;
  });
};

export const panelPart = () => {
  on("a b data", showPanel);
  on("colour data", () => {
    for (const dot of byId("panel").querySelectorAll("[data-row]"))
      dot.style.background = colourOf(Number(dot.dataset.row));
  });
  showPanel();
};
