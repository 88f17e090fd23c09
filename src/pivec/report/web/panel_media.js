// Pictures and clips in the panel: those that lie beside the page, and those that a server makes.
import { make } from "./format.js";
import { app } from "./state.js";
import { makeClips, isAskedFor, isLive } from "./live.js";
import { badge, nest, pushButton } from "./panel_nodes.js";

/**
 * @typedef {{src: string, region: number, policy?: string, words?: string}} Frame
 * @typedef {{src: string, title: string, words: string}} Clip
 */

/** @param {any} media lies beside the page; a server has it under another address @returns {any} */
const beside = (media) => ({ ...media, src: (isLive() ? "media/" : "") + media.src });

/** @param {number} a @param {number} b @returns {{clips: Clip[], frames: Frame[], page: string | null}} what lies beside the page of two policies */
export const mediaOf = (a, b) => {
  const { clips, frames, page } = app.data.blob.media.pairs.find((/** @type {any} */ pair) => (pair.a === a && pair.b === b) || (pair.a === b && pair.b === a)) || { clips: [], frames: [] };
  return { clips: clips.map(beside), frames: frames.map(beside), page: isLive() ? null : page };
};

/** @param {string} src @param {string} words @returns {any} */
const imageOf = (src, words) => Object.assign(make("img"), { alt: words, loading: "lazy", src });

/** @param {string} src @param {string} words @returns {any} a picture that a click makes large */
const pictureOf = (src, words) => {
  const image = imageOf(src, words), button = pushButton(image, () => {
    const box = nest("dialog.large", imageOf(src, words), nest("p", words, " ", pushButton("Close", () => {})));
    box.addEventListener("click", () => box.close());
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
  }, "picture");
  image.addEventListener("error", () => button.replaceWith(make("small", "The picture is not beside the page.")));
  return button;
};

/** @param {Frame[]} frames @param {number[]} regions that are one part @param {number[]} rows of A and B @returns {any[]} pictures of both in these regions, or of a region */
export const framesOf = (frames, regions, rows) => {
  const own = rows.map((row) => frames.find((frame) => regions.includes(frame.region) && frame.policy === app.data.label[row]));
  const known = app.data.blob.media.regions.find((/** @type {Frame} */ frame) => frame.region === regions[0]);
  if (!own[0] && !own[1]) return known ? [nest("div.frames", pictureOf(beside(known).src, "In this region: " + known.words))] : [];
  return [nest("div.frames", ...own.map((frame, side) => nest("figure",
    frame ? pictureOf(frame.src, `${"AB"[side]} in this region: ${frame.words || frame.policy}`) : "", nest("figcaption", badge(side), frame ? "" : " no picture"))))];
};

/** @param {Clip[]} clips */
const reelOf = (clips) => clips.map(({ src, title, words }) => nest("figure", pictureOf(src, `${title}: ${words}`), make("figcaption", title)));

/** @param {number} a @param {number} b @param {(frames: Frame[]) => void} use of frames that were made @returns {any[]} */
export const clipsOf = (a, b, use) => {
  const { clips, page } = mediaOf(a, b), box = nest("details.clips", make("summary", "Clips"), ...reelOf(clips));
  box.open = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (page) box.append(nest("p.hint", Object.assign(make("a", "All that pivec explain found about them"), { href: page })));
  if (isLive() && !clips.length) {
    const said = make("p", "", "hint");
    said.role = "status";
    const start = pushButton("Make clips of both", async () => {
      start.disabled = true;
      said.textContent = "Playing the episodes again…";
      try {
        const made = await makeClips(a, b, (words) => { said.textContent = words + "…"; });
        if (!made) return;
        said.textContent = made.words;
        start.remove();
        box.append(...reelOf(made.clips));
        use(made.frames);
      } catch (error) {
        said.textContent = "No clips: " + /** @type {Error} */ (error).message;
        start.disabled = false;
      }
    });
    box.append(start, said);
    if (isAskedFor(a, b)) start.click();
  }
  return clips.length || page || isLive() ? [box] : [];
};
