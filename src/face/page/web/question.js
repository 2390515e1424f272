// The question of a waiting row with its answers (choices, text, keys); the prompt of an idle row.

import { el } from "./dom.js";
import { oneLine, visibleLines, cut } from "./text.js";
import { nameOf } from "./words.js";

// What a dialogue may ask for besides its choices: `{text}` is typed as text, `{keys}` as keys of tmux.
const KEYS = [
  ["↑", { keys: ["Up"] }, "Up"], ["↓", { keys: ["Down"] }, "Down"], ["←", { keys: ["Left"] }, "Left"], ["→", { keys: ["Right"] }, "Right"],
  ["Enter", { keys: ["Enter"] }, "Enter"], ["Esc", { keys: ["Escape"] }, "Esc"], ["Tab", { keys: ["Tab"] }, "Tab"],
  ["y", { text: "y" }, "y"], ["n", { text: "n" }, "n"],
  ...[..."0123456789"].map((digit) => [digit, { text: digit }, digit]),
];

// Returns the panel of a question. Its buttons send the id of the question that it was made for: `send(body)` has it.
export function questionPanel(row, allowInput, send) {
  const dialogue = row.dialogue ?? { text: row.asks ?? row.last_line ?? "", choices: [] };
  const label = `What ${nameOf(row, 60)} asks`;
  const words = visibleLines(cut(dialogue.text || row.asks || "It waits for a key; its screen shows for what.", 20_000));
  const text = el("pre", { class: "ask", tabindex: "0", role: "group", "aria-label": label }, words);
  const panel = el("div", { class: "question", "data-question": row.question_id }, text);
  // A dialogue ends with what it asks; what comes before is the reason.
  requestAnimationFrame(() => (text.scrollTop = text.scrollHeight));
  if (!allowInput) {
    const command = el("code", {}, "td-observe serve --allow-input");
    panel.append(el("p", { class: "hint", "data-hint": "allow-input" }, "To answer here, start the page with ", command, "."));
    return panel;
  }
  const answer = (body) => send({ ...body, answers: row.question_id });
  const choices = el("div", { class: "choices", role: "group", "aria-label": "Choices" });
  for (const choice of dialogue.choices ?? []) {
    const button = answerButton({ "data-choice": choice.key, "data-selected": choice.selected }, () => answer({ text: choice.key }));
    button.append(el("span", { class: "key" }, oneLine(choice.key, 12)), el("span", {}, oneLine(choice.label, 600)));
    choices.append(button);
  }
  if (choices.childElementCount > 0) panel.append(choices);
  panel.append(answerLine(row, answer), pad(answer));
  return panel;
}

// A press on a button that the layout has just moved, or whose question has changed, is refused. Such buttons stay
// focusable, so they are not `disabled`.
function answerButton(attributes, press) {
  const button = el("button", { type: "button", "data-answer": true, ...attributes });
  button.addEventListener("click", () => isUsable(button) && press());
  return button;
}

const isUsable = (button) => button.getAttribute("aria-disabled") !== "true";

function answerLine(row, answer) {
  const field = el("input", {
    type: "text",
    "data-answer-text": true,
    "aria-label": `Answer ${nameOf(row, 60)} with text`,
    placeholder: "Answer with text",
    autocomplete: "off",
    autocapitalize: "off",
    enterkeyhint: "send",
  });
  const button = el("button", { type: "submit", "data-answer": true }, "Send");
  const submit = (event) => {
    event.preventDefault();
    if (field.value === "" || !isUsable(button)) return;
    answer({ text: field.value }).then((isTyped) => isTyped && (field.value = ""));
  };
  return el("form", { class: "answer", onsubmit: submit }, field, button);
}

function pad(answer) {
  const keys = el("div", { class: "keys", role: "group", "aria-label": "Keys" });
  for (const [label, body, name] of KEYS) {
    const button = answerButton({ "data-key": name, "aria-label": `Press ${name}` }, () => answer(body));
    button.append(label);
    keys.append(button);
  }
  return el("details", { class: "pad" }, el("summary", {}, "Keys"), keys);
}

// Returns the prompt of a row that does not wait. On a phone Enter begins a new line, because there is no Shift.
export function promptPanel(row, send) {
  const isCoarse = matchMedia("(pointer: coarse)").matches;
  const name = nameOf(row, 60);
  const field = el("textarea", {
    rows: "1",
    "data-prompt": true,
    "aria-label": `Prompt ${name}`,
    placeholder: `Type into ${name} …`,
    enterkeyhint: isCoarse ? "enter" : "send",
  });
  const submit = (event) => {
    event.preventDefault();
    if (field.value.trim() === "") return;
    send({ text: field.value }).then((isTyped) => isTyped && (field.value = "", fit()));
  };
  const fit = () => (field.rows = Math.min(8, field.value.split("\n").length));
  const keydown = (event) => {
    if (event.key === "Enter" && !event.isComposing && (event.ctrlKey || event.metaKey || (!event.shiftKey && !isCoarse))) submit(event);
  };
  field.addEventListener("input", fit);
  field.addEventListener("keydown", keydown);
  return el("form", { class: "answer", onsubmit: submit }, field, el("button", { type: "submit" }, "Send"));
}

// What makes another panel necessary. The selected choice moves with the arrow keys of the same question.
export function panelKey(row, allowInput) {
  const { text, choices = [] } = row.dialogue ?? {};
  return JSON.stringify([row.question_id, allowInput, text ?? row.asks, choices.map(({ key, label }) => [key, label])]);
}

// Carries over to a new panel what its reader has done in the old one: the text that was typed, and the open keys.
// Returns true if the focus was in the old panel and is not in the new one.
export function replaced(old, panel) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const [from, to] = [old, panel].map((each) => each?.querySelector("[data-answer-text]"));
  if (from && to) to.value = from.value;
  if (panel && old.querySelector("details")?.open) panel.querySelector("details")?.setAttribute("open", "");
  if (panel) old.replaceWith(panel);
  else old.remove();
  if (focused && focused === from && to) to.focus({ preventScroll: true });
  return focused !== null && document.activeElement !== to;
}

// Marks the selected choice of a panel, and its answers as usable or not.
export function refresh(panel, row, areUsable) {
  for (const { key, selected } of row.dialogue?.choices ?? []) {
    panel.querySelector(`[data-choice="${CSS.escape(key)}"]`)?.toggleAttribute("data-selected", selected);
  }
  for (const button of panel.querySelectorAll("[data-answer]")) {
    if (areUsable) button.removeAttribute("aria-disabled");
    else button.setAttribute("aria-disabled", "true");
  }
}
