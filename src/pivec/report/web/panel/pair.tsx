// How A and B differ.
import { useEffect, useState } from "preact/hooks";
import { Axis, Ruler } from "../charts";
import { measurer, type Pair as PairNumbers } from "../distances";
import { Badge, PolicyName, RunName } from "../entities";
import { announce, number, percent, whole } from "../format";
import { type ExactPair, exactPair } from "../live";
import { differences, ordered, spreadsOf, whyNoParts } from "../parts";
import { app, set, useResult } from "../state";
import { PairClips } from "./clips";
import { Button, Head, Pages, useKept } from "./common";
import { Differs, Features } from "./differs";
import { type Frame, framesOf } from "./media";
import { Nearest } from "./panel";
import { intervalWords, spokenPair, verdictWords } from "./words";

type Answer = { key: string; exact?: ExactPair; error?: string };

/** Exact numbers of a server; until new ones come, those of the same policies before. */
const useExact = (a: number, b: number): Answer | null => {
  const { data } = app,
    key = `${data.label[a]}\n${data.label[b]}`,
    [answer, setAnswer] = useState<Answer>({ key: "" });
  useEffect(() => {
    let current = true;
    const take = (more: Partial<Answer>) => current && setAnswer({ key, ...more });
    exactPair(a, b)?.then(
      (exact) => take({ exact }),
      (error) => take({ error: error.message }),
    );
    return () => {
      current = false;
    };
  }, [data, key]);
  return answer.key === key ? answer : null;
};

const numbersOf = ({ distance, low, high, overlap, p }: ExactPair): PairNumbers => ({
  distance,
  low: low ?? NaN,
  high: high ?? NaN,
  overlap: overlap ?? NaN,
  p: p ?? NaN,
  alike: low === null ? null : low <= 0,
});

const Who = ({ row, side }: { row: number; side: number }) => {
  const { group, step, returns, deviation } = app.data,
    spread = Number.isFinite(deviation[row]) ? ` ± ${number(deviation[row])}` : "";
  return (
    <>
      <p class="who">
        <Badge side={side} />
        <PolicyName row={row} />
      </p>
      <p class="brief">
        {group[row] >= 0 && <RunName run={group[row]} />}
        {Number.isFinite(step[row]) && <span>step {whole(step[row])}</span>}
        {Number.isFinite(returns[row]) && (
          <span>
            return {number(returns[row])}
            {spread}
          </span>
        )}
      </p>
    </>
  );
};

const Distance = ({ pair, largest, measured, note }: any) => {
  const { distance, low, high, alike, overlap } = pair as PairNumbers,
    end = Math.max(largest, distance, high || 0) || 1,
    verdict = verdictWords(pair);
  const beyond =
    end > largest
      ? largest > 0 && ` (largest distance ${number(largest)})`
      : ", the largest distance";
  const more = Number.isFinite(measured)
    ? `${number(measured)} as measured, which includes sampling noise`
    : "";
  return (
    <section class="distance">
      <p class="figure">
        <span class="soft">Distance </span>
        <strong title={more}>{number(distance)}</strong>{" "}
        <span class="interval">{intervalWords(pair)}</span>
      </p>
      {Number.isFinite(distance) && (
        <>
          <Ruler value={distance} low={low} high={high} end={end} />
          <Axis
            ticks={[
              { at: 0, label: "0" },
              { at: 1, label: number(end) + (beyond || "") },
            ]}
          />
        </>
      )}
      {verdict && (
        <p class="verdict">{alike ? <span class="tag">{verdict}</span> : <b>{verdict}</b>}</p>
      )}
      {Number.isFinite(overlap) && (
        <p class="apart">In different places {percent(1 - overlap)} of the time</p>
      )}
      {note && <p class="hint">{note}</p>}
    </section>
  );
};

/** What the page itself knows of two policies. */
const knownOf = async (a: number, b: number) => {
  const made = await measurer(),
    far = app.data.blob.media.notable.find(({ words }: any) => words.includes("farthest"))?.rows;
  return {
    pair: made.pair(a, b),
    largest: far ? made.between(far[0], far[1]) : 0,
    words: made.words,
    found: await differences(a, b),
    spreads: await spreadsOf(a, b),
  };
};

export const Pair = ({ a, b }: { a: number; b: number }) => {
  const { data } = app,
    rows = [a, b],
    names = rows.map((row) => data.label[row]),
    key = names.join("\n"),
    known = useKept(
      useResult(() => knownOf(a, b), [data, a, b]),
      key,
    ),
    answer = useExact(a, b),
    exact = answer?.exact,
    sent = exact?.spreads,
    pair = exact ? numbersOf(exact) : known?.pair,
    found = exact?.difference ?? known?.found ?? null,
    spoken = pair ? spokenPair(names, pair) : "",
    [made, setMade] = useState<{ key: string; frames: Frame[] } | null>(null);
  useEffect(() => {
    if (spoken) announce(spoken);
  }, [spoken]);
  const links = data.blob.pages.filter(({ rows: of }: any) => of?.includes(a) && of.includes(b));
  const note = exact
    ? "Exact, from the server."
    : answer?.error
      ? `${answer.error}: these are the numbers of the page.`
      : known?.words;
  return (
    <>
      <Head title="A and B">
        <Button act={() => set({ a: b, b: a })}>Swap</Button>
        <Button act={() => set({ a: -1, b: -1 })}>Clear</Button>
      </Head>
      {rows.map((row, side) => (
        <Who key={"ab"[side]} row={row} side={side} />
      ))}
      {pair && known && (
        <div key={key}>
          <Distance
            pair={pair}
            largest={known.largest}
            measured={exact?.measured ?? known.found?.measured}
            note={note}
          />
          <Differs
            found={found}
            rows={rows}
            frames={made?.key === key ? made.frames : framesOf(a, b)}
            reason={exact?.reason || whyNoParts()}
          />
          <Features
            spreads={sent ? { ...sent, features: ordered(sent.features) } : known.spreads}
            averages={found?.averages ?? []}
            more={found?.otherAverages}
          />
        </div>
      )}
      <PairClips a={a} b={b} use={(frames) => setMade({ key, frames })} />
      <div class="both">
        <Nearest row={a} side={0} most={5} />
        <Nearest row={b} side={1} most={5} />
      </div>
      <Pages links={links} />
    </>
  );
};
