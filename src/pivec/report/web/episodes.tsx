// The tab of episodes: their map, the most unusual ones, and what is known of one of them.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { css, theme, tints } from "./colours";
import { episodesText } from "./csv";
import { textsOf } from "./data";
import { perData, unpackAll } from "./distances";
import { KindName, PolicyName, RunName } from "./entities";
import { announce, byId, framed, number, percent, whole } from "./format";
import { isLive } from "./live";
import { costOf, WAYS } from "./map/keyboard";
import { encloses } from "./map/lasso";
import { EpisodeClip } from "./panel/clips";
import { tight } from "./panel/words";
import { pageColour, sharpPen, strokeTwice } from "./pen";
import { save } from "./save";
import { app, on, set, state, useApp, useResult } from "./state";

/** a row per episode */
export interface Episodes {
  n: number;
  policy: Int32Array;
  /** within its policy */
  number: Int32Array;
  /** from 1; 0 unknown */
  kind: Uint8Array;
  x: Float32Array;
  y: Float32Array;
  /** as far from its policy's mean as the median episode; NaN unknown */
  times: Float32Array;
  returns: Float32Array;
  length: Int32Array;
  /** empty where not known */
  seed: string[];
  /** to mark, the farthest first */
  unusual: number[];
  kinds: { number: number; name: string; share: number; policy: number; episode: number }[];
  words: string;
}

const LISTED = 10,
  MARGIN = 16;

const episodesOf = perData(async (data): Promise<Episodes | null> => {
  if (!data.blob.episodes) return null;
  const { seed, ...columns } = data.blob.episodes;
  return { ...(await unpackAll(columns)), seed: await textsOf(seed) };
});

const kindColour = (kind: number): string =>
  css(kind ? tints.palette[(kind - 1) % tints.palette.length] : theme.lone);

/** Which episodes are of interest now; null if none are more than others. */
const emphasis = (of: Episodes, chosen: Uint8Array | null): ((e: number) => boolean) | null => {
  const { lit, a, b, run } = state,
    { group, behaviour } = app.data;
  if (lit?.of === "kind") return (e) => of.kind[e] === lit.number;
  if (lit?.of === "run") return (e) => group[of.policy[e]] === lit.number;
  if (lit?.of === "class") return (e) => behaviour[of.policy[e]] === lit.number;
  if (chosen) return (e) => chosen[e] === 1;
  if (a >= 0 || b >= 0) return (e) => of.policy[e] === a || of.policy[e] === b;
  return run >= 0 ? (e) => group[of.policy[e]] === run : null;
};

/** Where episodes are on a canvas. */
const placesOf = ({ x, y, n }: Episodes, width: number, height: number) => {
  const ends = (values: Float32Array) => {
    let low = Infinity,
      high = -Infinity;
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return [low, high];
  };
  const [x0, x1] = ends(x),
    [y0, y1] = ends(y),
    scale = Math.min(
      (width - 2 * MARGIN) / Math.max(x1 - x0, 1e-9),
      (height - 2 * MARGIN) / Math.max(y1 - y0, 1e-9),
    );
  const places = new Float32Array(2 * n);
  for (let e = 0; e < n; e++) {
    places[2 * e] = width / 2 + (x[e] - (x0 + x1) / 2) * scale;
    places[2 * e + 1] = height / 2 - (y[e] - (y0 + y1) / 2) * scale;
  }
  return places;
};

/** The nearest place, −1 if none is near. */
export const nearest = (places: Float32Array, px: number, py: number, reach: number): number => {
  let best = -1,
    least = reach * reach;
  for (let e = 0; 2 * e < places.length; e++) {
    const far = (places[2 * e] - px) ** 2 + (places[2 * e + 1] - py) ** 2;
    if (far <= least) {
      least = far;
      best = e;
    }
  }
  return best;
};

const paint = (
  canvas: HTMLCanvasElement,
  of: Episodes,
  places: Float32Array,
  at: number,
  chosen: Uint8Array | null,
  outline: number[],
) => {
  const { clientWidth: width, clientHeight: height } = canvas,
    pen = sharpPen(canvas, width, height),
    wanted = emphasis(of, chosen),
    radius = Math.max(2, Math.min(4.5, 110 / Math.sqrt(of.n)));
  const circle = (e: number, r: number) => {
    pen.moveTo(places[2 * e] + r, places[2 * e + 1]);
    pen.arc(places[2 * e], places[2 * e + 1], r, 0, 7);
  };
  const kinds = Math.max(0, ...of.kind);
  for (const front of wanted ? [false, true] : [true])
    for (let kind = 0; kind <= kinds; kind++) {
      pen.beginPath();
      for (let e = 0; e < of.n; e++)
        if (of.kind[e] === kind && (!wanted || wanted(e) === front)) circle(e, radius);
      pen.fillStyle = kindColour(kind);
      pen.globalAlpha = front ? 0.85 : 0.13;
      pen.fill();
    }
  pen.globalAlpha = 1;
  const ring = (e: number, r: number, colour: string, wide = 1.5) => {
    pen.beginPath();
    circle(e, r);
    strokeTwice(pen, colour, wide);
  };
  const ink = pageColour("ink");
  for (const [row, id] of [
    [state.a, "a"],
    [state.b, "b"],
  ] as const)
    if (row >= 0) {
      const colour = pageColour(id);
      for (let e = 0; e < of.n; e++)
        if (of.policy[e] === row) {
          pen.beginPath();
          circle(e, radius + 1.5);
          pen.strokeStyle = colour;
          pen.lineWidth = 1.5;
          pen.stroke();
        }
    }
  for (const e of of.unusual) if (!wanted || wanted(e)) ring(e, radius + 3.5, ink, 1.2);
  if (state.episode >= 0 && state.episode < of.n)
    ring(state.episode, radius + 5, pageColour("accent"), 3);
  if (at >= 0) ring(at, radius + 3, ink, 2);
  // Numbers of kinds, at their typical episodes.
  pen.font = "bold " + pen.font;
  pen.textAlign = "center";
  for (const { number: kind, policy, episode } of of.kinds) {
    const e = of.policy.findIndex((p, k) => p === policy && of.number[k] === episode);
    if (e < 0) continue;
    pen.lineWidth = 4;
    pen.strokeStyle = pageColour("raised");
    pen.strokeText(String(kind), places[2 * e], places[2 * e + 1]);
    pen.fillStyle = ink;
    pen.fillText(String(kind), places[2 * e], places[2 * e + 1]);
  }
  if (outline.length) {
    pen.beginPath();
    for (let k = 0; k < outline.length; k += 2) pen.lineTo(outline[k], outline[k + 1]);
    pen.closePath();
    strokeTwice(pen, pageColour("accent"), 1.5);
  }
};

/** What is known of an episode, as pairs of a name and a value. */
const factsOf = (of: Episodes, e: number): [string, string][] => {
  const facts: [string, string][] = [
    ["return", number(of.returns[e])],
    ["states", whole(of.length[e])],
    ["unusual", `${number(of.times[e], 2)} times as far from its policy's mean as usual`],
    ["seed", of.seed[e]],
  ];
  return facts.filter(([, value]) => value && value[0] !== "–");
};

const nameOf = (of: Episodes, e: number) =>
  `${app.data.label[of.policy[e]]}, episode ${of.number[e]}`;

const EpisodeMap = ({
  of,
  chosen,
  choose,
}: {
  of: Episodes;
  chosen: Uint8Array | null;
  choose: (chosen: Uint8Array | null) => void;
}) => {
  const canvas = useRef<HTMLCanvasElement>(null),
    [at, setAt] = useState(-1),
    [pressed, setPressed] = useState(false),
    now = useRef({ places: new Float32Array(0), outline: [] as number[], draw: () => {} });
  const look = () => {
    const { clientWidth: width, clientHeight: height } = canvas.current!;
    if (!width || !height) return;
    now.current.places = placesOf(of, width, height);
    draw();
  };
  const draw = () => now.current.draw();
  const latest = useRef(() => {});
  latest.current = () => {
    const { places, outline } = now.current;
    if (canvas.current?.clientWidth && places.length)
      paint(canvas.current, of, places, at, chosen, outline);
  };
  useEffect(() => {
    now.current.draw = framed(() => latest.current());
    const observer = new ResizeObserver(look);
    observer.observe(canvas.current!);
    const stop = on("a b run lit colour episode", draw);
    look();
    return () => {
      observer.disconnect();
      stop();
    };
  }, [of]);
  useEffect(draw, [at, chosen]);

  const pixel = (event: PointerEvent) => {
    const { left, top } = canvas.current!.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const reach = (event: PointerEvent) => (event.pointerType === "touch" ? 24 : 12);
  const down = (event: PointerEvent) => {
    if (event.button || !(event.shiftKey || pressed)) return;
    canvas.current!.setPointerCapture(event.pointerId);
    now.current.outline = pixel(event);
  };
  const move = (event: PointerEvent) => {
    const [px, py] = pixel(event),
      { outline, places } = now.current;
    if (!outline.length) return setAt(nearest(places, px, py, reach(event)));
    outline.push(px, py);
    draw();
  };
  const up = (event: PointerEvent) => {
    const { outline, places } = now.current;
    now.current.outline = [];
    if (outline.length > 4) {
      const inside = Uint8Array.from({ length: of.n }, (_, e) =>
        Number(encloses(outline, places[2 * e], places[2 * e + 1])),
      );
      setPressed(false);
      choose(inside.includes(1) ? inside : null);
      return;
    }
    draw();
    const e = nearest(places, ...(pixel(event) as [number, number]), reach(event));
    if (e >= 0 && !event.button) set({ episode: e === state.episode ? -1 : e });
  };
  const press = (event: KeyboardEvent) => {
    const { places } = now.current,
      way = WAYS[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (way) {
      const from = at >= 0 ? at : state.episode >= 0 ? state.episode : -1,
        [px, py] = from < 0 ? [-1, -1] : places.subarray(2 * from, 2 * from + 2);
      let best = from < 0 ? 0 : -1,
        least = Infinity;
      for (let e = 0; from >= 0 && e < of.n; e++) {
        const dx = places[2 * e] - px,
          dy = places[2 * e + 1] - py,
          same = !dx && !dy && (e - from) * (way[0] + way[1]) > 0;
        const cost = same ? Math.abs(e - from) * 1e-9 : costOf(dx, dy, way);
        if (cost < least) {
          least = cost;
          best = e;
        }
      }
      if (best >= 0) {
        setAt(best);
        announce(
          [
            nameOf(of, best),
            `kind ${of.kind[best]}`,
            ...factsOf(of, best).map((f) => f.join(" ")),
          ].join(", "),
        );
      } else announce("No episode further that way");
    } else if (event.key === "Enter" && at >= 0) set({ episode: at });
    else if (event.key === "Escape") {
      if (chosen) choose(null);
      else set({ episode: -1 });
    } else return;
    event.preventDefault();
  };
  const { places } = now.current;
  return (
    <div class="plot episode-map">
      {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: arrow keys move between episodes */}
      <canvas
        ref={canvas}
        class={pressed ? "lasso" : ""}
        tabIndex={0}
        role="application"
        aria-label={`Map of ${of.n} episodes`}
        aria-describedby="episode-keys"
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onPointerCancel={() => {
          now.current.outline = [];
          draw();
        }}
        onPointerLeave={() => setAt(-1)}
        onBlur={() => setAt(-1)}
        onKeyDown={press}
      />
      <p class="unseen" id="episode-keys">
        Keys: arrows move between episodes, Enter selects, Esc clears.
      </p>
      <div class="actions">
        <button
          type="button"
          class="plain"
          aria-pressed={pressed}
          onClick={() => setPressed(!pressed)}
        >
          Lasso
        </button>
        {chosen && (
          <>
            <button
              type="button"
              class="plain"
              onClick={() => {
                const rows = [...chosen.keys()].filter((e) => chosen[e]);
                save("episodes.csv", new Blob([episodesText(of, rows)], { type: "text/csv" }));
              }}
            >
              Save {whole(chosen.reduce((sum, is) => sum + is, 0))} as CSV
            </button>
            <button type="button" class="plain" onClick={() => choose(null)}>
              Clear
            </button>
          </>
        )}
      </div>
      {at >= 0 && places.length > 2 * at && (
        <div
          class="tip"
          style={{
            left: `${Math.max(0, Math.min(places[2 * at] + 14, (canvas.current?.clientWidth ?? 0) - 230))}px`,
            top: `${Math.max(0, Math.min(places[2 * at + 1] - 30, (canvas.current?.clientHeight ?? 0) - 120))}px`,
          }}
        >
          <strong>{nameOf(of, at)}</strong>
          <dl>
            <dt>kind</dt>
            <dd>{of.kind[at] || "unknown"}</dd>
            {factsOf(of, at)
              .slice(0, 3)
              .map(([name, value]) => [
                <dt key={name}>{name}</dt>,
                <dd key={`${name}:`}>{value}</dd>,
              ])}
          </dl>
        </div>
      )}
    </div>
  );
};

/** The clip of an episode; a server makes it when it is asked to. */
const Clip = ({ policy, episode }: { policy: number; episode: number }) => {
  const [asked, setAsked] = useState(false),
    known = app.data.blob.media.episodes?.some(
      (clip: any) => clip.policy === policy && clip.episode === episode,
    );
  if (known || asked || !isLive()) return <EpisodeClip policy={policy} episode={episode} />;
  return (
    <p>
      <button type="button" class="plain" onClick={() => setAsked(true)}>
        Play
      </button>
    </p>
  );
};

const Episode = ({ of, e }: { of: Episodes; e: number }) => {
  const policy = of.policy[e],
    run = app.data.group[policy];
  return (
    <section class="episode" id="episode-facts" aria-label="Selected episode">
      <header>
        <h3>Episode {of.number[e]}</h3>
        <button type="button" class="plain" onClick={() => set({ episode: -1 })}>
          Close
        </button>
      </header>
      <Clip key={e} policy={policy} episode={of.number[e]} />
      <dl class="facts">
        <dt>policy</dt>
        <dd>
          <PolicyName row={policy} />
        </dd>
        {run >= 0 && (
          <>
            <dt>run</dt>
            <dd>
              <RunName run={run} />
            </dd>
          </>
        )}
        {of.kind[e] > 0 && (
          <>
            <dt>kind</dt>
            <dd>
              <KindName number={of.kind[e]} colour={kindColour(of.kind[e])} />
            </dd>
          </>
        )}
        {factsOf(of, e).map(([name, value]) => [
          <dt key={name}>{name}</dt>,
          <dd key={`${name}:`}>{value}</dd>,
        ])}
      </dl>
    </section>
  );
};

const EpisodeTab = () => {
  const { episode } = useApp("data episode colour"),
    of = useResult(episodesOf, [app.data]),
    [chosen, choose] = useState<Uint8Array | null>(null),
    [kind, setKind] = useState(0);
  const chooseKind = (number: number) => {
    if (!of) return;
    const next = number === kind && chosen ? 0 : number;
    setKind(next);
    choose(next ? of.kind.map((own) => Number(own === next)) : null);
  };
  useEffect(() => choose(null), [of]);
  useEffect(() => {
    const tab = byId("tab-episodes");
    const click = (event: Event) => {
      const name = (event.target as Element).closest<HTMLElement>("[data-kind]");
      if (name && !(event.target as Element).closest("[data-row],[data-run],[data-episode]"))
        chooseKind(Number(name.dataset.kind));
    };
    tab.addEventListener("click", click);
    return () => tab.removeEventListener("click", click);
  }, [of, kind, chosen]);
  if (!of) return null;
  return (
    <div class="episodes-grid">
      <EpisodeMap of={of} chosen={chosen} choose={choose} />
      <div class="episode-side">
        {episode >= 0 && episode < of.n ? (
          <Episode of={of} e={episode} />
        ) : (
          of.unusual.length > 0 && (
            <section>
              <h3>Most unusual</h3>
              <ol class="unusual">
                {of.unusual.slice(0, LISTED).map((e) => (
                  <li key={e}>
                    <button type="button" class="entity" data-episode={e}>
                      <i class="dot" style={{ background: kindColour(of.kind[e]) }} />
                      <span>{nameOf(of, e)}</span>
                      <b>{number(of.times[e], 2)}×</b>
                    </button>
                  </li>
                ))}
              </ol>
            </section>
          )
        )}
      </div>
      <section>
        <h3>Kinds</h3>
        <ol class="kinds">
          {of.kinds.map(({ number: k, name, share }) => (
            <li key={k}>
              <button type="button" class="entity" data-kind={k} title={name}>
                <i class="dot" style={{ background: kindColour(k) }} />
                <b>{k}</b>
                <span>{tight(name)}</span>
                <em>{percent(share)}</em>
              </button>
            </li>
          ))}
        </ol>
        <p class="hint">{of.words}</p>
      </section>
    </div>
  );
};

export const episodesPart = () => {
  const box = byId("episodes-live");
  if (box) render(<EpisodeTab />, box);
};
