// The server behind a served page: new data, exact numbers of two policies, clips. A page from a file has none.

import { unpack } from "./data";
import { announce, byId, whole } from "./format";
import type { Clip } from "./player";
import { adopt, app } from "./state";

/** numbers are null where they are not known */
export interface ExactPair {
  a: string;
  b: string;
  /** of the interval */
  level: number;
  /** without the noise of sampling, where there is an interval */
  distance: number;
  /** with it */
  measured: number;
  low: number | null;
  high: number | null;
  /** of "the same behaviour" */
  p: number | null;
  overlap: number | null;
  difference: import("./parts").Differences | null;
  spreads: import("./parts").Spreads | null;
  /** why there is no difference */
  reason: string;
}
/** addresses are fit for `src`; while they are made, clips have their first frames */
export interface Clips {
  state: "working" | "done" | "failed";
  words: string;
  /** Of the work that is done. */
  share: number;
  clips: Clip[];
  frames: { src: string; region: number; policy: string }[];
}

/** What Python writes, and the script only reads. */
const WRITTEN = ".lead,.figures,.pairs,#runs-table,#tab-behaviours,#tab-groups,#kinds-tables".split(
  ",",
);
const EVERY = 2000,
  SLOWEST = 30000,
  STOPPED = "The server has stopped";

/** `time`: in ms. */
const pause = (time: number) =>
  new Promise((resolve) => {
    setTimeout(resolve, time);
  });

/** Returns fails with a sentence. */
const ask = async (address: string, method: string = "GET"): Promise<any> => {
  const answer = await fetch(address, { method, cache: "no-store" }).catch(() => null);
  const text = answer && (await answer.text().catch(() => ""));
  if (!answer || !text || text[0] !== "{") throw new Error(STOPPED);
  const content = JSON.parse(text);
  if (!answer.ok) throw new Error(content.error);
  return content;
};

const addressOf = (name: string, a: number, b: number) =>
  name + "?" + new URLSearchParams({ a: app.data.label[a], b: app.data.label[b] });

/** Returns whether a server can be asked. */
export const isLive = (): boolean => Boolean(app.data.blob.live);

/** `a`: row of a policy; `b`: row of another; returns null without a server; an error has a sentence for the reader. */
export const exactPair = (a: number, b: number): Promise<ExactPair> | null =>
  isLive() ? ask(addressOf("pair", a, b)) : null;

/** `run`: its number; returns what changed along it, as `blob.runStories` has it; null without a server. */
export const runStory = (run: number): Promise<any> | null =>
  isLive() ? ask("run?" + new URLSearchParams({ run: app.data.groups[run] })) : null;

/** Two policies, or an episode of one by its number there; policies by their rows. */
export type Filmed = { a: number; b: number } | { policy: number; episode: number };

const clipsAddress = (what: Filmed): string => {
  const { label } = app.data;
  if ("a" in what) return addressOf("clips", what.a, what.b);
  const { policy, episode } = what;
  return "clips?" + new URLSearchParams({ policy: label[policy], episode: String(episode) });
};

/** Addresses of clips that the reader asked for; new data show them again. */
const requested: Set<string> = new Set();

/** Returns whether the reader has asked for these clips. */
export const isAskedFor = (what: Filmed): boolean => requested.has(clipsAddress(what));

/** Have a server make clips, which takes seconds; those made before are there at once; `report`: is told how far it is; an error has a sentence for the reader. */
export const makeClips = (what: Filmed, report: (answer: Clips) => void): Promise<Clips> =>
  madeClips(clipsAddress(what), report);

const madeClips = async (address: string, report: (answer: Clips) => void): Promise<Clips> => {
  requested.add(address);
  let answer = await ask(address, "POST");
  while (answer.state === "working") {
    report(answer);
    await pause(400);
    answer = await ask(address);
  }
  if (answer.state === "done") return answer;
  requested.delete(address);
  throw new Error(answer.words);
};

/** Take new data, and replace what Python wrote into the page. */
const renew = async () => {
  const answer = await fetch("", { cache: "no-store" }),
    page = new DOMParser().parseFromString(await answer.text(), "text/html"),
    data = page.getElementById("data");
  if (!data) throw new Error(STOPPED);
  adopt(await unpack(JSON.parse(data.textContent as string)));
  for (const selector of WRITTEN) {
    const now = document.querySelector(selector),
      then = page.querySelector(selector);
    if (now && then) now.replaceChildren(...then.childNodes);
  }
  document.dispatchEvent(new Event("pivec-renewed"));
};

/** Look for new data while the page is open and seen; what is selected stays. */
export const liveUpdates = () => {
  if (!isLive()) return;
  const first = app.data.n,
    status = byId("live");
  status.hidden = false;
  let wait = EVERY;
  const say = (words: string, stopped = false) => {
    if (status.textContent !== words) status.textContent = words;
    status.classList.toggle("stopped", stopped);
  };
  const joined = () => {
    const more = app.data.n - first;
    return more ? `${whole(app.data.n)} policies, ${whole(more)} more than at first. ` : "";
  };
  const look = async () => {
    try {
      if (!document.hidden) {
        const { version, words } = await ask("version");
        if (version && version !== app.data.blob.live) {
          await renew();
          announce(joined());
        }
        say(`Live. ${joined()}${words}`);
      }
      wait = EVERY;
    } catch {
      say(`${STOPPED}, or cannot be reached; all that is shown stays`, true);
      wait = Math.min(2 * wait, SLOWEST);
    }
    setTimeout(look, wait);
  };
  look();
};
