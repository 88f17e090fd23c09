// Pictures of both policies in a region.
import { useState } from "preact/hooks";
import { Badge } from "../entities";
import { isLive } from "../live";
import { app } from "../state";

export type Frame = { src: string; region: number; policy?: string; words?: string };

/** Frames beside the page, which a server has under another address. */
const beside = (frame: Frame): Frame => ({
  ...frame,
  src: (isLive() ? "media/" : "") + frame.src,
});

const entryOf = (a: number, b: number) =>
  app.data.blob.media.pairs.find(
    (pair: any) => (pair.a === a && pair.b === b) || (pair.a === b && pair.b === a),
  );

export const framesOf = (a: number, b: number): Frame[] =>
  (entryOf(a, b)?.frames ?? []).map(beside);

/** A picture that a click makes large. */
const Picture = ({ src, words }: { src: string; words: string }) => {
  const [missing, miss] = useState(false);
  if (missing) return <small>The picture is not beside the page.</small>;
  const enlarge = (event: Event) =>
    ((event.currentTarget as Element).nextElementSibling as HTMLDialogElement).showModal();
  const close = (event: Event) => (event.currentTarget as HTMLDialogElement).close();
  const image = <img alt={words} loading="lazy" src={src} onError={() => miss(true)} />;
  return (
    <>
      <button type="button" class="picture" onClick={enlarge}>
        {image}
      </button>
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: a dialog is closed by Escape, and its button */}
      <dialog class="large" onClick={close}>
        <img alt="" loading="lazy" src={src} />
        <p>
          {words}{" "}
          <button type="button" class="plain">
            Close
          </button>
        </p>
      </dialog>
    </>
  );
};

/** Pictures of both in these regions; else a picture of the region. */
export const Frames = ({ frames, regions, rows }: any) => {
  const own: (Frame | undefined)[] = rows.map((row: number) =>
    frames.find(
      (frame: Frame) => regions.includes(frame.region) && frame.policy === app.data.label[row],
    ),
  );
  const known = app.data.blob.media.regions.find((frame: Frame) => frame.region === regions[0]);
  if (own.some(Boolean))
    return (
      <div class="frames">
        {own.map((frame, side) => (
          <figure key={"ab"[side]}>
            {frame && (
              <Picture
                src={frame.src}
                words={`${"AB"[side]} in this region: ${frame.words || frame.policy}`}
              />
            )}
            <figcaption>
              <Badge side={side} /> {!frame && "no picture"}
            </figcaption>
          </figure>
        ))}
      </div>
    );
  if (!known) return null;
  const { src, words } = beside(known);
  return (
    <div class="lone">
      <Picture src={src} words={`In this region: ${words}`} />
    </div>
  );
};
