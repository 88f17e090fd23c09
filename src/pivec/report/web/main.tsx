// Starts the page: unpacks the data and lets each part begin.

import { unpack } from "./data";
import { byId } from "./format";
import { heatmapPart } from "./heatmap/heatmap";
import { linkPart } from "./link";
import { liveUpdates } from "./live";
import { mapPart } from "./map/map";
import { panelPart } from "./panel";
import { sortingPart } from "./sorting";
import { adopt } from "./state";
import { tablePart } from "./table";
import { toolbarPart } from "./toolbar";
import { travelPart } from "./travel";

/**
 * Each part is a function without arguments that is called once, when `app.data` is there, and listens by `on`.
 * It always reads `app.data` anew: a served page gets new data while it is open ("data" is told then).
 * The link comes first: it says what the others show.
 * @type {(() => void)[]}
 */
const PARTS: (() => void)[] = [
  linkPart,
  toolbarPart,
  mapPart,
  panelPart,
  liveUpdates,
  tablePart,
  sortingPart,
  heatmapPart,
  travelPart,
];

const start = async () => {
  adopt(await unpack(JSON.parse(byId("data").textContent)));
  byId("explore").hidden = false;
  byId("map-static").classList.add("print-only"); // the picture stays for paper
  for (const part of PARTS) part();
  document.documentElement.classList.add("ready");
  performance.mark("pivec-ready");
};

start();
