// Whether the user looks at the page: it is visible, and was used within the last minute.

const USED_MS = 60_000;
const EVERY_MS = 10_000;

let usedAt = performance.now();
for (const type of ["keydown", "pointerdown", "pointermove", "touchstart", "wheel"]) {
  addEventListener(type, () => (usedAt = performance.now()), { passive: true, capture: true });
}

export function isLookedAt() {
  return document.visibilityState === "visible" && performance.now() - usedAt < USED_MS;
}

// Limits reports to one in ten seconds for each state of a row. A new question is another state: its notification is
// withheld only if it is reported before it is due.
export class Views {
  #sent = new Map();

  // Returns true if a view of a row is to be reported now.
  isDue(row, now = performance.now()) {
    if (!row || !isLookedAt()) return false;
    const id = `${row.id} ${row.since} ${row.question_id}`;
    if (now - (this.#sent.get(id) ?? -Infinity) < EVERY_MS) return false;
    if (this.#sent.size > 1000) this.#sent.clear();
    this.#sent.set(id, now);
    return true;
  }
}
