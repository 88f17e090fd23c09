import assert from "node:assert";
import { test } from "node:test";
import { roundTicks, spread, stepAxis } from "../../src/pivec/report/web/axes";

const increasing = (values: number[]) => values.every((value, k) => !k || value > values[k - 1]);

test("round ticks enclose what they are for", () => {
  assert.deepEqual(roundTicks(0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(roundTicks(0, 2.2, 5), [0, 0.5, 1, 1.5, 2, 2.5]);
  assert.deepEqual(roundTicks(0, 0.03, 3), [0, 0.01, 0.02, 0.03]);
});

test("evenly spaced steps are on a linear axis", () => {
  const steps = Array.from({ length: 11 }, (_, k) => 1000 * k),
    axis = stepAxis(steps);
  assert.equal(axis.log, false);
  assert.ok(steps.every((step, k) => Math.abs(axis.at(step) - k / 10) < 1e-12));
  assert.ok(axis.ticks.every((tick) => tick >= 0 && tick <= 10000));
});

test("steps that double are on a logarithmic axis, where 0 has a place", () => {
  const steps = [0, ...Array.from({ length: 8 }, (_, k) => 1000 * 2 ** k)],
    axis = stepAxis(steps),
    places = steps.map(axis.at);
  assert.equal(axis.log, true);
  assert.equal(places[0], 0);
  assert.equal(places[8], 1);
  assert.ok(increasing(places));
  const gaps = places.slice(2).map((at, k) => at - places[k + 1]);
  assert.ok(gaps.every((gap) => Math.abs(gap - gaps[0]) < 1e-9));
  assert.equal(axis.ticks[0], 0);
  assert.ok(increasing(axis.ticks) && axis.ticks.includes(10000));
});

test("more than three decades are logarithmic, and a single step is in the middle", () => {
  assert.equal(stepAxis([1, 400, 600, 1001]).log, true);
  assert.equal(stepAxis([700, 800, 1000]).log, false);
  assert.equal(stepAxis([5, 5]).at(5), 0.5);
  assert.equal(stepAxis([]).ticks.length > 0, true);
});

test("labels keep apart, stay in order and move as little as possible", () => {
  const wanted = [50, 10, 51, 52, 90],
    places = spread(wanted, 10, 0, 100);
  const order = [...wanted.keys()].sort((i, j) => wanted[i] - wanted[j]);
  for (let k = 1; k < order.length; k++)
    assert.ok(places[order[k]] - places[order[k - 1]] >= 10 - 1e-9);
  assert.equal(places[1], 10);
  assert.equal(places[4], 90);
  assert.deepEqual([places[0], places[2], places[3]], [41, 51, 61]);
});

test("labels stay between both ends", () => {
  assert.deepEqual(spread([0, 0, 0], 10, 5, 100), [5, 15, 25]);
  assert.deepEqual(spread([99, 99], 10, 5, 100), [90, 100]);
});
