// Places in the page as fragments of its address: `#/row/ID/output/SEQ.NTH` (pure).

export const VIEWS = ["output", "logs", "screen", "events"];

// Returns the token and the place of a fragment. A place that does not exist is the board.
export function parseFragment(fragment) {
  const text = fragment.replace(/^#/, "");
  if (text.startsWith("/") || text === "") return { token: null, place: parsePlace(text) };
  const parts = new URLSearchParams(text);
  return { token: parts.get("token"), place: parsePlace(parts.get("to") ?? "") };
}

function parsePlace(path) {
  const parts = path.split("/").slice(1).map(decoded);
  if (parts[0] === "row" && parts[1]) {
    const view = VIEWS.includes(parts[2]) ? parts[2] : "output";
    const line = /^\d{1,15}(\.\d{1,9})?$/.test(parts[3] ?? "") ? parts[3] : null;
    return { kind: "row", id: parts[1], view, line };
  }
  if (parts[0] === "timeline" || parts[0] === "history") return { kind: parts[0] };
  return { kind: "board" };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function fragmentOf(place) {
  if (place.kind !== "row") return place.kind === "board" ? "#/" : `#/${place.kind}`;
  const line = place.line == null ? "" : `/${place.line}`;
  return `#/row/${encodeURIComponent(place.id)}/${place.view}${line}`;
}

export function rowFragment(id, view = "output", line = null) {
  return fragmentOf({ kind: "row", id, view, line });
}
