// Clips of two policies and of episodes: those beside the page, and those that a server makes.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { percent } from "../format";
import { type Clips, type Filmed, isAskedFor, isLive, makeClips } from "../live";
import { type Clip, player } from "../player";
import { app } from "../state";
import type { Frame } from "./media";

/** A clip beside the page, which a server has under another address. */
const beside = (clip: Clip): Clip => {
  const at = (src: string) => (isLive() ? "media/" : "") + src;
  const sheets = clip.sheets.map((sheet) => ({ ...sheet, src: at(sheet.src) }));
  return { ...clip, sheets, src: clip.src && at(clip.src) };
};

/** The player of a clip; `begin`: starts at once, unless the reader prefers less motion. */
const Player = ({ clip, begin }: { clip: Clip; begin: boolean }) => {
  const box = useRef<HTMLDivElement>(null),
    key = JSON.stringify(clip);
  useLayoutEffect(() => player(box.current!, clip, { begin }), [key]);
  return (
    <figure class="clip">
      <h4>{clip.title}</h4>
      <div ref={box} />
      <figcaption class="hint">{clip.words}</figcaption>
    </figure>
  );
};

/** A button that has a server make clips, with how far it is; `begin`: has them made at once. */
const Made = ({
  what,
  words,
  begin,
  use,
}: {
  what: Filmed;
  words: string;
  begin: boolean;
  /** takes the pictures of regions that were made too */
  use?: (frames: Frame[]) => void;
}) => {
  const [answer, setAnswer] = useState<Clips | null>(null),
    [failed, setFailed] = useState("");
  const start = () => {
    setFailed("");
    const finish = (made: Clips) => {
      setAnswer(made);
      use?.(made.frames);
    };
    makeClips(what, setAnswer).then(finish, (error: Error) => {
      setAnswer(null);
      setFailed(`No clips: ${error.message}`);
    });
  };
  useEffect(() => {
    if (begin || isAskedFor(what)) start();
  }, []);
  const working = answer?.state === "working";
  return (
    <>
      {answer?.state !== "done" && (
        <p class="making">
          <button type="button" class="plain" disabled={working} onClick={start}>
            {words}
          </button>
          {working && <progress value={answer.share} aria-label={percent(answer.share)} />}
          <span role="status" class="hint">
            {working ? answer.words : failed}
          </span>
        </p>
      )}
      {answer?.clips.map((clip) => (
        <Player key={clip.title} clip={clip} begin={begin && !working} />
      ))}
    </>
  );
};

/** Clips of two policies; nothing where there are none and nobody can make them. */
export const PairClips = ({
  a,
  b,
  use,
}: {
  a: number;
  b: number;
  use?: (frames: Frame[]) => void;
}) => {
  const known = app.data.blob.media.pairs.find(
    (pair: any) => (pair.a === a && pair.b === b) || (pair.a === b && pair.b === a),
  );
  if (!known?.clips.length && !isLive()) return null;
  const turned = (clip: Clip): Clip =>
    known.a === a ? clip : { ...clip, sheets: [...clip.sheets].reverse() };
  return (
    <section class="clips" key={`${a} ${b}`}>
      <h3>Clips</h3>
      {known?.clips.length ? (
        known.clips.map((clip: Clip) => (
          <Player key={clip.title} clip={turned(beside(clip))} begin={false} />
        ))
      ) : (
        <Made what={{ a, b }} words="Make clips of both" begin={false} use={use} />
      )}
    </section>
  );
};

/** The clip of an episode (its number within the policy's row), played at once. */
export const EpisodeClip = ({ policy, episode }: { policy: number; episode: number }) => {
  const known = app.data.blob.media.episodes.find(
    (clip: any) => clip.policy === policy && clip.episode === episode,
  );
  return (
    <section class="clips" key={`${policy} ${episode}`}>
      {known ? (
        <Player clip={beside(known)} begin />
      ) : isLive() ? (
        <Made what={{ policy, episode }} words="Play this episode" begin />
      ) : (
        <p class="hint">
          This file has no clip of episode {episode} of {app.data.label[policy]}.{" "}
          <code>pivec serve</code> plays any episode.
        </p>
      )}
    </section>
  );
};
