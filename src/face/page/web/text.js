// Makes foreign text safe to show: control and bidi characters become visible, and long texts are cut (pure).

// What the terminal UI shows as `^[` or `<202e>`, too: controls, and invisible ones that disguise text.
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;
const EACH_UNSAFE = new RegExp(UNSAFE.source, "g");

// The server removes these characters already; this keeps the page safe by itself.
export function visible(text) {
  return UNSAFE.test(text) ? text.replace(EACH_UNSAFE, (c) => shown(c)) : text;
}

// Returns a text of several lines with its line ends.
export function visibleLines(text) {
  return text.split("\n").map(visible).join("\n");
}

function shown(c) {
  const code = c.codePointAt(0);
  if (c === "\t") return "    ";
  return code < 0x20 || code === 0x7f ? "^" + String.fromCharCode(code ^ 0x40) : `<${code.toString(16)}>`;
}

// Returns the beginning of a text. A title of 100 KB costs layout time in each place that shows it.
export function cut(text, max) {
  if (text.length <= max) return text;
  // A surrogate pair is not cut in half.
  const end = /[\ud800-\udbff]/.test(text[max - 1]) ? max - 1 : max;
  return text.slice(0, end) + "…";
}

export function oneLine(text, max = 400) {
  return visible(cut(String(text ?? "").trim(), max).replace(/\s*[\r\n]+\s*/g, " "));
}

// Returns an address that the page may open, or null. The scheme decides: `javascript:` is none.
export function safeLink(address) {
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function plural(count, one, many = one + "s") {
  return `${count} ${count === 1 ? one : many}`;
}
