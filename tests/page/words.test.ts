import assert from "node:assert";
import { test } from "node:test";
import {
  commandText,
  intervalWords,
  percentRange,
  spokenPair,
  tight,
  verdictWords,
} from "../../src/pivec/report/web/panel/words";

const pair = { distance: 0.2, low: -0.01, high: 0.31, p: 0.0123, alike: true, overlap: 0.9 };

test("what is not known is not said as a number", () => {
  const unknown = { ...pair, low: NaN, high: NaN, p: NaN, alike: null };
  assert.equal(verdictWords(unknown), "");
  for (const words of [intervalWords(unknown), intervalWords({ ...unknown, distance: NaN })])
    assert.doesNotMatch(words, /NaN|\d/);
});

test("a distance has its interval from 0, and a verdict with p", () => {
  assert.match(intervalWords(pair), /0 to 0\.31$/);
  assert.match(verdictWords(pair), /^Cannot be distinguished.*p = 0\.0123/);
  assert.match(verdictWords({ ...pair, alike: false, p: 1e-9 }), /^Different.*p < 0\.001/);
  const spoken = spokenPair(["x", "y"], pair);
  for (const part of ["x and y", "0.2", intervalWords(pair), verdictWords(pair)])
    assert.ok(spoken.includes(part), spoken);
});

test("shares have one unit, and numbers stay with theirs", () => {
  assert.equal(percentRange(0.002, 0.018), "0.2 to 1.8 %");
  assert.equal(
    tight("0.3 to 1.9 m (2 % → 91 % of it)"),
    "0.3 to 1.9\u00a0m (2\u00a0% → 91\u00a0% of it)",
  );
});

test("a shell takes the words of a command as they are", () => {
  assert.equal(commandText(["pivec", "a b", "it's", "x/1"]), "pivec 'a b' 'it'\\''s' x/1");
});
