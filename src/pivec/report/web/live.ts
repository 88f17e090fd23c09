// The server behind a served page: new data, exact numbers of two policies, clips. A page from a file has none.

import { unpack } from "./data";
import { announce, byId, whole } from "./format";
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
/** addresses are fit for `src` */
export interface Clips {
  state: "working" | "done" | "failed";
  words: string;
  clips: { src: string; title: string; words: string }[];
  frames: { src: string; region: number; policy: string }[];
}

/** Tabs without parts that the script draws. */
const KEPT_OUT = ["behaviours", "groups"];
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

/** Addresses of clips that the reader asked for; new data show them again. */
const requested: Set<string> = new Set();

/** Returns whether the reader has asked for their clips. */
export const isAskedFor = (a: number, b: number): boolean =>
  requested.has(addressOf("clips", a, b));

/** Have clips of both made, which takes seconds; those made before are there at once; `a`: row of a policy; `b`: row of another; `report`: is told how far it is; returns null without a server; an error has a sentence for the reader. */
export const makeClips = (
  a: number,
  b: number,
  report?: (words: string) => void,
): Promise<Clips> | null => (isLive() ? madeClips(addressOf("clips", a, b), report) : null);

const madeClips = async (address: string, report?: (words: string) => void): Promise<Clips> => {
  requested.add(address);
  let answer = await ask(address, "POST");
  while (answer.state === "working") {
    if (report) report(answer.words);
    await pause(700);
    answer = await ask(address);
  }
  if (answer.state === "done") return answer;
  requested.delete(address);
  throw new Error(answer.words);
};

/** Replace what Python wrote into the page: the summary, the figures and the tabs. */
const renewPage = async () => {
  const answer = await fetch("", { cache: "no-store" }),
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const parts = [".lead", ".figures", ...KEPT_OUT.map((name) => `#tab-${name}`)];
  for (const selector of parts) {
    const now = document.querySelector(selector),
      then = page.querySelector(selector);
    if (now && then) now.replaceChildren(...then.childNodes);
  }
};

/** Look for new data while the page is open and seen; what is chosen stays. */
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
  const shown = () => {
    const more = app.data.n - first;
    if (!more) return "Live: new policies appear by themselves";
    const change = more > 0 ? `${whole(more)} joined` : `${whole(-more)} left`;
    return `Live: ${whole(app.data.n)} policies, ${change} since the page was opened.`;
  };
  const look = async () => {
    try {
      if (!document.hidden) {
        const { version } = await ask("version");
        if (version !== app.data.blob.live) {
          adopt(await unpack(await ask("data")));
          await renewPage();
          announce(shown());
        }
        say(shown());
      }
      wait = EVERY;
    } catch {
      say(`${STOPPED}, or cannot be reached; all that is shown stays`, true);
      wait = Math.min(2 * wait, SLOWEST);
    }
    setTimeout(look, wait);
  };
  say(shown());
  setTimeout(look, wait);
};
