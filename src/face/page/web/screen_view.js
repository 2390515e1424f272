// Shows the screen of a pane as it is now.

import * as api from "./api.js";
import { byId, setText } from "./dom.js";
import { dress } from "./line_element.js";
import { spansOfScreen } from "./screen_cells.js";
import { oneLine, visible } from "./text.js";

const INTERVAL_MS = 500;
// What each character is wide, as a part of the size of the font.
const ASPECT = 0.603;

export class ScreenView {
  #abort = null;
  #drawn = [];
  #isFitting = true;
  #size = null;

  // `isViewed()` tells whether a request counts as a view by the user.
  constructor({ isViewed }) {
    this.isViewed = isViewed;
    this.element = byId("screen");
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  async open(row) {
    this.close();
    const abort = (this.#abort = new AbortController());
    if (!row?.pane || !row.server || row.ended) {
      setText(byId("screen-note"), row ? "This row has no screen: it has ended or is no pane." : "This row is not on the board any more.");
      return;
    }
    setText(byId("screen-note"), "Loading the screen …");
    while (!abort.signal.aborted) {
      if (!document.hidden) await this.#refresh(row, abort.signal);
      await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS));
    }
  }

  close() {
    this.#abort?.abort();
    this.#abort = null;
    this.#drawn = [];
    this.element.replaceChildren();
  }

  async #refresh(row, signal) {
    try {
      const screen = await api.screen(row, this.isViewed(), signal);
      if (!signal.aborted) this.#draw(screen);
    } catch (error) {
      if (!signal.aborted) setText(byId("screen-note"), `No screen: ${error.message}`);
    }
  }

  #draw(screen) {
    const rows = spansOfScreen(screen);
    rows.forEach((spans, index) => {
      const drawn = JSON.stringify(spans);
      if (this.#drawn[index] === drawn) return;
      this.#drawn[index] = drawn;
      const line = this.element.children[index] ?? this.element.appendChild(document.createElement("div"));
      line.dataset.screenRow = index;
      line.replaceChildren(...spans.map(cell));
    });
    while (this.element.children.length > rows.length) this.element.lastElementChild.remove();
    this.#drawn.length = rows.length;
    if (this.#size !== screen.width) {
      this.#size = screen.width;
      this.#fit();
    }
    // A screen reader gets the text when it asks for it, not twice a second.
    const text = screen.rows.map((row) => row.text.trim()).filter(Boolean).join("; ");
    this.element.setAttribute("aria-label", oneLine(`The pane as it is now: ${text}`, 4000));
    const title = screen.title ? ` · ${oneLine(screen.title, 200)}` : "";
    setText(byId("screen-note"), `${screen.pane} · ${screen.width}×${screen.height}${screen.alternate ? " · alternate screen" : ""}${title}`);
  }

  // Shows the whole width, or text of ordinary size that scrolls.
  toggleFit() {
    this.#isFitting = !this.#isFitting;
    this.#fit();
    return this.#isFitting;
  }

  get isFitting() {
    return this.#isFitting;
  }

  #fit() {
    const room = this.element.clientWidth - 24;
    if (room <= 0 || !this.#size) return;
    const fitting = Math.floor((room / (this.#size * ASPECT)) * 10) / 10;
    this.element.style.fontSize = this.#isFitting ? `${Math.min(14, Math.max(5, fitting))}px` : "13px";
  }
}

function cell([text, sgr, isCursor]) {
  if (!sgr && !isCursor) return document.createTextNode(visible(text));
  const span = document.createElement("span");
  if (sgr) dress(span, sgr);
  if (isCursor) span.classList.add("cursor");
  span.textContent = visible(text);
  return span;
}
