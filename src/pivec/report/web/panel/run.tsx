// How a run moved.
import { RunName } from "../entities";
import { set } from "../state";

export const Run = ({ run }: { run: number }) => (
  <header>
    <h2>
      <RunName run={run} />
    </h2>
    <button type="button" class="plain" onClick={() => set({ run: -1 })}>
      Clear
    </button>
  </header>
);
