// What differs between A and B: rules and regions on one axis, and distributions of features.
import { Axis, Dumbbell, Histogram } from "../charts";
import { Badge } from "../entities";
import { number, percent } from "../format";
import type { Differences, Means, Part, Spread, Spreads } from "../parts";
import { app } from "../state";
import { Chance, Command, Listed } from "./common";
import { type Frame, Frames } from "./media";
import { percentRange, tight } from "./words";

const REGIONS = 6,
  FEATURES = 4; // shown at first

const SHARES = [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, label: `${100 * at} %` }));

/** The share of time of one of both, with its interval for those who cannot see it. */
const Share = ({ side, share, span }: { side: number; share: number; span?: number[] }) => {
  const range = span && span[0] <= span[1] ? percentRange(span[0], span[1]) : "";
  return (
    <span class={`share ${"ab"[side]}`} title={range && `95 % interval ${range}`}>
      <span class="unseen">{"AB"[side]} </span>
      {percent(share)}
      <span class="unseen">{range && ` (${range})`}</span>
    </span>
  );
};

/** Where the time goes: words, and the shares of both on the axis at the top. */
const Row = ({ words, shares, spans, noise, part, region, children }: any) => (
  <li class="difference" data-region={region}>
    <p class="words">
      <span>
        {tight(words)} {noise && <Chance />}
      </span>
      {part !== undefined && <small class="part">{percent(part)}</small>}
    </p>
    {shares.every(Number.isFinite) && (
      <div class="shares">
        {shares.map((share: number, side: number) => (
          <Share key={"ab"[side]} side={side} share={share} span={spans?.[side]} />
        ))}
        <Dumbbell values={shares} spans={spans} pale={noise} />
      </div>
    )}
    {children}
  </li>
);

const meanOf = (feature: Means, side: "a" | "b") =>
  (feature.flag ? percent : number)(feature[side]);

/** Means of a feature while both are in a region. */
const Shift = ({ feature }: { feature: Means }) => (
  <li>
    {feature.name}: <Badge side={0} /> {meanOf(feature, "a")} <Badge side={1} />{" "}
    {meanOf(feature, "b")} {feature.unit}
  </li>
);

/** `reason`: why nothing is known. */
export const Differs = ({
  found,
  rows,
  frames,
  reason,
}: {
  found: Differences | null;
  rows: number[];
  frames: Frame[];
  reason: string;
}) => {
  const parts = found?.parts.filter(({ part }) => part > 0) ?? [];
  if (!found || !parts.length)
    return (
      <section class="differs">
        <h3>What differs</h3>
        <p class="hint">{found ? "The measured distance is 0." : reason}</p>
      </section>
    );
  const names = rows.map((row) => app.data.label[row]),
    known = Number.isFinite(parts[0].shareA),
    [others, rest] = found.otherParts ?? [0, 0];
  return (
    <section class="differs">
      <h3>What differs</h3>
      {known && (
        <div class="shares head">
          <Badge side={0} />
          <Badge side={1} />
          <div>
            <p>share of time</p>
            <Axis ticks={SHARES} />
          </div>
        </div>
      )}
      {found.rules.length > 0 && (
        <>
          <h4>In short</h4>
          <ol class="rules">
            {found.rules.map(({ where, a, b }) => (
              <Row key={where} words={where} shares={[a, b]} />
            ))}
          </ol>
        </>
      )}
      <h4>
        Regions of states <small>share of the distance</small>
      </h4>
      <Listed
        items={parts}
        most={REGIONS}
        row={(part: Part) => (
          <Row
            key={part.regions.join(" ")}
            words={part.words}
            region={part.regions[0]}
            part={part.part / found.measured}
            shares={[part.shareA, part.shareB]}
            spans={part.spans}
            noise={part.noise}
          >
            {part.features.length > 0 && (
              <ul class="shifts">
                {part.features.map((feature) => (
                  <Shift key={feature.name} feature={feature} />
                ))}
              </ul>
            )}
            <Frames frames={frames} regions={part.regions} rows={rows} />
          </Row>
        )}
      />
      {others > 0 && (
        <p class="hint">
          {others} other regions: {percent(rest / found.measured)} of the distance.
        </p>
      )}
      {found.words && <p class="hint">{found.words}.</p>}
      {!found.sure && (
        <>
          <p class="hint">
            These numbers include sampling noise. This command shows which differences exceed it:
          </p>
          <Command
            words={["explain", ...(names.some((name) => name[0] === "-") ? ["--"] : []), ...names]}
          />
        </>
      )}
    </section>
  );
};

/** The ends of the values of a feature; those of a flag are no and yes. */
const endsOf = ({ edges, flag }: Spread) => {
  const ends = [edges[0], edges[edges.length - 1]];
  return ends.map((end, at) => ({ at, label: flag ? ["no", "yes"][at] : number(end) }));
};

type Item = { name: string; unit: string; flag?: boolean; spread?: Spread; means?: Means };

/** Features with their histograms, if these are known, and their means. */
export const Features = ({
  spreads,
  averages,
  others,
  more = 0,
}: {
  spreads: Spreads;
  averages: Means[];
  /** Words for the second side, if that is not B. */
  others?: string;
  /** How many features are left out. */
  more?: number;
}) => {
  const sides = others ? ["a", "all"] : ["a", "b"],
    means = new Map(averages.map((feature) => [feature.name, feature])),
    shown = new Set(spreads.features.map(({ name }) => name)),
    histograms = spreads.features.length > 0;
  const items: Item[] = [
    ...spreads.features.map((spread) => ({ ...spread, spread, means: means.get(spread.name) })),
    ...averages.filter(({ name }) => !shown.has(name)).map((own) => ({ ...own, means: own })),
  ];
  if (!items.length) return null;
  return (
    <section class="features">
      <h3>Features{histograms && ": share of time by value"}</h3>
      {others && histograms && (
        <p class="hint">
          <i class="patch a" /> this policy <i class="patch all" /> {others}
        </p>
      )}
      <Listed
        items={items}
        most={histograms ? FEATURES : 2 * FEATURES}
        className="multiples"
        row={({ name, unit, spread, means }: Item) => (
          <li key={name}>
            <p>
              {name} {unit && <small>({unit})</small>}
            </p>
            {spread && (
              <>
                <Histogram
                  edges={spread.edges}
                  sides={[spread.a, spread.b].map((shares, k) => ({ name: sides[k], shares }))}
                  label={`Histograms of ${name} of ${others ? "this policy" : "A"} and ${others || "B"}`}
                />
                <Axis ticks={endsOf(spread)} />
              </>
            )}
            {means && (
              <p class="means">
                mean <b class="a">{meanOf(means, "a")}</b>{" "}
                {!others && <b class="b">{meanOf(means, "b")}</b>} {means.noise && <Chance />}
              </p>
            )}
          </li>
        )}
      />
      {spreads.words && <p class="hint">{spreads.words}.</p>}
      {more > 0 && <p class="hint">{more} other features are left out.</p>}
    </section>
  );
};
