// Starts the page: unpacks the data and lets each part begin.
import { byId } from "./format.js";
import { unpack } from "./data.js";
import { adopt } from "./state.js";
import { linkPart } from "./link.js";
import { toolbarPart } from "./toolbar.js";
import { mapPart } from "./map.js";
import { liveUpdates } from "./live.js";
import { panelPart } from "./panel.js";
import { tablePart } from "./table.js";
import { sortingPart } from "./sorting.js";
import { heatmapPart } from "./heatmap.js";
import { travelPart } from "./travel.js";

/**
 * Each part is a function without arguments that is called once, when `app.data` is there, and listens by `on`.
 * It always reads `app.data` anew: a served page gets new data while it is open ("data" is told then).
 * The link comes first: it says what the others show.
 * @type {(() => void)[]}
 */
const PARTS = [linkPart, toolbarPart, mapPart, panelPart, liveUpdates, tablePart, sortingPart, heatmapPart, travelPart];

const start = async () => {
  adopt(await unpack(JSON.parse(byId("data").textContent)));
  byId("explore").hidden = false;
  byId("map-static").classList.add("print-only");  // the picture stays for paper
  for (const part of PARTS) part();
  document.documentElement.classList.add("ready");
  performance.mark("pivec-ready");
};

start();
