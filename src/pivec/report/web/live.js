// The server behind a served page: new data, exact numbers of two policies, clips. A page from a file has none.
import { announce, make, whole } from "./format.js";
import { unpack } from "./data.js";
import { adopt, app } from "./state.js";

/**
 * @typedef {object} ExactPair numbers are null where they are not known
 * @property {string} a
 * @property {string} b
 * @property {number} level of the interval
 * @property {number} distance without the noise of sampling, where there is an interval
 * @property {number} measured with it
 * @property {number | null} low
 * @property {number | null} high
 * @property {number | null} p of "the same behaviour"
 * @property {number | null} overlap
 * @property {import("./parts.js").Differences | null} difference
 * @property {string} reason why there is no difference
 * @typedef {object} Clips addresses are fit for `src`
 * @property {"working" | "done" | "failed"} state
 * @property {string} words
 * @property {{src: string, title: string, words: string}[]} clips
 * @property {{src: string, region: number, policy: string}[]} frames
 */

const EVERY = 2000, SLOWEST = 30000, STOPPED = "The server has stopped";

/** @param {number} time in ms */
const pause = (time) => new Promise((resolve) => { setTimeout(resolve, time); });

/** @param {string} address @param {string} [method] @returns {Promise<any>} fails with a sentence */
const ask = async (address, method = "GET") => {
  const answer = await fetch(address, { method, cache: "no-store" }).catch(() => null);
  const text = answer && await answer.text().catch(() => "");
  if (!answer || !text || text[0] !== "{") throw new Error(STOPPED);
  const content = JSON.parse(text);
  if (!answer.ok) throw new Error(content.error);
  return content;
};

/** @param {string} name @param {number} a @param {number} b */
const addressOf = (name, a, b) => name + "?" + new URLSearchParams({ a: app.data.label[a], b: app.data.label[b] });

/** @returns {boolean} whether a server can be asked */
export const isLive = () => Boolean(app.data.blob.live);

/**
 * @param {number} a row of a policy @param {number} b row of another
 * @returns {Promise<ExactPair> | null} null without a server; an error has a sentence for the reader
 */
export const exactPair = (a, b) => (isLive() ? ask(addressOf("pair", a, b)) : null);

/** Addresses of clips that the reader asked for; new data show them again. @type {Set<string>} */
const requested = new Set();

/** @param {number} a @param {number} b @returns {boolean} whether the reader has asked for their clips */
export const isAskedFor = (a, b) => requested.has(addressOf("clips", a, b));

/**
 * Have clips of both made, which takes seconds; those made before are there at once.
 * @param {number} a row of a policy @param {number} b row of another
 * @param {(words: string) => void} [report] is told how far it is
 * @returns {Promise<Clips> | null} null without a server; an error has a sentence for the reader
 */
export const makeClips = (a, b, report) => (isLive() ? madeClips(addressOf("clips", a, b), report) : null);

/** @param {string} address @param {(words: string) => void} [report] @returns {Promise<Clips>} */
const madeClips = async (address, report) => {
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

/** Write what stands above the map anew. */
const renewHead = () => {
  const { summary, figures } = app.data.blob, select = (/** @type {string} */ name) => /** @type {HTMLElement} */ (document.querySelector("header " + name));
  select(".lead").textContent = summary;
  select(".figures").replaceChildren(...Object.entries(figures).map(([name, value]) => {
    const box = make("div");
    box.append(make("dt", name), make("dd", value));
    return box;
  }));
};

/** Look for new data while the page is open and seen; what is chosen stays. */
export const liveUpdates = () => {
  if (!isLive()) return;
  const first = app.data.n, status = make("p", "", "live");
  status.setAttribute("role", "status");
  /** @type {HTMLElement} */ (document.querySelector("header")).append(status);
  let wait = EVERY;
  const say = (/** @type {string} */ words, stopped = false) => {
    if (status.textContent !== words) status.textContent = words;
    status.classList.toggle("stopped", stopped);
  };
  const shown = () => {
    const more = app.data.n - first;
    if (!more) return "Live: new policies appear by themselves";
    const change = more > 0 ? `${whole(more)} joined` : `${whole(-more)} left`;
    return `Live: ${whole(app.data.n)} policies, ${change} since the page was opened. Behaviour classes and groups below are updated on reload.`;
  };
  const look = async () => {
    try {
      if (!document.hidden) {
        const { version } = await ask("version");
        if (version !== app.data.blob.live) {
          adopt(await unpack(await ask("data")));
          renewHead();
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
