// Searches the log of a row: the count of all matches, and steps between them.

import * as api from "./api.js";
import { byId, setText } from "./dom.js";

// Returns the pattern as the server understands it, for highlights; null for none.
// Lower case ignores case; `!` inverts, and then the matches are lines that lack the text.
export function highlightPattern(q) {
  if (q === "" || q.startsWith("!")) return null;
  const flags = q === q.toLowerCase() ? "giu" : "gu";
  try {
    return new RegExp(q, flags);
  } catch {
    return new RegExp(q.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), flags);
  }
}

// Returns the index of the first match to show: the last one at or before a line, else the last.
export function startIndex(matches, line) {
  if (!line) return matches.length - 1;
  const at = matches.findLastIndex((match) => match.seq < line.seq || (match.seq === line.seq && match.nth <= line.nth));
  return at < 0 ? 0 : at;
}

export function countInWords(index, { count, matches, is_complete }) {
  if (count === 0) return "no match";
  // The answer has the last matches; the count is of all.
  const number = count - matches.length + index + 1;
  return `${number} of ${count}${is_complete === false ? "+" : ""}`;
}

export class Search {
  #found = null;
  #index = -1;
  #query = "";
  #abort = null;

  constructor(linesView, placeOf) {
    this.linesView = linesView;
    this.placeOf = placeOf;
    this.form = byId("search-form");
    this.field = byId("search");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.field.value !== this.#query || !this.#found) this.#ask();
      else this.step(-1);
    });
    byId("search-next").addEventListener("click", () => this.step(1));
    byId("search-previous").addEventListener("click", () => this.step(-1));
    byId("search-close").addEventListener("click", () => this.close());
    byId("search-open").addEventListener("click", () => (this.form.hidden ? this.open() : this.close()));
  }

  open() {
    this.form.hidden = false;
    byId("search-open").setAttribute("aria-expanded", "true");
    this.field.focus();
    this.field.select();
  }

  get isOpen() {
    return !this.form.hidden;
  }

  close() {
    if (this.form.hidden) return;
    const hadFocus = this.form.contains(document.activeElement);
    this.#abort?.abort();
    this.#found = null;
    this.#query = "";
    this.form.hidden = true;
    byId("search-open").setAttribute("aria-expanded", "false");
    setText(byId("search-count"), "");
    CSS.highlights?.delete("found");
    if (hadFocus) byId("lines").focus();
  }

  async #ask() {
    const { row, view } = this.placeOf();
    const query = this.field.value;
    this.#abort?.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#query = query;
    this.#found = null;
    if (query === "") return setText(byId("search-count"), "");
    setText(byId("search-count"), "searching …");
    try {
      const found = await api.search(row, view, query, signal);
      if (signal.aborted) return;
      this.#found = found;
      const isFollowing = this.linesView.isFollowing;
      this.#index = startIndex(found.matches, isFollowing ? null : this.linesView.current());
      await this.#show();
    } catch (error) {
      if (!signal.aborted) setText(byId("search-count"), `failed: ${error.message}`);
    }
  }

  // Goes to the next (1) or the previous (-1) match; after the last one comes the first.
  async step(by) {
    if (!this.#found || this.#query !== this.field.value) return this.#ask();
    const { matches } = this.#found;
    if (matches.length === 0) return;
    this.#index = (this.#index + by + matches.length) % matches.length;
    await this.#show();
  }

  async #show() {
    setText(byId("search-count"), countInWords(this.#index, this.#found));
    const match = this.#found.matches[this.#index];
    if (match) await this.linesView.show(match.seq, match.nth);
    this.#highlight();
  }

  #highlight() {
    const pattern = highlightPattern(this.#query);
    // Highlights leave the elements alone: text keeps its links and colours.
    if (!pattern || !CSS.highlights) return;
    const ranges = [];
    for (const text of this.linesView.texts()) {
      const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        // A long line has many matches, and one is enough to find it.
        let rest = 50;
        for (const found of node.data.slice(0, 20_000).matchAll(pattern)) {
          if (found[0] === "" || rest-- === 0) break;
          const [start, end] = [found.index, found.index + found[0].length];
          ranges.push(new StaticRange({ startContainer: node, startOffset: start, endContainer: node, endOffset: end }));
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }
}
