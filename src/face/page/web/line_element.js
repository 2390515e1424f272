// A line of output as an element: spans with their SGR appearance, links that were checked again.

import { el } from "./dom.js";
import { rowFragment } from "./places.js";
import { appearance } from "./sgr.js";
import { plural, safeLink, visible } from "./text.js";
import { clockTime } from "./time.js";
import { idOf } from "./lines.js";

export function lineElement(line, rowId, view) {
  if (line.missed !== undefined) {
    const words = `${plural(line.missed, "event")} came too fast to be shown here; the log has them`;
    return el("div", { class: "line missed", "data-missed": line.missed }, words);
  }
  const element = document.createElement("div");
  element.className = "line";
  element.dataset.line = idOf(line);
  const time = document.createElement("a");
  time.className = "time";
  // The keyboard has `p`; a tab stop for each line would bury the others.
  time.tabIndex = -1;
  time.href = rowFragment(rowId, view, idOf(line));
  time.textContent = clockTime(line.ts);
  time.title = `Link to this line (p) · ${line.ts}`;
  element.append(time, textElement(line.spans));
  return element;
}

export function textElement(spans) {
  const text = document.createElement("span");
  text.className = "text";
  fill(text, spans);
  return text;
}

// Appends spans. A plain one is a text node: most lines are one.
export function fill(element, spans) {
  for (const [text, sgr, address] of spans) {
    const link = address ? safeLink(address) : null;
    if (!sgr && !link) {
      element.append(visible(text));
      continue;
    }
    const span = document.createElement(link ? "a" : "span");
    if (link) Object.assign(span, { href: link, target: "_blank", rel: "noopener noreferrer" });
    if (sgr) dress(span, sgr);
    span.textContent = visible(text);
    element.append(span);
  }
}

export function dress(element, sgr) {
  const { classes, dark, light } = appearance(sgr);
  if (classes.length > 0) element.classList.add(...classes);
  if (!dark) return;
  element.classList.add("c");
  const { style } = element;
  style.setProperty("--d", dark.fore);
  style.setProperty("--l", light.fore);
  if (dark.back) style.setProperty("--db", dark.back);
  if (light.back) style.setProperty("--lb", light.back);
}
