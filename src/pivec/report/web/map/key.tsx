// The key below the map: what its colours and signs mean.
import { render } from "preact";
import { behaviourColour, css, groupColour, type Scale, scaleOf, theme, tints } from "../colours";
import { byId, number, whole } from "../format";
import { app, on, state } from "../state";
import { fewRuns } from "./map";
import { CELL, counted } from "./painter";

const MOST_NAMES = 24; // runs or classes

const Ramp = ({ scale }: { scale: Scale }) => {
  const { low, middle, high, shades } = scale,
    fine = (high - low) / 500 || 1;
  const words =
    state.colour === "step"
      ? (value: number) => whole(Math.round(value))
      : (value: number) => number(Math.round(value / fine) * fine);
  const colours = Array.from(shades, css).join(",");
  return (
    <div class="ramp">
      <div class="scale" style={{ background: `linear-gradient(to right, ${colours})` }} />
      <div class="ends">
        {[low, middle, high].map((value, k) => (
          <span key={k}>{words(value)}</span>
        ))}
      </div>
    </div>
  );
};

const Sign = ({ shape, colour, words }: { shape: string; colour?: string; words: string }) => (
  <li>
    <i class={shape} style={{ background: colour }} />
    {words}
  </li>
);

type Entry = { name: string; colour: string; n: number; data: Record<string, number | undefined> };

/** The runs or classes with their numbers of policies, and how many more there are. */
const Names = ({ entries }: { entries: Entry[] }) => (
  <ul>
    {entries.slice(0, MOST_NAMES).map(({ name, colour, n, data }) => (
      <li key={name}>
        <button type="button" class="entity" {...data}>
          <i style={{ background: colour }} />
          {name} <small>{whole(n)}</small>
        </button>
      </li>
    ))}
    {entries.length > MOST_NAMES && <li>and {whole(entries.length - MOST_NAMES)} more</li>}
  </ul>
);

const entriesOf = (): Entry[] => {
  const { group, behaviour, groups, reference } = app.data,
    byRun = state.colour === "group";
  const counts = new Map<number, number>();
  (byRun ? group : behaviour).forEach((k, i) => {
    if (!reference[i]) counts.set(k, (counts.get(k) || 0) + 1);
  });
  return [...counts]
    .filter(([k]) => byRun || k > 0)
    .sort(([k], [l]) => k - l)
    .map(([k, n]) =>
      byRun
        ? { name: groups[k] ?? "no run", colour: groupColour(k), n, data: { "data-run": k } }
        : {
            name: `class ${k}`,
            colour: css(behaviourColour(k)),
            n,
            data: { "data-class": k },
          },
    );
};

/** What signs on the map mean; only those that are there. */
const Signs = ({ scale }: { scale: Scale | null }) => {
  const { data } = app,
    { density, lines, joins, fresh } = state;
  const some = (is: (i: number) => boolean) =>
    data.group.some((_, i) => !data.reference[i] && is(i));
  const most = `up to ${whole(counted.most)} policies per square of ${CELL} pixels; paler: fewer`;
  const runs = data.runs.length > 0,
    ends = !density && lines && fewRuns() && runs;
  return (
    <ul class="signs">
      {density && <Sign shape="none" words={most} />}
      {scale && some((i) => Number.isNaN(scale.values[i])) && (
        <Sign shape="hollow" words="not known" />
      )}
      {ends && <Sign shape="ring" words="first checkpoint" />}
      {ends && <Sign shape="arrow" words="last checkpoint" />}
      {fresh && <Sign shape="ring fresh" words="new" />}
      {runs && some((i) => Number.isNaN(data.step[i])) && (
        <Sign shape="lone" words="no training step" />
      )}
      {data.reference.includes(1) && (
        <Sign shape="small" colour={css(theme.reference)} words="earlier map" />
      )}
      {joins && data.joins.length > 0 && (
        <Sign shape="band" colour={css(theme.band)} words="cannot be distinguished" />
      )}
    </ul>
  );
};

const Key = () => {
  const scale = scaleOf(state.colour);
  const entries = scale ? [] : entriesOf(),
    singles = app.data.behaviour.some((b) => b > tints.shared);
  return (
    <>
      {scale ? (
        <strong>{scale.name}</strong>
      ) : (
        entries.length > 0 && (
          <strong>{state.colour === "group" ? "Runs" : "Behaviour classes"}</strong>
        )
      )}
      {scale ? <Ramp scale={scale} /> : <Names entries={entries} />}
      {state.colour === "behaviour" && singles && (
        <span class="hint">grey: classes of one policy</span>
      )}
      <Signs scale={scale} />
    </>
  );
};

export const drawKey = () => render(<Key />, byId("map-key"));

export const startKey = () => {
  on("data colour lines joins density fresh", drawKey);
  on("view", () => {
    if (state.density) drawKey();
  });
  drawKey();
};
