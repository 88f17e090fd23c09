// Starts the page: unpacks the data and starts each part.
import { barPart, dialogsPart } from "./bar";
import { startColours } from "./colours";
import { unpack } from "./data";
import { dockPart } from "./dock";
import { startEntities } from "./entities";
import { episodesPart } from "./episodes";
import { byId } from "./format";
import { heatmapPart } from "./heatmap/heatmap";
import { linkPart } from "./link";
import { liveUpdates } from "./live";
import { mapPart } from "./map/map";
import { panelPart } from "./panel/panel";
import { runsPart } from "./runs";
import { sortingPart } from "./sorting";
import { adopt } from "./state";
import { tablePart } from "./table";

const start = async () => {
  adopt(await unpack(JSON.parse(byId("data").textContent)));
  document.documentElement.classList.add("ready");
  startColours(); // the other parts use them
  linkPart(); // it says what the others show
  for (const part of [dialogsPart, dockPart, mapPart, barPart, startEntities, panelPart]) part();
  for (const part of [tablePart, sortingPart, heatmapPart, runsPart, episodesPart, liveUpdates])
    part();
  performance.mark("pivec-ready");
};

start();
