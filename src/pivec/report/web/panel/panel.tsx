// The panel: what is selected, and how A and B differ.
import { render } from "preact";
import { measurer } from "../distances";
import { ClassName, PolicyName, RunName } from "../entities";
import { announce, byId, number, whole } from "../format";
import { app, set, useApp, useResult } from "../state";
import { Pair } from "./pair";
import { Run } from "./run";

export const NEAREST = 8;

/** What is known of a policy, in a table of names and values. */
export const Facts = ({ row }: { row: number }) => {
  const { group, step, returns, deviation, behaviour, episodes, states, source, reference } =
    app.data;
  const facts: [string, any][] = [
    ["run", group[row] >= 0 && <RunName run={group[row]} />],
    ["step", Number.isFinite(step[row]) && whole(step[row])],
    [
      "return",
      Number.isFinite(returns[row])
        ? number(returns[row]) +
          (Number.isFinite(deviation[row]) ? ` ± ${number(deviation[row])}` : "")
        : "not known",
    ],
    ["behaviour", behaviour[row] > 0 && <ClassName number={behaviour[row]} />],
    ["episodes", whole(episodes[row])],
    ["states", whole(states[row])],
    ["shown as", reference[row] === 1 && "policy of an earlier map"],
    ["file", <span class="path">{source[row]}</span>],
  ];
  return (
    <dl class="facts">
      {facts
        .filter(([, value]) => value)
        .flatMap(([name, value]) => [
          <dt key={name}>{name}</dt>,
          <dd key={`${name}:`}>{value}</dd>,
        ])}
    </dl>
  );
};

/** The policies nearest to a policy; a click selects one of them. */
export const Nearest = ({ row, name }: { row: number; name: string }) => {
  const { data } = app,
    made = useResult(measurer, [data]);
  if (!made) return null;
  return (
    <section class="near">
      <h3>Nearest to {name}</h3>
      <ol>
        {made.nearest(row, NEAREST).map((near) => (
          <li key={near.row} class={made.pair(row, near.row).alike ? "unsure" : ""}>
            <PolicyName row={near.row} />
            <span class="value">{number(near.distance)}</span>
          </li>
        ))}
      </ol>
      {made.words && <p class="hint">{made.words}</p>}
    </section>
  );
};

const Policy = ({ row, side }: { row: number; side: number }) => (
  <>
    <header>
      <h2>
        <PolicyName row={row} />
      </h2>
      <button type="button" class="plain" onClick={() => set({ a: -1, b: -1 })}>
        Clear
      </button>
    </header>
    <Facts row={row} />
    <p class="hint">Select another policy to see how the two differ.</p>
    <Nearest row={row} name={"AB"[side]} />
  </>
);

const Invitation = () => (
  <>
    <header>
      <h2>Compare two policies</h2>
    </header>
    <p>Click a point, then another; or start here:</p>
    <ul class="begin">
      {app.data.blob.media.notable.map(({ words, rows: [a, b] }: any) => (
        <li key={words}>
          <button type="button" class="plain" data-pair={`${a} ${b}`}>
            {words}
          </button>
        </li>
      ))}
    </ul>
  </>
);

const Panel = () => {
  const { a, b, run } = useApp("a b run data colour");
  if (run >= 0) return <Run run={run} />;
  if (a >= 0 && b >= 0 && a !== b) return <Pair a={a} b={b} />;
  const row = Math.max(a, b);
  return row >= 0 ? <Policy row={row} side={Number(a < 0)} /> : <Invitation />;
};

export const panelPart = () => {
  render(<Panel />, byId("panel"));
  void announce;
};
