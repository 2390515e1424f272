// The times between attempts to connect (pure), and waits that end early.

const FIRST_MS = 200;
const LAST_MS = 5000;

export class Backoff {
  #next = FIRST_MS;

  // Returns the time to wait before the next attempt.
  next() {
    const ms = this.#next;
    this.#next = Math.min(LAST_MS, ms * 2);
    return ms;
  }

  reset() {
    this.#next = FIRST_MS;
  }
}

// Waits, but not longer than until the browser says that the network is back, or until the signal aborts.
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end);
  });
}
