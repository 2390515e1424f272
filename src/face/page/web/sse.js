// Parses server-sent events from pieces of text (pure).

export class EventParser {
  #rest = "";
  #data = [];
  #id = null;
  #type = "message";

  // Returns the events that a piece completes: `{id, type, data}`. `id` is the last one that was seen.
  feed(piece) {
    const events = [];
    const text = this.#rest + piece;
    let start = 0;
    for (;;) {
      const end = text.indexOf("\n", start);
      if (end < 0) break;
      const line = text.slice(start, text[end - 1] === "\r" && end > start ? end - 1 : end);
      start = end + 1;
      if (line !== "") this.#field(line);
      else if (this.#data.length > 0) {
        events.push({ id: this.#id, type: this.#type, data: this.#data.join("\n") });
        this.#data = [];
        this.#type = "message";
      }
    }
    this.#rest = text.slice(start);
    return events;
  }

  #field(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") this.#data.push(value);
    else if (name === "id") this.#id = value;
    else if (name === "event") this.#type = value;
  }
}
