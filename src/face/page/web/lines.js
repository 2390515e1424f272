// The lines of one view of a row: a bounded window of the log, and live lines not shown yet (pure).
//
// The window is always contiguous. Live lines wait in `pending` until the view takes them: once a frame while it
// follows, not at all while the reader has scrolled up. More pending lines than `pendingMax` are dropped here, never
// drawn; they are in the log, so the window then no longer reaches the live end (`hasGap`), and the view fetches pages.

export const idOf = (line) => `${line.seq}.${line.nth}`;
const isAfter = (a, b) => a.seq > b.seq || (a.seq === b.seq && a.nth > b.nth);

export class Lines {
  constructor({ windowMax = 2000, pendingMax = 1000 } = {}) {
    this.windowMax = windowMax;
    this.pendingMax = pendingMax;
    this.clear();
  }

  clear() {
    this.items = [];
    this.pending = [];
    this.revised = new Map();
    this.open = null;
    // The newest line that was seen, shown or not. Lines that are not after it were seen before.
    this.newest = null;
    this.isFirst = false;
    this.hasGap = false;
    // The positions from which the pages before and after the window are asked for.
    this.before = null;
    this.after = null;
    // The lines that have come since the view last showed the end.
    this.unseen = 0;
  }

  // Takes a message of the live stream. Returns the number of new lines.
  receive({ lines = [], revised = [], missed = 0, open = null }) {
    if (missed > 0) this.#push({ missed, key: `missed.${this.newest ? idOf(this.newest) : 0}` });
    let count = 0;
    for (const line of lines) {
      // After a resumed connection the first lines may come again.
      if (this.newest && !isAfter(line, this.newest)) continue;
      this.newest = line;
      this.#push(line);
      count++;
    }
    for (const { n, spans } of revised) this.#revise(n, spans);
    this.open = open;
    this.unseen += count;
    return count;
  }

  #push(item) {
    this.pending.push(item);
    // Removing from the front of an array moves the others: it happens once for each thousand lines.
    if (this.pending.length >= this.pendingMax * 2) this.#bound();
  }

  #bound() {
    const excess = this.pending.length - this.pendingMax;
    if (excess <= 0) return;
    this.pending.splice(0, excess);
    this.hasGap = true;
  }

  #revise(n, spans) {
    const inPending = lastOf(this.pending, n);
    if (inPending >= 0) {
      this.pending[inPending] = { ...this.pending[inPending], spans };
      return;
    }
    const inWindow = lastOf(this.items, n);
    if (inWindow < 0) return;
    this.items[inWindow] = { ...this.items[inWindow], spans };
    this.revised.set(idOf(this.items[inWindow]), this.items[inWindow]);
  }

  // Returns the lines whose text has changed since the last call.
  takeRevised() {
    const revised = [...this.revised.values()];
    this.revised.clear();
    return revised;
  }

  // Moves the pending lines to the window. Returns `{isReset, added, removed}`: whether everything that was shown
  // goes, the new items at the end, and how many go at the start.
  take(max = this.pendingMax) {
    this.#bound();
    if (this.pending.length > max) {
      this.pending.splice(0, this.pending.length - max);
      this.hasGap = true;
    }
    const added = this.pending;
    this.pending = [];
    this.unseen = 0;
    // Lines are missing between the window and these: the window begins anew.
    const isReset = this.hasGap && added.length > 0;
    if (isReset) {
      this.items = added.slice();
      this.#beginAtFirst();
      this.hasGap = false;
      return { isReset, added, removed: 0 };
    }
    for (const item of added) this.items.push(item);
    return { isReset, added, removed: this.#trimStart() };
  }

  #trimStart() {
    const excess = Math.max(0, this.items.length - this.windowMax);
    if (excess > 0) {
      this.items.splice(0, excess);
      this.#beginAtFirst();
    }
    return excess;
  }

  // The page before a window that begins within an event has the start of that event again.
  #beginAtFirst() {
    const { first } = this;
    this.isFirst = false;
    this.before = first && (first.nth > 0 ? first.seq + 1 : first.seq);
  }

  // Shows another part of the log. `newest` is the newest line of the log if the page does not reach its end. The
  // live stream begins anew after `this.newest`, so nothing is pending.
  // A page may have more lines than the window: those around the line `at` (`SEQ.NTH`) are kept, else the last ones.
  reset(page, newest = null, at = null) {
    this.clear();
    const { lines } = page;
    const target = at === null ? -1 : lines.findIndex((line) => idOf(line) === at || line.seq > Number.parseInt(at, 10));
    const start = Math.max(0, Math.min(lines.length - this.windowMax, target < 0 ? Infinity : target - this.windowMax / 2));
    this.items = lines.slice(start, start + this.windowMax);
    const isEnd = start + this.windowMax >= lines.length;
    this.isFirst = page.is_first && start === 0;
    this.newest = page.is_last && isEnd ? this.last : newest;
    this.hasGap = !(page.is_last && isEnd);
    this.before = page.first;
    this.after = page.last;
    if (start > 0) this.#beginAtFirst();
    if (!isEnd) this.#endAtLast();
  }

  // The last event may be cut in two: it comes again, and its lines that are here are left out.
  #endAtLast() {
    this.after = this.last && this.last.seq - 1;
    this.hasGap = true;
  }

  // Puts an older page before the window. Returns `{added, removed}`: new items, and how many go at the end.
  prepend(page) {
    const first = this.first;
    const older = first ? page.lines.filter((line) => isAfter(first, line)) : page.lines;
    // A page may have more lines than the window: the next ones are taken, and the others come with the next page.
    const added = older.slice(-this.windowMax / 2);
    this.items = added.concat(this.items);
    this.before = page.first ?? this.before;
    this.isFirst = page.is_first;
    if (added.length < older.length) this.#beginAtFirst();
    const removed = Math.max(0, this.items.length - this.windowMax);
    if (removed > 0) {
      this.items.splice(this.windowMax);
      this.#endAtLast();
    }
    return { added, removed };
  }

  // Puts a newer page after the window. Returns `{added, removed}`: new items, and how many go at the start. If the
  // page reaches the end of the log, the live stream begins anew after it, so nothing is pending.
  append(page) {
    const last = this.last;
    const newer = last ? page.lines.filter((line) => isAfter(line, last)) : page.lines;
    const added = newer.slice(0, this.windowMax / 2);
    for (const line of added) this.items.push(line);
    this.after = page.last ?? this.after;
    if (added.length < newer.length) this.#endAtLast();
    else if (page.is_last) {
      this.pending = [];
      this.newest = this.last ?? this.newest;
      this.hasGap = false;
      this.unseen = 0;
    }
    return { added, removed: this.#trimStart() };
  }

  get first() {
    return this.items.find((item) => item.seq !== undefined) ?? null;
  }

  get last() {
    return this.items.findLast((item) => item.seq !== undefined) ?? null;
  }
}

function lastOf(items, n) {
  for (let i = items.length - 1; i >= 0; i--) if (items[i].n === n && n !== null) return i;
  return -1;
}
