import assert from "node:assert";
import { test } from "node:test";
import { LINE, placeLabels } from "../../src/pivec/report/web/map/labels";

const name = (x: number, y: number, must = false) => ({
  text: "name",
  x,
  y,
  gap: 8,
  width: 40,
  must,
});

test("names never overlap, stay inside, and avoid points", () => {
  const wanted = Array.from({ length: 30 }, (_, k) => name((k * 37) % 300, (k * 53) % 200));
  const points = wanted.flatMap(({ x, y }) => [x, y]);
  const placed = placeLabels(wanted, points, 3, 300, 200);
  assert.ok(placed.length > 3);
  for (const [k, { x, y }] of placed.entries()) {
    assert.ok(x >= 0 && x + 40 <= 300 && y - LINE / 2 >= 0 && y + LINE / 2 <= 200);
    for (const other of placed.slice(k + 1))
      assert.ok(Math.abs(other.x - x) >= 40 || Math.abs(other.y - y) >= LINE);
    for (let p = 0; p < points.length; p += 2) {
      const inside = points[p] > x && points[p] < x + 40 && Math.abs(points[p + 1] - y) < LINE / 2;
      assert.ok(!inside);
    }
  }
});

test("the first names win, and those that must be shown are, over points", () => {
  const crowd = Array.from({ length: 400 }, (_, k) => [(k % 20) * 10, Math.floor(k / 20) * 10]);
  const placed = placeLabels([name(100, 100), name(100, 100, true)], crowd.flat(), 4, 200, 200);
  assert.deepEqual(
    placed.map(({ of }) => of),
    [1],
  );
});
