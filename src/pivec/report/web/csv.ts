// Policies as a table for other programs (RFC 4180), the columns of map.csv.
import type { Episodes } from "./episodes";
import { app } from "./state";

const quoted = (text: string) =>
  /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;

/** `value`: of single precision, in the digits that it has. */
const single = (value: number) => (Number.isNaN(value) ? "" : String(Number(value.toPrecision(7))));

/** Returns a line each. */
export const tableText = (rows: Int32Array): string => {
  const { data } = app;
  const line = (i: number) =>
    [
      quoted(data.label[i]),
      quoted(data.groups[data.group[i]] || ""),
      Number.isNaN(data.step[i]) ? "" : data.step[i],
      single(data.x[i]),
      single(data.y[i]),
      single(data.returns[i]),
      data.episodes[i],
      data.states[i],
      quoted(data.source[i]),
      Boolean(data.reference[i]),
      Boolean(data.placed[i]),
      data.behaviour[i] || "",
      ...data.outcomes.flatMap((o) => [o.values, o.low, o.high].map((values) => single(values[i]))),
    ].join(",");
  return (
    [
      "label,group,step,x,y,mean_return,episodes,states,source,reference,placed,behaviour" +
        data.outcomes
          .flatMap(({ name }) => ["", "_low", "_high"].map((end) => "," + quoted(name + end)))
          .join(""),
      ...Array.from(rows, line),
    ].join("\r\n") + "\r\n"
  );
};

/** Episodes, with the columns of episodes.csv; returns a line each. */
export const episodesText = (of: Episodes, rows: number[]): string => {
  const line = (e: number) =>
    [
      quoted(app.data.label[of.policy[e]]),
      of.number[e],
      of.seed[e],
      of.kind[e],
      single(of.x[e]),
      single(of.y[e]),
      single(of.times[e]),
      single(of.returns[e]),
      of.length[e],
    ].join(",");
  const head = "policy,episode,seed,kind,x,y,times_as_far,return,length";
  return [head, ...rows.map(line)].join("\r\n") + "\r\n";
};
