// How a run moved.
import { useEffect, useState } from "preact/hooks";
import { evenPlaces, LineChart, Ruler, roundTicks, type Tick } from "../charts";
import { groupColour } from "../colours";
import { RunName } from "../entities";
import { announce, number, shortStep, whole } from "../format";
import { runStory } from "../live";
import { app, set } from "../state";
import { Button, Command, Head, Listed, Pages } from "./common";
import { tight } from "./words";

const WORDS = 3; // of a phase

interface Phase {
  when: string;
  rows: number[];
  distance: number;
  low: number;
  high: number;
  changed: boolean;
  /** whether the run changed most in it */
  largest: boolean;
  /** what changed, or why nothing did */
  words: string[];
}
interface Story {
  rows: number[];
  steps: number[];
  returns: (number | null)[];
  tracks: { where: string; share: number[]; low: number[]; high: number[] }[];
  phases: Phase[];
  note: string;
}

/** What is known of a run: of the page, else of a server. */
const useStory = (run: number): { story: Story | null; error: string } => {
  const { data } = app,
    known = data.blob.runStories?.find(({ group }: any) => group === run) ?? null,
    [answer, setAnswer] = useState<{ run: string; story: Story | null; error: string } | null>(
      null,
    );
  useEffect(() => {
    let current = true;
    const take = (story: Story | null, error = "") =>
      current && setAnswer({ run: data.groups[run], story, error });
    if (!known) runStory(run)?.then(take, ({ message }) => take(null, message));
    return () => {
      current = false;
    };
  }, [data, run]);
  const own = answer?.run === data.groups[run] ? answer : null;
  return { story: known ?? own?.story ?? null, error: own?.error ?? "" };
};

const PERCENT = [0, 0.5, 1].map((at) => ({ at, label: `${100 * at} %` }));

/** A phase of a run: when, how far, and what changed. */
const PhaseRow = ({ phase, end }: { phase: Phase; end: number }) => {
  const { when, rows, distance, low, high, changed, words } = phase;
  return (
    <li class="phase">
      <p>
        <button type="button" class="entity" data-pair={rows.join(" ")}>
          {when}
        </button>
        {changed && (
          <span class="value">
            <b>{number(distance)}</b> <small>{`${number(low)} to ${number(high)}`}</small>
          </span>
        )}
      </p>
      {changed && <Ruler value={distance} low={low} high={high} end={end} />}
      <Listed items={words} most={WORDS} row={(said) => <li key={said}>{tight(said)}</li>} />
    </li>
  );
};

const Multiples = ({ run, story }: { run: number; story: Story }) => {
  const { rows, steps, returns, tracks } = story,
    colour = groupColour(run),
    last = Math.max(steps.length - 1, 1),
    x = steps.map((_, k) => k / last),
    mean = returns.map((value) => value ?? NaN),
    known = mean.filter(Number.isFinite),
    [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1],
    room = high > low ? 0 : Math.abs(low) || 1;
  const ticks: Tick[] = evenPlaces(steps.length, 5).map((k) => ({
    at: x[k],
    label: shortStep(steps[k]),
  }));
  const charts = tracks.map(({ where, share, low, high }, k) => ({
    title: where,
    low: 0,
    high: 1,
    yTicks: PERCENT,
    series: [{ colour, x, y: share, low, high, rows }],
    label: `Share of time with ${where}, by training step`,
    xTicks: k === tracks.length - 1 && !known.length ? ticks : [],
  }));
  const bottom = low - room,
    top = high + room;
  return (
    <section class="tracks">
      {charts.length > 0 && <h3>Share of time</h3>}
      {charts.map(({ title, ...chart }) => (
        <div key={title}>
          <p>{tight(title)}</p>
          <LineChart {...chart} columns />
        </div>
      ))}
      {known.length > 0 && (
        <div>
          <h3>Mean return</h3>
          <LineChart
            series={[{ colour, x, y: mean, rows }]}
            low={bottom}
            high={top}
            xTicks={ticks}
            yTicks={roundTicks(bottom, top, 3).map((value) => ({
              at: (value - bottom) / (top - bottom),
              label: number(value),
            }))}
            label="Mean return by training step"
            columns
          />
        </div>
      )}
      <p class="hint">Training step; checkpoints are evenly spaced.</p>
    </section>
  );
};

export const Run = ({ run }: { run: number }) => {
  const { data } = app,
    { story, error } = useStory(run),
    name = data.groups[run],
    rows = data.runs.find((own) => data.group[own[0]] === run) ?? new Int32Array(),
    travel = data.travels.find(({ group }) => group === run),
    last = travel ? travel.cumulative.length - 1 : 0,
    far = travel ? number(travel.cumulative[last]) : "",
    half = travel?.half ? ` ± ${number(travel.half[last], 2)}` : "";
  useEffect(() => {
    announce(`Run ${name}${far && `: distance travelled ${far}${half}`}`);
  }, [name]);
  const ends = rows.length ? [rows[0], rows[rows.length - 1]] : [],
    { step, returns } = data,
    facts: [string, any][] = [
      ["checkpoints", whole(rows.length || data.group.filter((g) => g === run).length)],
      ["steps", ends.length > 0 && ends.map((i) => whole(step[i])).join(" to ")],
      ["distance travelled", far + half],
      [
        "return",
        ends.some((i) => Number.isFinite(returns[i])) &&
          ends.map((i) => number(returns[i])).join(" to "),
      ],
    ];
  const largest = story?.phases.find((phase) => phase.largest),
    others = story?.phases.filter((phase) => !phase.largest) ?? [],
    end = Math.max(...(story?.phases ?? []).map(({ distance, high }) => high ?? distance), 1e-9),
    links = data.blob.pages.filter(({ group }: any) => group === run);
  return (
    <>
      <Head title={<RunName run={run} />}>
        <Button act={() => set({ run: -1 })}>Clear</Button>
      </Head>
      <dl class="facts">
        {facts
          .filter(([, value]) => value)
          .flatMap(([word, value]) => [
            <dt key={word}>{word}</dt>,
            <dd key={`${word}:`}>{value}</dd>,
          ])}
      </dl>
      {story && (
        <div key={name}>
          {story.phases.length > 0 && (
            <section class="largest">
              <h3>Largest change</h3>
              {largest ? (
                <ol>
                  <PhaseRow phase={largest} end={end} />
                </ol>
              ) : (
                <p>This run did not change beyond noise.</p>
              )}
            </section>
          )}
          <Multiples run={run} story={story} />
          {others.length > 0 && (
            <section class="phases">
              <h3>Other phases</h3>
              <ol>
                {others.map((phase) => (
                  <PhaseRow key={phase.when} phase={phase} end={end} />
                ))}
              </ol>
            </section>
          )}
          {story.note && <p class="hint">{story.note}.</p>}
        </div>
      )}
      {!story && (
        <>
          <p class="hint">
            {error
              ? `${error}.`
              : data.blob.runNote || "This file does not contain what changed along this run."}{" "}
            This command shows it:
          </p>
          <Command words={["explain", "--run", name]} />
        </>
      )}
      <Pages links={links} />
    </>
  );
};
