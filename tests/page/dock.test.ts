import assert from "node:assert";
import { test } from "node:test";
import { episodesText } from "../../src/pivec/report/web/csv";
import { nearest } from "../../src/pivec/report/web/episodes";
import { squareOf, stretchesOf } from "../../src/pivec/report/web/heatmap/paint";
import { farthest } from "../../src/pivec/report/web/runs";
import { app } from "../../src/pivec/report/web/state";

test("the square of the heatmap is as large as there is room for", () => {
  const wide = squareOf(1000, 300),
    tall = squareOf(400, 1000);
  assert.ok(wide.top + wide.side <= 300 && wide.side > 250);
  assert.ok(tall.left + tall.side <= 400 && tall.side > 200);
});

test("rows of a run are a stretch, those out of sight are not", () => {
  app.data = { group: [0, 0, 1, 1, 1, 2] } as any;
  const rows = Int32Array.from([0, 1, 2, 3, 4, 5]);
  assert.deepEqual(stretchesOf(rows, 0, { x: 0, y: 0, size: 6 }, 1, 10, 60), [
    { g: 0, at: 10, long: 20 },
    { g: 1, at: 30, long: 30 },
    { g: 2, at: 60, long: 10 },
  ]);
  assert.deepEqual(stretchesOf(rows, 1, { x: 1, y: 1, size: 3 }, 1, 0, 60), [
    { g: 0, at: 0, long: 20 },
    { g: 1, at: 20, long: 40 },
  ]);
});

test("the runs that end farthest apart are found", () => {
  const between = (i: number, j: number) => Math.abs(i * i - j * j);
  assert.deepEqual(farthest({ rows: [3, 1, 7, 2], measuring: { between } as any }), [1, 7]);
  assert.equal(farthest({ rows: [3], measuring: { between } as any }), null);
});

test("the nearest episode is found within reach", () => {
  const places = Float32Array.from([0, 0, 10, 0, 10, 11]);
  assert.equal(nearest(places, 9, 1, 5), 1);
  assert.equal(nearest(places, 9, 9, 5), 2);
  assert.equal(nearest(places, 50, 50, 5), -1);
});

test("episodes have the columns of episodes.csv, quoted where needed", () => {
  app.data = { label: ['a, "b"', "c"] } as any;
  const of: any = {
    policy: [0, 1],
    number: [4, 5],
    seed: ["12", ""],
    kind: [2, 1],
    x: [0.5, -1],
    y: [1, 2],
    times: [Number.NaN, 3],
    returns: [-7, Number.NaN],
    length: [10, 20],
  };
  const [head, ...lines] = episodesText(of, [0, 1]).trim().split("\r\n");
  assert.equal(head, "policy,episode,seed,kind,x,y,times_as_far,return,length");
  assert.deepEqual(lines, ['"a, ""b""",4,12,2,0.5,1,,-7,10', "c,5,,1,-1,2,3,,20"]);
});
