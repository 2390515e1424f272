// Draws the board: groups with their rows, updated in place.

import { byId, el, keepingFocus, reorder, setText } from "./dom.js";
import { RowItem } from "./row_item.js";
import { GROUPS } from "./words.js";

export class BoardView {
  #items = new Map();
  #groups = new Map();

  // `board` is the model; `actions` are those of the rows.
  constructor(board, actions) {
    this.board = board;
    this.actions = actions;
    this.element = byId("board");
    for (const [key, name] of GROUPS) {
      const count = el("span", { class: "count" });
      const list = el("ul", { "aria-labelledby": `group-${key}` });
      const group = el("section", { class: "group", "data-group": key, hidden: true }, el("h3", { id: `group-${key}` }, `${name} `, count), list);
      this.#groups.set(key, { group, count, list });
      byId("groups").append(group);
    }
    // A finger that comes down holds the layout; so does typing.
    const touch = () => board.touch(performance.now());
    for (const type of ["pointerdown", "touchstart", "touchmove", "input"]) this.element.addEventListener(type, touch, { passive: true });
  }

  render(options) {
    keepingFocus(() => this.#draw(options));
  }

  #draw({ allowInput, selected, beside }) {
    const { board } = this;
    byId("board-wait").hidden = board.isLoaded;
    byId("board-empty").hidden = !board.isLoaded || board.rows.length > 0;
    const now = performance.now();
    const seen = new Set();
    for (const [key, { group, count, list }] of this.#groups) {
      const rows = board.rows.filter((row) => row.attention === key);
      const items = rows.map((row) => {
        seen.add(row.id);
        let item = this.#items.get(row.id);
        if (!item) this.#items.set(row.id, (item = new RowItem(row.id, this.actions)));
        const isQuestionCurrent = row.question_id == null || board.isCurrent(row.id, row.question_id);
        item.update(row, { allowInput, isQuestionCurrent, isUsable: board.isSettled(row.id, now), isBeside: row.id === beside });
        if (row.id === selected) item.link.setAttribute("aria-current", "true");
        else item.link.removeAttribute("aria-current");
        return item.element;
      });
      group.hidden = rows.length === 0;
      setText(count, String(rows.length));
      reorder(list, items);
    }
    for (const [id, item] of this.#items) {
      if (seen.has(id)) continue;
      item.element.remove();
      this.#items.delete(id);
    }
  }

  tick() {
    for (const item of this.#items.values()) item.tick();
  }

  item(id) {
    return this.#items.get(id) ?? null;
  }

  // The rows in their order on the page.
  get links() {
    return [...this.element.querySelectorAll(".row-link")];
  }

  get focusedId() {
    return document.activeElement?.closest?.("#board [data-row]")?.dataset.row ?? null;
  }

  focus(id) {
    const link = this.#items.get(id)?.link;
    link?.focus({ preventScroll: true });
    this.reveal(id);
  }

  reveal(id) {
    this.#items.get(id)?.element.scrollIntoView({ block: "nearest" });
  }

  // Returns the waiting rows whose question is on the screen: they count as seen.
  questionsInSight() {
    if (this.element.offsetParent === null) return [];
    const box = this.element.getBoundingClientRect();
    return [...this.#items.values()].filter(({ questionPanel }) => {
      const place = questionPanel?.getBoundingClientRect();
      return place && place.bottom > box.top + 40 && place.top < box.bottom - 40;
    }).map((item) => item.row);
  }
}
