// What differs between A and B: regions by their part of the distance, and means of features.

import { make, number, percent } from "./format";
import { framesOf } from "./panel_media";
import { badge, commandLine, listed, nest, shareBar } from "./panel_nodes";
import type { Differences, Means, Part } from "./parts";
import { whyNoParts } from "./parts";
import { app } from "./state";

const REGIONS = 6,
  AVERAGES = 5; // shown at first

const meanOf = (feature: Means, side: "a" | "b") =>
  (feature.flag ? percent : number)(feature[side]);

const chanceTag = () => make("span", "may be chance", "tag");

/** `longest`: share of time. */
const partRow = (
  part: Part,
  found: Differences,
  longest: number,
  frames: any[],
  rows: number[],
) => {
  const times = [part.shareA, part.shareB].map((share, side) => {
    const [low, high] = part.spans?.[side] || [];
    return nest(
      "div.time",
      badge(side),
      shareBar(share / longest, "ab"[side]),
      percent(share) +
        (Number.isFinite(low) ? ` (${percent(low)} to ${percent(high)})`.replace(/ %/g, "") : ""),
    );
  });
  return nest(
    "li.part",
    nest(
      "p",
      make("strong", percent(part.part / found.measured)),
      " ",
      part.words,
      " ",
      part.noise ? chanceTag() : "",
    ),
    shareBar(part.part / found.parts[0].part, "share"),
    ...(found.parts.length > 1 ? times : []),
    nest(
      "ul.shifts",
      ...part.features.map((f) =>
        nest(
          "li",
          f.name + ": ",
          badge(0),
          ` ${meanOf(f, "a")} `,
          badge(1),
          ` ${meanOf(f, "b")} ${f.unit}`,
        ),
      ),
    ),
    ...framesOf(frames, part.regions, rows),
  );
};

/** `rows`: of A and B; `reason`: why nothing is found. */
export const differsSection = (
  found: Differences | null,
  frames: any[],
  rows: number[],
  reason: string,
): any => {
  const { label } = app.data,
    names = rows.map((row) => label[row]),
    section = nest("div.differs", make("h3", "What differs"));
  const say = (words: string) => {
    if (words) section.append(make("p", words, "hint"));
  };
  const parts = found ? found.parts.filter((part) => part.part > 0) : [];
  if (!found) say(reason ? reason + "." : whyNoParts());
  else if (!parts.length) say("Nothing: the two were measured as equal.");
  else {
    const longest = Math.max(
      ...parts.slice(0, REGIONS).flatMap((part) => [part.shareA || 0, part.shareB || 0]),
      1e-9,
    );
    if (found.rules.length) {
      say("In short, shares of time of A and B:");
      section.append(
        nest(
          "ul.shifts",
          ...found.rules.map(({ where, a, b }) =>
            nest("li", where + ": ", badge(0), ` ${percent(a)} `, badge(1), ` ${percent(b)}`),
          ),
        ),
      );
    }
    say(
      `Regions of states, by their share of the distance as measured (${number(found.measured)}); the time that A and B spend there${found.sure ? "; means of features meanwhile" : ""}.`,
    );
    section.append(
      ...listed(make("ol"), parts, REGIONS, (part) => partRow(part, found, longest, frames, rows)),
    );
    if (found.sure) say(found.words);
    else {
      say(
        "Chance is in these numbers too. What is more than chance, and which features differ, this command tells:",
      );
      const { folder } = (document.querySelector("[data-folder]") as HTMLElement).dataset;
      section.append(
        commandLine(
          "pivec",
          "explain",
          folder || "",
          ...(names.some((name) => name[0] === "-") ? ["--"] : []),
          ...names,
        ),
      );
    }
  }
  return section;
};

/** Returns means of features over all of the time, those first that differ most among all policies. */
export const averagesSection = (found: Differences | null): any[] => {
  if (!found?.averages.length) return [];
  const spans = new Map(app.data.features.map(({ name, values }) => [name, spanOf(values)]));
  const size = (f: Means) =>
    f.noise ? -1 : Math.abs(f.a - f.b) / (spans.get(f.name) || Infinity) || 0;
  const averages = [...found.averages].sort((f, g) => size(g) - size(f)),
    body = make("tbody");
  const [, ...more] = listed(body, averages, AVERAGES, (f) =>
    nest(
      "tr",
      nest("th", f.name, f.unit ? ` (${f.unit}) ` : " ", f.noise ? chanceTag() : ""),
      make("td", meanOf(f, "a"), "n"),
      make("td", meanOf(f, "b"), "n"),
    ),
  );
  return [
    nest(
      "div.averages",
      make("h3", "Means over all of their time"),
      nest(
        "table",
        nest(
          "thead",
          nest("tr", make("th", "Feature"), nest("th.n", badge(0)), nest("th.n", badge(1))),
        ),
        body,
      ),
      ...more,
    ),
  ];
};

const spanOf = (values: Float32Array): number => {
  let low = Infinity,
    high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return high - low;
};
