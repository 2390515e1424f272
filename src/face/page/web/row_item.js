// One row of the board or of the history as a list item that is updated in place.

import { el, setText } from "./dom.js";
import { panelKey, questionPanel, refresh, replaced } from "./question.js";
import { rowFragment } from "./places.js";
import { oneLine, visible, cut } from "./text.js";
import { age, serverNow } from "./time.js";
import { isWaiting, lastText, hasPane, nameOf, stateInWords } from "./words.js";

export class RowItem {
  #name = el("span");
  #label = el("small");
  #age = el("span", { class: "age" });
  #state = el("span", { class: "state" });
  #last = el("span", { class: "last" });
  #agent = el("span", { class: "agent" });
  #progress = null;
  #dismiss = null;
  #drawn = null;
  #question = null;
  row = null;

  // `actions` has `send(row, body)`, `dismiss(row, isDismissed)` and `said(id)`; the history has none.
  constructor(id, actions = null) {
    const what = el("span", { class: "what" }, this.#agent, this.#state, this.#last);
    this.link = el("a", { class: "row-link", href: rowFragment(id) }, el("span", { class: "name" }, this.#name, this.#label), this.#age, what);
    this.element = el("li", { class: "row", "data-row": id }, this.link);
    this.actions = actions;
  }

  // `isBeside` tells that the row's own view is beside the board and has its question.
  update(row, { allowInput = false, isQuestionCurrent = true, isUsable = true, isBeside = false } = {}) {
    this.row = row;
    const said = this.actions?.said(row.id) ?? null;
    const drawn = JSON.stringify([row, allowInput, isQuestionCurrent, isUsable, isBeside, said]);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.element.dataset.attention = row.attention;
    this.element.dataset.state = row.state;
    this.#state.dataset.state = row.ended && row.state !== "failed" ? "ended" : row.state;
    setText(this.#name, nameOf(row, 300) || "unnamed");
    setText(this.#label, oneLine(row.label, 300));
    setText(this.#agent, row.agent ? `${oneLine(row.agent, 40)} · ` : "");
    setText(this.#state, stateInWords(row));
    const last = isWaiting(row) && this.actions && !isBeside && !row.dismissed ? "" : lastText(row);
    setText(this.#last, last && ` · ${last}`);
    this.#drawProgress(row);
    if (this.actions) {
      this.#drawDismiss(row);
      this.#drawQuestion(row, { allowInput, isUsable: isQuestionCurrent && isUsable, isCurrent: isQuestionCurrent, isBeside, said });
    }
    this.tick();
  }

  tick(now = serverNow()) {
    if (this.row) setText(this.#age, age(this.row.since, now));
  }

  get questionPanel() {
    return this.#question?.panel ?? null;
  }

  #drawProgress(row) {
    if (row.progress == null) {
      this.#progress?.remove();
      this.#progress = null;
      return;
    }
    if (!this.#progress) this.link.append((this.#progress = el("progress", { max: "100", "aria-label": "Progress" })));
    this.#progress.value = Math.min(100, row.progress);
  }

  #drawDismiss(row) {
    const canDismiss = row.attention === "needs_you" || row.attention === "finished" || row.dismissed;
    if (!canDismiss) {
      this.#dismiss?.remove();
      this.#dismiss = null;
      return;
    }
    if (!this.#dismiss) {
      this.#dismiss = el("button", { type: "button", class: "dismiss", onclick: () => this.actions.dismiss(this.row, !this.row.dismissed) });
      this.link.after(this.#dismiss);
    }
    const name = nameOf(row, 60);
    setText(this.#dismiss, row.dismissed ? "↺" : "×");
    this.#dismiss.dataset.dismiss = row.dismissed ? "back" : "away";
    this.#dismiss.setAttribute("aria-label", row.dismissed ? `Bring ${name} back` : `Dismiss ${name} until its next change`);
    this.#dismiss.title = row.dismissed ? "Bring back (X)" : "Dismiss until its next change (x)";
  }

  #drawQuestion(row, { allowInput, isUsable, isCurrent, isBeside, said }) {
    // A dismissed row keeps its place on the board, and its question does not take room.
    const isShown = isWaiting(row) && !row.dismissed && !isBeside;
    const key = isShown ? panelKey(row, allowInput) : null;
    if ((this.#question?.key ?? null) !== key) {
      const panel = isShown ? questionPanel(row, allowInput && hasPane(row), (body) => this.actions.send(row, body)) : null;
      if (this.#question) {
        const isLost = replaced(this.#question.panel, panel);
        if (isLost && !isBeside) this.link.focus({ preventScroll: true });
      } else if (panel) this.element.append(panel);
      this.#question = panel && { key, panel };
    }
    if (this.#question) refresh(this.#question.panel, row, isUsable);
    const text = isBeside ? { text: "", kind: "" } : isShown && !isCurrent ? { text: "This question has changed.", kind: "refused" } : said;
    let line = this.element.querySelector(":scope > .said");
    if (!line && text.text) {
      line = el("p", { class: "said question", role: "status" });
      this.element.append(line);
    }
    if (line) {
      setText(line, visible(cut(text.text, 600)));
      line.dataset.kind = text.kind;
      if (this.element.lastElementChild !== line) this.element.append(line);
    }
  }
}
