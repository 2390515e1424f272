// Sends answers and prompts to rows, and keeps what came of them until it has been read.

import * as api from "./api.js";

// A refusal has to be read; the board may redraw the question meanwhile.
const SHOWN_MS = 10_000;

// The server takes no other answer to a question for this long.
const ANSWERED_MS = 2_000;

// Keys that move in a question without answering it.
const MOVES = ["Up", "Down", "Left", "Right", "Tab"];

export class Answers {
  #answered = new Map();
  #said = new Map();
  #timers = new Map();
  #changed;

  // `changed(id)` is called when what is said about a row changes.
  constructor(changed) {
    this.#changed = changed;
  }

  said(id) {
    return this.#said.get(id) ?? { text: "", kind: "" };
  }

  say(id, text, kind = "done") {
    this.#said.set(id, { text, kind });
    clearTimeout(this.#timers.get(id));
    this.#timers.set(id, setTimeout(() => this.#forget(id), SHOWN_MS));
    this.#changed(id);
  }

  #forget(id) {
    this.#said.delete(id);
    this.#timers.delete(id);
    this.#changed(id);
  }

  // Types into the pane of a row. Returns true if it was typed. A question is answered once: a second press while the
  // next question is on its way would answer that one.
  async send(row, body) {
    const isWhole = body.answers && !body.keys?.every((key) => MOVES.includes(key));
    if (isWhole && this.#answered.get(row.id) === body.answers) return false;
    if (isWhole) this.#answered.set(row.id, body.answers);
    this.say(row.id, "Sending …", "sending");
    try {
      await api.input(row, body);
      this.say(row.id, "Sent.");
      // The question may stay, if its program did not take the answer.
      if (isWhole) setTimeout(() => this.#again(row.id, body.answers), ANSWERED_MS);
      return true;
    } catch (error) {
      if (isWhole) this.#again(row.id, body.answers);
      this.say(row.id, refusal(error), "refused");
      return false;
    }
  }

  #again(id, question) {
    if (this.#answered.get(id) === question) this.#answered.delete(id);
  }
}

function refusal(error) {
  if (error.status === 409) return `This question has changed; nothing was typed. ${error.message}`;
  if (error.status === undefined) return "The server could not be reached. The answer may not have arrived.";
  return `Not typed: ${error.message}`;
}
