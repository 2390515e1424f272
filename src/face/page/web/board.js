// The model of the board: rows, what is new about them, and the hold of the layout under a finger (pure).

import { isWaiting } from "./words.js";

// A row that moves while a finger is on its way gets a press that was meant for another.
const HOLD_MS = 1000;
// A press this soon after the layout has moved was aimed at what was there before.
const SETTLE_MS = 500;

export class Board {
  constructor() {
    this.rows = [];
    // The rows as they came last: those that are shown, or those that wait for the end of the hold.
    this.latest = [];
    this.heldUntil = 0;
    // When the question of a row last moved on the board, and when it was last asked: `id → time`.
    this.moved = new Map();
    this.asked = new Map();
    this.isLoaded = false;
  }

  touch(now) {
    this.heldUntil = now + HOLD_MS;
  }

  // Takes the rows that came. Returns the rows that have begun to need the user.
  receive(rows, now) {
    const before = new Map(this.latest.map((row) => [row.id, row]));
    const news = rows.filter((row) => row.attention === "needs_you" && isNews(row, before.get(row.id)));
    const wasLoaded = this.isLoaded;
    this.latest = rows;
    this.isLoaded = true;
    this.settle(now);
    return wasLoaded ? news : [];
  }

  // Shows the latest rows unless they are held. Returns true if something was to be shown.
  settle(now) {
    if (this.rows === this.latest) return false;
    const isMoved = layoutOf(this.rows) !== layoutOf(this.latest);
    if (isMoved && now < this.heldUntil) {
      // Texts change in place; rows keep their place, and old questions stay visible but are refused.
      const latest = new Map(this.latest.map((row) => [row.id, row]));
      this.rows = this.rows.map((row) => withTexts(row, latest.get(row.id)));
      return true;
    }
    if (isMoved && this.rows.length > 0) this.#noteMoves(now);
    this.rows = this.latest;
    return true;
  }

  // Rows that need the user come first, so only they move each other's questions: those after the first difference.
  #noteMoves(now) {
    const [before, after] = [this.rows, this.latest].map((rows) => rows.filter((row) => row.attention === "needs_you"));
    const first = after.findIndex((row, index) => !before[index] || placeOf(row) !== placeOf(before[index]));
    const questions = new Map(this.rows.map((row) => [row.id, row.question_id]));
    const ids = new Set(this.latest.map((row) => row.id));
    for (const times of [this.moved, this.asked]) for (const id of times.keys()) if (!ids.has(id)) times.delete(id);
    if (first < 0) return;
    for (const row of after.slice(first)) {
      this.moved.set(row.id, now);
      if (questions.get(row.id) !== row.question_id) this.asked.set(row.id, now);
    }
  }

  // Notes that the height of a row has changed otherwise: the questions after it move.
  shift(id, now) {
    const after = this.rows.slice(this.rows.findIndex((row) => row.id === id) + 1);
    for (const row of after) if (isWaiting(row)) this.moved.set(row.id, now);
  }

  // Whether the rows that came last wait for the end of the hold.
  get isHeld() {
    return this.rows !== this.latest;
  }

  // The time at which a held board may be shown, or null.
  get dueAt() {
    return this.isHeld ? this.heldUntil : null;
  }

  // Whether a press now was meant for the button that is there now: on the board, where rows move each other, or in
  // the row's own view.
  isSettled(id, now, times = this.moved) {
    return now - (times.get(id) ?? -Infinity) >= SETTLE_MS;
  }

  // The time at which the buttons that have moved are usable again, or null.
  settlesAt(now) {
    const ends = [...this.moved.values()].map((at) => at + SETTLE_MS).filter((at) => at > now);
    return ends.length > 0 ? Math.min(...ends) : null;
  }

  find(id) {
    return this.rows.find((row) => row.id === id) ?? null;
  }

  // Whether a question is still the one that its row asks.
  isCurrent(id, question) {
    return this.latest.some((row) => row.id === id && isWaiting(row) && row.question_id === question);
  }

  // Returns the next row that needs the user after a row, or before it.
  nextNeeding(id, isForward) {
    const all = this.rows;
    const at = all.findIndex((row) => row.id === id);
    const step = isForward ? 1 : -1;
    const start = at < 0 && !isForward ? 0 : at;
    for (let i = 1; i <= all.length; i++) {
      const row = all[(start + step * i + all.length * 2) % all.length];
      if (row.attention === "needs_you" && !row.dismissed) return row;
    }
    return null;
  }
}

function isNews(row, before) {
  if (row.dismissed) return false;
  return !before || before.attention !== "needs_you" || (isWaiting(row) && row.question_id !== before.question_id);
}

// What decides about the places of things on the board.
const placeOf = (row) => `${row.id}\n${row.attention}\n${row.dismissed}\n${isWaiting(row) ? row.question_id : ""}`;
const layoutOf = (rows) => rows.map(placeOf).join("\n\n");

function withTexts(row, latest) {
  if (!latest) return row;
  const { last_line, progress, background, last_output, turns } = latest;
  return { ...row, last_line, progress, background, last_output, turns };
}
