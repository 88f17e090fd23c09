// Plays clips: frames of episodes on sheets, one per policy, on one timeline.

/** The frames of a policy, row by row; frame k shows step first + k · every, the last one the last step. */
export type Sheet = {
  src: string;
  label: string;
  episode: number | null;
  seed: number;
  first: number;
  last: number;
  every: number;
  frames: number;
  columns: number;
  width: number;
  height: number;
  isEnd: boolean;
  texts: string[];
  captions: number[];
};

/** `src`: an animated picture of the same, if there is one; older folders have nothing else. */
export type Clip = { title: string; words: string; fps: number; src?: string; sheets: Sheet[] };

/** `begin`: play at once, unless the reader prefers less motion. */
export type Options = { begin?: boolean };

const SPEEDS = [0.25, 0.5, 1, 2, 4];

/** Returns how many frames the timeline has. */
export const lengthOf = (clip: Clip): number =>
  Math.max(0, ...clip.sheets.map(({ frames }) => frames));

/** Returns what a sheet shows at a time: its frame, step and caption, and whether it has stopped. */
export const momentOf = (sheet: Sheet, time: number) => {
  const frame = Math.min(time, sheet.frames - 1);
  const step = Math.min(sheet.first + frame * sheet.every, sheet.last);
  const stopped = time >= sheet.frames - 1 && sheet.isEnd ? "episode ends" : "";
  return {
    frame,
    step,
    over: time > frame,
    said: stopped || (time > frame ? "clip ends" : ""),
    caption: sheet.captions.length ? sheet.texts[sheet.captions[frame]] : "",
  };
};

/** Returns where a frame is on its sheet, as a CSS transform of the whole picture. */
export const placeOf = (sheet: Sheet, frame: number): string => {
  const rows = Math.ceil(sheet.frames / sheet.columns);
  const left = (frame % sheet.columns) / sheet.columns;
  const top = Math.floor(frame / sheet.columns) / rows;
  return `translate(${-100 * left}%, ${-100 * top}%)`;
};

const make = (tag: string, className: string, ...children: (Node | string)[]): any => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
};

/** Returns the element of a sheet, and what shows a time there. */
const sideOf = (sheet: Sheet, name: string, alone: boolean) => {
  const image = make("img", ""),
    box = make("div", "sheet", image),
    at = make("span", "at"),
    caption = make("p", "caption");
  const played = sheet.episode === null ? `seed ${sheet.seed}` : `episode ${sheet.episode}`;
  image.alt = `${alone ? "" : name + ": "}${sheet.label}, ${played}`;
  image.src = sheet.src;
  image.draggable = false;
  image.style.width = `${100 * sheet.columns}%`;
  box.style.aspectRatio = `${sheet.width} / ${sheet.height}`;
  image.addEventListener("error", () =>
    box.replaceWith(make("p", "none", "The picture is not beside the page.")),
  );
  const mark = alone ? [] : [make("b", "mark", name), " "];
  const head = make("p", "label", ...mark, make("span", "", `${sheet.label}, ${played}`));
  const node = make("div", "shown", head, box, make("p", "now", at));
  node.dataset.side = name;
  const show = (time: number, playing: boolean) => {
    const { frame, step, over, said, caption: text } = momentOf(sheet, time);
    image.style.transform = placeOf(sheet, frame);
    box.classList.toggle("over", over);
    at.textContent = `step ${step}${said ? `: ${said}` : ""}`;
    caption.ariaLive = playing ? "off" : "polite";
    if (caption.textContent !== text) caption.textContent = text;
  };
  return { node, caption, show };
};

/** Fill an element with a clip, of which the first frame is shown at once. */
export const player = (box: HTMLElement, clip: Clip, { begin = false }: Options = {}) => {
  const n = lengthOf(clip);
  box.classList.add("player");
  if (!n) {
    const image = make("img", "animated");
    Object.assign(image, { src: clip.src, alt: clip.title });
    box.replaceChildren(image);
    return;
  }
  const alone = clip.sheets.length < 2,
    sides = clip.sheets.map((sheet, side) => sideOf(sheet, "AB"[side], alone)),
    every = clip.sheets[0].every;
  let time = 0,
    speed = 1,
    started = 0, // the moment at which frame `from` was shown
    from = 0,
    playing = false;

  const button = (words: string, label: string, act: () => void) => {
    const node = make("button", "", words);
    Object.assign(node, { type: "button", ariaLabel: label, title: label });
    node.addEventListener("click", act);
    return node;
  };
  const bar = make("input", "time"),
    rate = make("select", "speed"),
    clock = make("span", "clock"),
    play = button("Play", "Play", () => toggle()),
    back = button(`−${every}`, "Previous frame", () => go(time - 1)),
    next = button(`+${every}`, "Next frame", () => go(time + 1));
  Object.assign(bar, { type: "range", min: "0", max: String(n - 1), step: "1", value: "0" });
  bar.ariaLabel = "Time";
  rate.ariaLabel = "Speed";
  for (const value of SPEEDS) rate.append(new Option(`${value}×`, String(value)));
  rate.value = "1";

  const show = () => {
    for (const side of sides) side.show(time, playing);
    bar.value = String(time);
    bar.ariaValueText = `step ${time * every} of ${(n - 1) * every}`;
    clock.textContent = `${time * every} / ${(n - 1) * every}`;
    back.disabled = time === 0;
    next.disabled = time === n - 1;
  };
  const anchor = () => {
    started = performance.now();
    from = time;
  };
  const tick = (now: number) => {
    if (!playing) return;
    if (!box.isConnected) return set(false);
    const then = from + Math.floor((Math.max(0, now - started) / 1000) * clip.fps * speed);
    if (then > time) {
      time = Math.min(then, n - 1);
      show();
    }
    if (time === n - 1) set(false);
    else requestAnimationFrame(tick);
  };
  const set = (on: boolean) => {
    playing = on;
    play.textContent = play.ariaLabel = play.title = on ? "Pause" : "Play";
    if (on) {
      if (time === n - 1) time = 0;
      anchor();
      requestAnimationFrame(tick);
    }
    show();
  };
  const toggle = () => set(!playing);
  const go = (to: number) => {
    time = Math.max(0, Math.min(n - 1, to));
    set(false);
  };

  bar.addEventListener("input", () => go(Number(bar.value)));
  rate.addEventListener("change", () => {
    speed = Number(rate.value);
    anchor();
  });
  const scene = make("div", "sides", ...sides.map(({ node }) => node));
  const keys: Record<string, () => void> = {
    ArrowLeft: () => go(time - 1),
    ArrowRight: () => go(time + 1),
    Home: () => go(0),
    End: () => go(n - 1),
    " ": toggle,
  };
  box.onkeydown = (event) => {
    const tag = (event.target as HTMLElement).tagName;
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
    if (tag === "SELECT" || tag === "A" || (tag === "BUTTON" && event.key === " ")) return;
    event.preventDefault();
    event.stopPropagation();
    if (n > 1) keys[event.key]();
  };
  const controls = make("div", "controls", play, back, next, bar, clock, rate);
  const captions = make("div", "sides", ...sides.map(({ caption }) => caption));
  box.replaceChildren(scene, captions);
  if (n > 1) {
    scene.addEventListener("click", toggle);
    captions.before(controls); // captions have more and fewer lines
    box.tabIndex = 0;
    box.role = "group";
    box.ariaLabel = `Clip: ${clip.title}`;
  }
  if (every > 1) box.append(make("p", "hint", `Shows one in ${every} steps.`));
  if (clip.src) {
    const link = make("a", "", "Animated picture of this clip");
    Object.assign(link, { href: clip.src, download: "" });
    box.append(make("p", "hint", link));
  }
  show();
  if (begin && n > 1 && !matchMedia("(prefers-reduced-motion: reduce)").matches) set(true);
};
