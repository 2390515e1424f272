// The view of one row: its head, its question or prompt, and one of its views.

import { byId, el, setText } from "./dom.js";
import { rowFragment, VIEWS } from "./places.js";
import { panelKey, promptPanel, questionPanel, refresh, replaced } from "./question.js";
import { cut, oneLine, visible } from "./text.js";
import { age, serverNow } from "./time.js";
import { hasPane, isWaiting, lastText, nameOf, stateInWords } from "./words.js";

export class RowView {
  #question = null;
  #prompt = null;
  #id = null;
  #row = null;

  constructor(board, actions) {
    this.board = board;
    this.actions = actions;
    this.said = el("p", { class: "said", role: "status", id: "row-said" });
    byId("row-dismiss").addEventListener("click", () => this.#row && actions.dismiss(this.#row, !this.#row.dismissed));
  }

  open(id, view) {
    if (this.#id !== id) {
      this.#id = id;
      this.#removeQuestion();
      this.#removePrompt();
    }
    byId("row-tabs").replaceChildren(...VIEWS.map((name) => {
      const attributes = { href: rowFragment(id, name), "data-view": name, "aria-current": name === view ? "page" : null };
      return el("a", attributes, name[0].toUpperCase() + name.slice(1));
    }));
    const isScreen = view === "screen";
    byId("lines-box").hidden = isScreen;
    byId("screen-box").hidden = !isScreen;
    byId("search-open").hidden = isScreen;
  }

  // Draws what the board says of the row; `row` is null if it is not on the board.
  render(row, { allowInput }) {
    this.#row = row;
    const name = row ? nameOf(row, 300) : oneLine(this.#id ?? "", 300);
    setText(byId("row-name"), name || "unnamed");
    setText(byId("row-label"), oneLine(row?.label, 300));
    this.tick();
    const dismiss = byId("row-dismiss");
    dismiss.hidden = !row || !(row.dismissed || ["needs_you", "finished"].includes(row.attention));
    setText(dismiss, row?.dismissed ? "Bring back" : "Dismiss");
    this.#drawQuestion(row, allowInput);
    this.#drawPrompt(row, allowInput);
    const said = row ? this.actions.said(row.id) : { text: "", kind: "" };
    const isStale = row && isWaiting(row) && !this.board.isCurrent(row.id, row.question_id);
    setText(this.said, isStale ? "This question has changed." : visible(cut(said.text, 600)));
    this.said.dataset.kind = isStale ? "refused" : said.kind;
  }

  tick() {
    const row = this.#row;
    if (!row) return setText(byId("row-facts"), this.board.isLoaded ? "not on the board any more" : "");
    const last = isWaiting(row) ? "" : lastText(row);
    const facts = [row.agent && oneLine(row.agent, 40), `${stateInWords(row)} for ${age(row.since, serverNow())}`];
    if (row.turns > 0) facts.push(`${row.turns} turns`);
    if (row.errors > 0) facts.push(`${row.errors} errors`);
    if (row.children?.length > 0) facts.push(`${row.children.length} children`);
    setText(byId("row-facts"), [...facts, last].filter(Boolean).join(" · "));
  }

  #drawQuestion(row, allowInput) {
    const key = row && isWaiting(row) ? panelKey(row, allowInput) : null;
    if ((this.#question?.key ?? null) !== key) {
      const panel = key ? questionPanel(row, allowInput && hasPane(row), (body) => this.actions.send(row, body)) : null;
      if (this.#question) {
        const isLost = replaced(this.#question.panel, panel);
        if (isLost) byId("lines").focus({ preventScroll: true });
      } else if (panel) byId("row-question").prepend(panel);
      this.#question = panel && { key, panel };
    }
    // The words about an answer stay when its question goes.
    if (key) byId("row-question").append(this.said);
    else byId("row-prompt").append(this.said);
    const isUsable = row && this.board.isCurrent(row.id, row.question_id) && this.board.isSettled(row.id, performance.now(), this.board.asked);
    if (this.#question) refresh(this.#question.panel, row, isUsable);
  }

  #removeQuestion() {
    this.#question?.panel.remove();
    this.#question = null;
    this.said.remove();
  }

  #drawPrompt(row, allowInput) {
    const isShown = row && allowInput && hasPane(row) && !isWaiting(row);
    if (Boolean(this.#prompt) === Boolean(isShown)) return;
    this.#removePrompt();
    if (!isShown) return;
    this.#prompt = promptPanel(row, (body) => this.actions.send(this.#row, body));
    byId("row-prompt").prepend(this.#prompt);
  }

  #removePrompt() {
    this.#prompt?.remove();
    this.#prompt = null;
  }

  // Puts the focus where the row is answered or prompted. Returns false if it cannot be.
  focusAnswer() {
    const first = this.#question?.panel.querySelector("[data-choice], [data-answer-text]") ?? this.#prompt?.querySelector("textarea");
    first?.focus();
    return Boolean(first);
  }
}
