// Reads the board by one long poll at a time; a hidden page asks now and then, to keep its title true.

import * as api from "./api.js";
import { Backoff, pause } from "./backoff.js";
import * as connection from "./connection.js";

const WAIT_SECONDS = 30;
// A server or a proxy that vanished says nothing.
const SILENCE_MS = (WAIT_SECONDS + 15) * 1000;
const HIDDEN_MS = 15_000;

export class BoardFeed {
  #etag = null;
  #turn = null;
  #stop = null;

  constructor(onRows) {
    this.onRows = onRows;
    document.addEventListener("visibilitychange", () => this.kick());
  }

  start() {
    this.stop();
    const stop = (this.#stop = new AbortController());
    this.#run(stop.signal);
  }

  stop() {
    this.#stop?.abort();
    this.#stop = null;
    this.#etag = null;
    connection.forget("board");
  }

  // Begins a new turn at once: the page has become visible or hidden, or an answer was sent.
  kick() {
    this.#turn?.abort();
  }

  async #run(signal) {
    const backoff = new Backoff();
    let isBroken = false;
    while (!signal.aborted) {
      const turn = (this.#turn = new AbortController());
      const both = AbortSignal.any([signal, turn.signal]);
      try {
        const isHidden = document.hidden;
        // After a break the first answer comes at once: it tells that the connection is whole again.
        const wait = isHidden || isBroken ? 0 : WAIT_SECONDS;
        const answer = await api.board(this.#etag, wait, AbortSignal.any([both, AbortSignal.timeout(SILENCE_MS)]));
        if (signal.aborted) return;
        backoff.reset();
        isBroken = false;
        connection.isWhole("board");
        if (answer) {
          this.#etag = answer.etag;
          this.onRows(answer.rows);
        }
        if (isHidden) await pause(HIDDEN_MS, both);
        // A server that does not wait must not be asked without a pause.
        else if (!this.#etag) await pause(1000, both);
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
        if (turn.signal.aborted) continue;
        isBroken = true;
        connection.isBroken("board", error.status ? error.message : "");
        await pause(backoff.next(), both);
      }
    }
  }
}
