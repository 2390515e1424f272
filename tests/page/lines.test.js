// The window of lines: dedupe, pages, bounds, gaps and revisions.

import assert from "node:assert/strict";
import test from "node:test";
import { Lines, idOf } from "../../src/face/page/web/lines.js";

const line = (seq, nth = 0) => ({ seq, nth, ts: "2026-11-29T12:00:00Z", n: seq, spans: [[`line ${seq}.${nth}`]] });
const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => line(from + i));
const page = (lines, { is_first = false, is_last = false } = {}) => ({ lines, is_first, is_last, first: lines[0]?.seq ?? null, last: lines.at(-1)?.seq ?? null });
const ids = (items) => items.map((item) => (item.missed ? `missed ${item.missed}` : idOf(item)));

test("each line is taken once, also when a resumed stream repeats it", () => {
  const lines = new Lines();
  lines.reset(page(range(1, 3), { is_first: true, is_last: true }));
  lines.receive({ lines: [line(3), line(4, 0), line(4, 1)] });
  lines.receive({ lines: [line(4, 1), line(5)] });
  assert.deepEqual(ids(lines.take().added), ["4.0", "4.1", "5.0"]);
  assert.equal(lines.items.length, 6);
});

test("the window is bounded, and the page before it begins with the event that was cut", () => {
  const lines = new Lines({ windowMax: 4 });
  lines.reset(page([line(1), line(2, 0), line(2, 1)], { is_first: true, is_last: true }));
  lines.receive({ lines: [line(3), line(4), line(5)] });
  const { removed, isReset } = lines.take();
  assert.deepEqual([removed, isReset, lines.isFirst], [2, false, false]);
  assert.deepEqual(ids(lines.items), ["2.1", "3.0", "4.0", "5.0"]);
  assert.equal(lines.before, 3);
  assert.deepEqual(ids(lines.prepend(page([line(1), line(2, 0), line(2, 1)], { is_first: true })).added), ["1.0", "2.0"]);
});

test("a flood keeps the last lines, and the window begins anew", () => {
  const lines = new Lines({ pendingMax: 10 });
  lines.reset(page(range(1, 5), { is_first: true, is_last: true }));
  lines.receive({ lines: range(6, 1000) });
  assert.ok(lines.pending.length <= 1000);
  const { isReset, added } = lines.take();
  assert.equal(isReset, true);
  assert.deepEqual([added.length, added[0].seq, added.at(-1).seq], [10, 991, 1000]);
  assert.deepEqual([lines.items.length, lines.before, lines.isFirst, lines.hasGap], [10, 991, false, false]);
});

test("pending lines are bounded while the reader has scrolled up for long", () => {
  const lines = new Lines({ pendingMax: 10 });
  lines.reset(page(range(1, 5), { is_last: true }));
  for (let seq = 6; seq < 500; seq++) lines.receive({ lines: [line(seq)] });
  assert.ok(lines.pending.length < 20);
  assert.equal(lines.unseen, 494);
  assert.equal(lines.hasGap, true);
});

test("older pages push the newest lines out, which come again as pages", () => {
  const lines = new Lines({ windowMax: 6 });
  lines.reset(page(range(10, 15), { is_last: true }));
  assert.deepEqual(lines.prepend(page(range(7, 9))), { added: range(7, 9), removed: 3 });
  assert.deepEqual([lines.hasGap, lines.after, lines.before], [true, 11, 7]);
  lines.receive({ lines: [line(16)] });
  // At most half a window at a time; the others come again.
  const { added, removed } = lines.append(page(range(12, 16), { is_last: true }));
  assert.deepEqual([ids(added), removed, lines.hasGap, lines.after], [["13.0", "14.0", "15.0"], 3, true, 14]);
  assert.deepEqual(ids(lines.append(page(range(15, 16), { is_last: true })).added), ["16.0"]);
  assert.deepEqual([lines.hasGap, lines.pending.length, idOf(lines.newest), lines.unseen], [false, 0, "16.0", 0]);
});

test("pages that have more lines than the window are turned line by line, up and down", () => {
  // Two events of 25 lines each, and one page has both.
  const all = [1, 2].flatMap((seq) => [...Array(25).keys()].map((nth) => line(seq, nth)));
  const lines = new Lines({ windowMax: 6 });
  const whole = page(all, { is_first: true, is_last: true });
  lines.reset(whole);
  const up = ids(lines.items).reverse();
  while (!lines.isFirst) up.push(...ids(lines.prepend(page(all.filter((item) => item.seq < lines.before), { is_first: true })).added).reverse());
  assert.deepEqual(up.reverse(), ids(all));
  const down = ids(lines.items);
  while (lines.hasGap) down.push(...ids(lines.append(page(all.filter((item) => item.seq > lines.after), { is_last: true })).added));
  assert.deepEqual(down, ids(all));
  lines.reset(whole, all.at(-1), "1.12");
  assert.deepEqual(ids(lines.items), ["1.9", "1.10", "1.11", "1.12", "1.13", "1.14"]);
  assert.deepEqual([lines.isFirst, lines.hasGap], [false, true]);
});

test("a page in the middle of the log leaves a gap to the live lines", () => {
  const lines = new Lines();
  lines.reset(page(range(50, 60)), line(100));
  assert.equal(lines.hasGap, true);
  assert.equal(lines.receive({ lines: [line(99), line(100), line(101)] }), 1);
});

test("a revision replaces the last line with its number, pending or shown", () => {
  const lines = new Lines();
  lines.reset(page([{ ...line(1), n: 7 }, { ...line(2), n: 7 }], { is_last: true }));
  lines.receive({ revised: [{ n: 7, spans: [["new"]] }] });
  assert.deepEqual(lines.takeRevised().map((item) => [idOf(item), item.spans[0][0]]), [["2.0", "new"]]);
  lines.receive({ lines: [{ ...line(3), n: 7 }], revised: [{ n: 7, spans: [["newer"]] }] });
  assert.deepEqual(lines.takeRevised(), []);
  assert.equal(lines.take().added[0].spans[0][0], "newer");
});

test("missed events are an item before the lines of their message, and an open line ends with the next message", () => {
  const lines = new Lines();
  lines.reset(page([line(1)], { is_last: true }));
  lines.receive({ missed: 12, lines: [line(9)], open: [["so far"]] });
  assert.deepEqual(lines.open, [["so far"]]);
  assert.deepEqual(ids(lines.take().added), ["missed 12", "9.0"]);
  lines.receive({ lines: [line(10)] });
  assert.equal(lines.open, null);
});
