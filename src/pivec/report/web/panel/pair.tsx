// How A and B differ.
import { measurer } from "../distances";
import { Badge, PolicyName } from "../entities";
import { number } from "../format";
import { app, set, useResult } from "../state";
import { PairClips } from "./clips";
import { Nearest } from "./panel";

export const Pair = ({ a, b }: { a: number; b: number }) => {
  const made = useResult(measurer, [app.data]),
    pair = made?.pair(a, b);
  return (
    <>
      <header>
        <h2>A and B</h2>
        <button type="button" class="plain" onClick={() => set({ a: b, b: a })}>
          Swap
        </button>
        <button type="button" class="plain" onClick={() => set({ a: -1, b: -1 })}>
          Clear
        </button>
      </header>
      {[a, b].map((row, side) => (
        <p class="who" key={row}>
          <Badge side={side} />
          <PolicyName row={row} />
        </p>
      ))}
      {pair && <p class="figure">{number(pair.distance)}</p>}
      <PairClips a={a} b={b} />
      <Nearest row={a} name="A" />
      <Nearest row={b} name="B" />
    </>
  );
};
