// Sends answers and prompts to rows, and keeps what came of them until it has been read.

import * as api from "./api.js";

// A refusal has to be read; the board may redraw the question meanwhile.
const SHOWN_MS = 10_000;

export class Answers {
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

  // Types into the pane of a row. Returns true if it was typed.
  async send(row, body) {
    this.say(row.id, "Sending …", "sending");
    try {
      await api.input(row, body);
      this.say(row.id, "Sent.");
      return true;
    } catch (error) {
      this.say(row.id, refusal(error), "refused");
      return false;
    }
  }
}

function refusal(error) {
  if (error.status === 409) return `This question has changed; nothing was typed. ${error.message}`;
  if (error.status === undefined) return "The server could not be reached. The answer may not have arrived.";
  return `Not typed: ${error.message}`;
}
