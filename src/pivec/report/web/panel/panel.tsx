// The panel: what is selected, and how A and B differ.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { measurer } from "../distances";
import { Badge, ClassName, PolicyName, RunName } from "../entities";
import { announce, byId, estimate, number, whole } from "../format";
import { spreadsOf } from "../parts";
import { app, set, useApp, useResult } from "../state";
import { Button, Head, useKept } from "./common";
import { Features } from "./differs";
import { Pair } from "./pair";
import { Run } from "./run";

const NEAREST = 8;

/** What is known of a policy, in a table of names and values. */
export const Facts = ({ row }: { row: number }) => {
  const { group, step, returns, deviation, behaviour, episodes, states, source, reference } =
      app.data,
    { outcomes } = app.data;
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
    ...outcomes.map((o): [string, any] => [
      o.name,
      Number.isFinite(o.values[row]) && estimate(o, row),
    ]),
    ["behaviour", behaviour[row] > 0 && <ClassName number={behaviour[row]} />],
    ["episodes", whole(episodes[row])],
    ["states", whole(states[row])],
    ["shown as", reference[row] === 1 && "policy of an earlier map"],
    ["file", source[row] && <span class="path">{source[row]}</span>],
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

/** The policies nearest to A (side 0) or B; a click selects one of them. */
export const Nearest = ({
  row,
  side,
  most = NEAREST,
}: {
  row: number;
  side: number;
  most?: number;
}) => {
  const { data } = app;
  const find = async () => {
    const made = await measurer();
    return made
      .nearest(row, most)
      .map((near) => ({ ...near, alike: made.pair(row, near.row).alike }));
  };
  const found = useKept(useResult(find, [data, row]), data.label[row]);
  if (!found) return null;
  return (
    <section class="near">
      <h3>
        Nearest to <Badge side={side} />
      </h3>
      <ol>
        {found.map((near) => (
          <li key={near.row} class={near.alike ? "unsure" : ""}>
            <PolicyName row={near.row} />
            <span class="value">{number(near.distance)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
};

const Policy = ({ row, side }: { row: number; side: number }) => {
  const { data } = app,
    { label, features } = data,
    alone = data.n === 1,
    made = useResult(measurer, [data]),
    spreads = useKept(
      useResult(() => spreadsOf(row, -1), [data, row]),
      label[row],
    );
  useEffect(() => announce(`${"AB"[side]}: ${label[row]}`), [row]);
  const averages = features.map(({ values, ...named }) => ({ ...named, a: values[row], b: NaN }));
  return (
    <>
      <Head
        title={
          <span class="who">
            {!alone && <Badge side={side} />}
            <PolicyName row={row} />
          </span>
        }
      >
        {!alone && <Button act={() => set({ a: -1, b: -1 })}>Clear</Button>}
      </Head>
      <Facts row={row} />
      {!alone && <p class="hint">Select another policy to see how the two differ.</p>}
      {!alone && <Nearest row={row} side={side} />}
      {made?.words && <p class="hint">{made.words}</p>}
      {spreads && (
        <Features
          key={label[row]}
          spreads={spreads}
          averages={averages}
          others="all policies together"
        />
      )}
    </>
  );
};

const Invitation = () => {
  const { label, blob } = app.data;
  return (
    <>
      <Head title="Compare two policies" />
      <p>Click two points, or start here:</p>
      <ul class="begin">
        {blob.media.notable.map(({ words, rows: [a, b] }: any) => (
          <li key={words}>
            <button type="button" class="plain" data-pair={`${a} ${b}`}>
              <b>{words}</b>
              <small>
                {label[a]}, {label[b]}
              </small>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
};

const Panel = () => {
  const { a, b, run } = useApp("a b run data colour");
  useEffect(() => {
    byId("panel").scrollTop = 0;
  }, [a, b, run]);
  if (run >= 0) return <Run run={run} />;
  if (a >= 0 && b >= 0 && a !== b) return <Pair a={a} b={b} />;
  const row = app.data.n === 1 ? 0 : Math.max(a, b);
  return row >= 0 ? <Policy row={row} side={Number(a < 0)} /> : <Invitation />;
};

/** When what had the focus is replaced, the heading of what came instead has it. */
const keepFocus = (panel: HTMLElement) => {
  let last: Element | null = null;
  document.addEventListener("focusin", ({ target }) => {
    last = panel.contains(target as Node) ? (target as Element) : null;
  });
  new MutationObserver(() => {
    if (!last || last.isConnected || document.activeElement !== document.body) return;
    panel.querySelector("h2")?.focus({ preventScroll: true });
  }).observe(panel, { childList: true, subtree: true });
};

export const panelPart = () => {
  render(<Panel />, byId("panel"));
  keepFocus(byId("panel"));
};
