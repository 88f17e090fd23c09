import assert from "node:assert";
import { test } from "node:test";
import { evenPlaces, roundTicks, stepsOf } from "../../src/pivec/report/web/charts";

test("ticks are round, within the range, and about as many as wanted", () => {
  assert.deepEqual(roundTicks(0, 1, 4), [0, 0.5, 1]);
  assert.deepEqual(roundTicks(20.5, 500, 3), [200, 400]);
  assert.deepEqual(roundTicks(-0.03, 0.031, 4), [-0.02, 0, 0.02]);
  assert.deepEqual(roundTicks(7, 7), [7]);
  for (const [low, high] of [
    [0.1, 0.7],
    [-1e6, 3],
    [12, 13.5],
  ]) {
    const ticks = roundTicks(low, high, 4);
    assert.ok(ticks.length >= 2 && ticks.length <= 5, String(ticks));
    assert.ok(ticks.every((tick) => tick >= low && tick <= high));
  }
});

test("labelled places include both ends", () => {
  assert.deepEqual(evenPlaces(8, 5), [0, 2, 4, 5, 7]);
  assert.deepEqual(evenPlaces(3, 5), [0, 1, 2]);
  assert.deepEqual(evenPlaces(1, 5), [0]);
});

test("a histogram has one step per bin, as wide as the bin", () => {
  const path = stepsOf([0, 1, 4], [0.25, 0.5], 0.5);
  assert.equal(path, "M0.00 100.00L0.00 50.00L25.00 50.00L25.00 0.00L100.00 0.00L100.00 100.00");
});
