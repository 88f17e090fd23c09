import assert from "node:assert";
import { test } from "node:test";
import { number, percent } from "../../src/pivec/report/web/format";

test("numbers have few digits, a proper minus sign, and groups of three", () => {
  assert.equal(number(-0.123456), "−0.123");
  assert.equal(number(1234567), "1\u202f234\u202f567");
  assert.equal(number(Number.NaN), "–");
});

test("shares are percentages", () => {
  assert.equal(percent(0.0123), "1.2 %");
  assert.equal(percent(0.5), "50 %");
});
