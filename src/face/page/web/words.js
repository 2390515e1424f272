// A row of the board in words (pure).

import { oneLine, plural } from "./text.js";

export const GROUPS = [
  ["needs_you", "Needs you"],
  ["finished", "Finished"],
  ["working", "Working"],
  ["quiet", "Quiet"],
];

// Returns a row's name, after its host.
export const nameOf = (row, max) => oneLine(row.host && row.kind !== "host" ? `${row.host}/${row.name}` : row.name, max);

// Returns the state with the exit status if there is one, as the table of `td-observe status` has it.
export function stateInWords(row) {
  if (row.state === "failed" && row.exit_status != null) return `failed ${row.exit_status}`;
  if (row.exit_status == null && row.cut_off) return "cut off";
  if (row.ended && row.exit_status != null) return `exited ${row.exit_status}`;
  return oneLine(row.state, 60).replaceAll("_", " ");
}

// Returns the last text of a row: its question, or else its progress and its last line.
export function lastText(row) {
  const asks = row.asks && row.state !== "failed" ? row.asks : null;
  if (asks) return oneLine(asks);
  const ahead = [];
  if (row.phases?.length > 0 && !row.ended && row.phases.join() !== row.name) ahead.push(oneLine(row.phases[0], 80));
  if (row.progress != null) ahead.push(`${row.progress}%`);
  else if (row.background) ahead.push(backgroundInWords(row.background));
  const last = oneLine(row.last_line);
  return [...ahead, last].filter((part) => part !== "").join(": ");
}

function backgroundInWords({ shells = 0, agents = 0 }) {
  const parts = [];
  if (shells > 0) parts.push(plural(shells, "shell"));
  if (agents > 0) parts.push(plural(agents, "sub-agent"));
  return parts.length > 0 ? `${parts.join(", ")} still running` : "";
}

export const titleOf = (rows) => {
  const need = rows.filter((row) => row.attention === "needs_you").length;
  return need > 0 ? `(${need}) td-observe` : "td-observe";
};

// What may be done with a row. Typing needs a pane of a known server.
export const isWaiting = (row) => row.state === "waiting" && row.question_id != null;
export const hasPane = (row) => Boolean(row.pane && row.server && !row.ended);
