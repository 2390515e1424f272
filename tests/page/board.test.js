// The model of the board: news, the hold under a finger, and moving between rows that need the user.

import assert from "node:assert/strict";
import test from "node:test";
import { Board } from "../../src/face/page/web/board.js";

const row = (id, attention, more = {}) => ({ id, attention, state: attention === "needs_you" ? "waiting" : "working", question_id: attention === "needs_you" ? `q-${id}` : null, dismissed: false, last_line: "", ...more });

test("rows that begin to need the user are news, but not those of the first board", () => {
  const board = new Board();
  assert.deepEqual(board.receive([row("a", "needs_you"), row("b", "working")], 0), []);
  assert.deepEqual(board.receive([row("a", "needs_you"), row("b", "needs_you")], 1).map(({ id }) => id), ["b"]);
  assert.deepEqual(board.receive([row("a", "needs_you", { question_id: "other" }), row("b", "needs_you")], 2).map(({ id }) => id), ["a"]);
});

test("rows keep their place for a second after a touch, and texts change meanwhile", () => {
  const board = new Board();
  board.receive([row("a", "working"), row("b", "working")], 0);
  board.touch(1000);
  board.receive([row("b", "needs_you"), row("a", "working", { last_line: "new" })], 1500);
  assert.deepEqual(board.rows.map(({ id, last_line }) => [id, last_line]), [["a", "new"], ["b", ""]]);
  assert.equal(board.dueAt, 2000);
  board.settle(2000);
  assert.deepEqual(board.rows.map(({ id }) => id), ["b", "a"]);
  assert.deepEqual([board.isSettled("b", 2100), board.isSettled("b", 2500), board.settlesAt(2100)], [false, true, 2500]);
});

test("a question that has changed under a finger is not current", () => {
  const board = new Board();
  board.receive([row("a", "needs_you")], 0);
  board.touch(100);
  board.receive([row("a", "needs_you", { question_id: "new" })], 200);
  assert.equal(board.rows[0].question_id, "q-a");
  assert.equal(board.isCurrent("a", "q-a"), false);
  board.settle(1200);
  assert.equal(board.isCurrent("a", board.rows[0].question_id), true);
});

test("a text that changes alone moves nothing", () => {
  const board = new Board();
  board.receive([row("a", "working")], 0);
  board.receive([row("a", "working", { last_line: "x" })], 5);
  assert.equal(board.settlesAt(6), null);
});

test("questions settle only when something before them has changed", () => {
  const board = new Board();
  board.receive([row("a", "needs_you"), row("b", "needs_you"), row("c", "working"), row("d", "working")], 0);
  board.receive([row("a", "needs_you"), row("b", "needs_you"), row("d", "working"), row("c", "working")], 10);
  assert.deepEqual([board.isSettled("a", 11), board.isSettled("b", 11)], [true, true]);
  board.receive([row("a", "needs_you"), row("d", "needs_you"), row("b", "needs_you"), row("c", "working")], 20);
  assert.deepEqual(["a", "b", "d"].map((id) => board.isSettled(id, 21)), [true, false, false]);
  // In its own view a question moves only when it is asked.
  assert.deepEqual(["b", "d"].map((id) => board.isSettled(id, 21, board.asked)), [true, false]);
});

test("the next row that needs the user is found from any row, around the end", () => {
  const board = new Board();
  board.receive([row("a", "needs_you"), row("b", "needs_you", { dismissed: true }), row("c", "needs_you"), row("d", "quiet")], 0);
  assert.equal(board.nextNeeding("a", true).id, "c");
  assert.equal(board.nextNeeding("c", true).id, "a");
  assert.equal(board.nextNeeding("d", false).id, "c");
  assert.equal(board.nextNeeding(null, true).id, "a");
  assert.equal(board.nextNeeding(null, false).id, "c");
  assert.equal(new Board().nextNeeding("a", true), null);
});
