// The help: the keys, and how to open the page on a phone.

import { byId, el } from "./dom.js";

export const KEYS = [
  ["Who needs you", [
    ["] [", "to the next and previous row that needs you"],
    ["r", "answer the row's question, or prompt it"],
    ["x X", "dismiss the row until its next change; bring it back"],
  ]],
  ["Move", [
    ["j k", "down and up, on the board and in the lines"],
    ["g G", "to the first line; to the last, and follow"],
    ["PgDn PgUp, Space b", "a page down and up"],
    ["Ctrl-d Ctrl-u, d u", "half a page down and up"],
    ["Enter", "open the row"],
    ["Esc", "back: leave help, search, a field, a view"],
    ["h", "to the board"],
    ["Tab", "to the next control, as in each page"],
  ]],
  ["Views", [
    ["o", "output: lines, answers and tool calls as they come"],
    ["l", "logs: checks, errors, warnings, gaps"],
    ["s", "screen: the pane as it is now"],
    ["e", "events: everything that was recorded"],
    ["t", "timeline: the states of all rows"],
    ["H", "history: runs that have ended"],
    ["w", "wrap long lines; in the screen: its whole width"],
  ]],
  ["Search and links", [
    ["/", "search in the whole history of the row; Enter again goes to the match before"],
    ["n N", "to the next and previous match"],
    ["p", "a link to the current line: in the address, and copied"],
    ["y", "copy the current line"],
  ]],
  ["Timeline", [
    ["arrows", "between bands and rows; Enter opens the row"],
    ["+ -", "a shorter and a longer time"],
  ]],
  ["Help", [["?", "this help"]]],
];

const ACCESS = [
  ["On this machine", "The link with its token:", "td-observe serve --url"],
  [
    "On a phone, with Tailscale",
    "Both devices are in your tailnet. The server keeps listening on this machine only:",
    "tailscale serve --bg 7878\ntd-observe serve --public-url https://MACHINE.TAILNET.ts.net --qr",
  ],
  ["Through ssh", "From another computer, then open the link there:", "ssh -N -L 7878:127.0.0.1:7878 MACHINE"],
  ["Behind a reverse proxy with TLS", "The guide has its configuration:", "td-observe serve --public-url https://HOST"],
  ["Answering", "Answers and prompts are allowed by the one who starts the server:", "td-observe serve --allow-input"],
];

function keyNames(keys) {
  return keys.split(/( |, )/).map((part) => (/^,? ?$/.test(part) ? part : el("kbd", {}, part)));
}

export function setUpHelp() {
  const text = byId("help-text");
  for (const [title, keys] of KEYS) {
    const list = el("dl");
    for (const [names, what] of keys) list.append(el("dt", {}, ...keyNames(names)), el("dd", {}, what));
    text.append(el("h3", {}, title), list);
  }
  for (const [title, words, commands] of ACCESS) text.append(el("h3", {}, title), el("p", {}, words), el("pre", {}, commands));
  byId("help-open").addEventListener("click", openHelp);
  byId("help-close").addEventListener("click", () => byId("help").close());
}

export function openHelp() {
  if (!byId("help").open) byId("help").showModal();
  byId("help-text").focus();
}
