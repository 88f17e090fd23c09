// Pictures and clips in the panel: those that lie beside the page, and those that a server makes.
import { make } from "./format";
import { isAskedFor, isLive, makeClips } from "./live";
import { badge, nest, pushButton } from "./panel_nodes";
import { app } from "./state";

export type Frame = { src: string; region: number; policy?: string; words?: string };
export type Clip = { src: string; title: string; words: string };

/** `media`: lies beside the page; a server has it under another address. */
const beside = (media: any): any => ({ ...media, src: (isLive() ? "media/" : "") + media.src });

/** Returns what lies beside the page of two policies. */
export const mediaOf = (
  a: number,
  b: number,
): { clips: Clip[]; frames: Frame[]; page: string | null } => {
  const { clips, frames, page } = app.data.blob.media.pairs.find(
    (pair: any) => (pair.a === a && pair.b === b) || (pair.a === b && pair.b === a),
  ) || { clips: [], frames: [] };
  return { clips: clips.map(beside), frames: frames.map(beside), page: isLive() ? null : page };
};

const imageOf = (src: string, words: string): any =>
  Object.assign(make("img"), { alt: words, loading: "lazy", src });

/** Returns a picture that a click makes large. */
const pictureOf = (src: string, words: string): any => {
  const image = imageOf(src, words),
    button = pushButton(
      image,
      () => {
        const box = nest(
          "dialog.large",
          imageOf(src, words),
          nest(
            "p",
            words,
            " ",
            pushButton("Close", () => {}),
          ),
        );
        box.addEventListener("click", () => box.close());
        box.addEventListener("close", () => box.remove());
        document.body.append(box);
        box.showModal();
      },
      "picture",
    );
  image.addEventListener("error", () =>
    button.replaceWith(make("small", "The picture is not beside the page.")),
  );
  return button;
};

/** `regions`: that are one part; `rows`: of A and B; returns pictures of both in these regions, or of a region. */
export const framesOf = (frames: Frame[], regions: number[], rows: number[]): any[] => {
  const own = rows.map((row) =>
    frames.find((frame) => regions.includes(frame.region) && frame.policy === app.data.label[row]),
  );
  const known = app.data.blob.media.regions.find((frame: Frame) => frame.region === regions[0]);
  if (!own[0] && !own[1])
    return known
      ? [nest("div.frames", pictureOf(beside(known).src, "In this region: " + known.words))]
      : [];
  return [
    nest(
      "div.frames",
      ...own.map((frame, side) =>
        nest(
          "figure",
          frame
            ? pictureOf(frame.src, `${"AB"[side]} in this region: ${frame.words || frame.policy}`)
            : "",
          nest("figcaption", badge(side), frame ? "" : " no picture"),
        ),
      ),
    ),
  ];
};

const reelOf = (clips: Clip[]) =>
  clips.map(({ src, title, words }) =>
    nest("figure", pictureOf(src, `${title}: ${words}`), make("figcaption", title)),
  );

/** `use`: of frames that were made. */
export const clipsOf = (a: number, b: number, use: (frames: Frame[]) => void): any[] => {
  const { clips, page } = mediaOf(a, b),
    box = nest("details.clips", make("summary", "Clips"), ...reelOf(clips));
  box.open = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (page)
    box.append(
      nest(
        "p.hint",
        Object.assign(make("a", "All that pivec explain found about them"), { href: page }),
      ),
    );
  if (isLive() && !clips.length) {
    const said = make("p", "", "hint");
    said.role = "status";
    const start = pushButton("Make clips of both", async () => {
      start.disabled = true;
      said.textContent = "Playing the episodes again…";
      try {
        const made = await makeClips(a, b, (words) => {
          said.textContent = words + "…";
        });
        if (!made) return;
        said.textContent = made.words;
        start.remove();
        box.append(...reelOf(made.clips));
        use(made.frames);
      } catch (error) {
        said.textContent = "No clips: " + (error as Error).message;
        start.disabled = false;
      }
    });
    box.append(start, said);
    if (isAskedFor(a, b)) start.click();
  }
  return clips.length || page || isLive() ? [box] : [];
};
