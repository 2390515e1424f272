// Keys as actions; the terminal UI has the same ones where both have the action (pure).

const PLAIN = {
  j: "down", ArrowDown: "down", k: "up", ArrowUp: "up", g: "start", Home: "start", G: "end", End: "end",
  d: "half-down", u: "half-up", PageDown: "page-down", " ": "page-down", PageUp: "page-up", b: "page-up",
  "/": "search", n: "next-match", N: "previous-match",
  o: "output", l: "logs", s: "screen", e: "events", t: "timeline", H: "history", h: "board",
  Enter: "open", Escape: "back", "]": "next-needing", "[": "previous-needing",
  x: "dismiss", X: "bring-back", r: "answer", w: "wrap", y: "copy", p: "permalink", "?": "help",
  "+": "shorter", "=": "shorter", "-": "longer",
};

// Returns the action of a key, or null. `target` is where the focus is: `text` for a field in which one types,
// `control` for a button or a link, which keep Enter and the space bar, else `page`.
export function actionOf({ key, ctrlKey = false, metaKey = false, altKey = false, isComposing = false }, target) {
  if (isComposing || metaKey || altKey) return null;
  if (ctrlKey) return target !== "text" ? ({ d: "half-down", u: "half-up" }[key] ?? null) : null;
  if (target === "text") return key === "Escape" ? "leave" : null;
  if (target === "control" && (key === "Enter" || key === " ")) return null;
  return PLAIN[key] ?? null;
}

export function targetKind(element) {
  if (!element) return "page";
  if (element.isContentEditable || element.tagName === "TEXTAREA" || element.tagName === "SELECT") return "text";
  if (element.tagName === "INPUT") return "text";
  return ["A", "BUTTON", "SUMMARY"].includes(element.tagName) ? "control" : "page";
}
