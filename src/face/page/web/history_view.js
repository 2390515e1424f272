// Shows the ended runs, filtered by name.

import * as api from "./api.js";
import { byId, setText } from "./dom.js";
import { RowItem } from "./row_item.js";
import { plural } from "./text.js";

// Returns the rows whose name, label or agent contains a text.
export function filtered(rows, text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return rows;
  return rows.filter((row) => [row.host, row.name, row.label, row.agent].some((part) => part?.toLowerCase().includes(wanted)));
}

export class HistoryView {
  #rows = null;
  #abort = null;

  constructor() {
    byId("history-filter").addEventListener("input", () => this.#draw());
  }

  async open() {
    if (!this.#rows) setText(byId("history-note"), "Loading …");
    await this.load();
    this.#draw();
  }

  async load() {
    this.close();
    const { signal } = (this.#abort = new AbortController());
    try {
      this.#rows = await api.history(signal);
    } catch (error) {
      if (!signal.aborted) setText(byId("history-note"), `The history could not be loaded: ${error.message}`);
    }
  }

  close() {
    this.#abort?.abort();
  }

  find(id) {
    return this.#rows?.find((row) => row.id === id) ?? null;
  }

  #draw() {
    if (!this.#rows) return;
    const rows = filtered(this.#rows, byId("history-filter").value);
    const items = rows.map((row) => {
      const item = new RowItem(row.id);
      item.update(row);
      return item.element;
    });
    byId("history-rows").replaceChildren(...items);
    const of = rows.length === this.#rows.length ? "" : ` of ${this.#rows.length}`;
    setText(byId("history-note"), this.#rows.length === 0 ? "No run has ended yet." : `${plural(rows.length, "run")}${of}, the latest first`);
  }
}
