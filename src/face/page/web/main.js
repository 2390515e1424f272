// Puts the page together: the token, the place in the address, the board's feed, the views and the keys.

import * as api from "./api.js";
import { Answers } from "./answers.js";
import { Backoff, pause } from "./backoff.js";
import { Board } from "./board.js";
import { BoardFeed } from "./board_feed.js";
import { BoardView } from "./board_view.js";
import * as connection from "./connection.js";
import { copy } from "./copy.js";
import { byId, setText } from "./dom.js";
import { openHelp, setUpHelp } from "./help.js";
import { HistoryView } from "./history_view.js";
import { actionOf, targetKind } from "./keys.js";
import { idOf } from "./lines.js";
import { LinesView } from "./lines_view.js";
import { fragmentOf, parseFragment } from "./places.js";
import { RowView } from "./row_view.js";
import { ScreenView } from "./screen_view.js";
import { Search } from "./search.js";
import { oneLine, visible } from "./text.js";
import { setUpTheme } from "./theme.js";
import { Timeline } from "./timeline.js";
import { storeToken, storedToken, tokenOf } from "./token.js";
import { isLookedAt, Views } from "./viewed.js";
import { hasPane, isWaiting, nameOf, titleOf } from "./words.js";

const wide = matchMedia("(min-width: 1000px)");
const board = new Board();
const views = new Views();
let place = { kind: "board" };
let allowInput = false;
// The row that the board's keys are at; on a wide page its output is shown beside the board.
let selected = null;
// What the right side shows: `{id, view, line}`.
let shown = null;
let boardTimer = null;

const answers = new Answers((id) => {
  board.shift(id, performance.now());
  render();
});
const actions = {
  send: (row, body) => answers.send(row, body).finally(() => feed.kick()),
  dismiss,
  said: (id) => answers.said(id),
};
const boardView = new BoardView(board, actions);
const rowView = new RowView(board, actions);
const lines = new LinesView({ isOver: (id) => board.isLoaded && (board.find(id)?.ended ?? true) });
const screen = new ScreenView({ isViewed: () => views.isDue(board.find(shown?.id)) });
const search = new Search(lines, () => ({ row: shown.id, view: shown.view }));
const timeline = new Timeline((id) => go({ kind: "row", id, view: "output", line: null }));
const historyView = new HistoryView();
const feed = new BoardFeed(takeRows);

// Starts, and goes on after the token was pasted.

function start() {
  setUpTheme();
  setUpHelp();
  lines.onPermalink = permalink;
  connection.onWhole(takeAbout);
  api.onRefused(() => {
    storeToken(null);
    askForToken("The server does not accept this tab's token. It may have a new one.");
  });
  byId("token-form").addEventListener("submit", pasteToken);
  byId("reload").addEventListener("click", () => location.reload());
  byId("wrap").addEventListener("click", toggleWrap);
  addEventListener("hashchange", takeFragment);
  addEventListener("keydown", keyed);
  wide.addEventListener("change", () => show());
  document.addEventListener("visibilitychange", () => lines.setVisible(!document.hidden));
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    focusView();
  });
  boardView.element.addEventListener("focusin", () => select(boardView.focusedId ?? selected));
  setInterval(tick, 1000);
  takeFragment();
}

// Reads the place from the address, and takes the token out of it: addresses are copied, kept and shown.
function takeFragment() {
  const { token, place: next } = parseFragment(location.hash);
  if (token) {
    storeToken(token);
    history.replaceState(null, "", fragmentOf(next));
  }
  place = next;
  if (!storedToken()) return askForToken();
  if (token || byId("token").hidden === false || !isConnected) connect();
  show();
}

let isConnected = false;

async function connect() {
  isConnected = true;
  byId("token").hidden = true;
  feed.start();
  const backoff = new Backoff();
  while (isConnected) {
    try {
      return takeAbout(await api.about());
    } catch (error) {
      if (error.status === 401) return;
      await pause(backoff.next());
    }
  }
}

function takeAbout(about) {
  allowInput = about.allow_input === true;
  setText(byId("host"), about.host ? `· ${oneLine(about.host, 60)}` : "");
  connection.setPage(about.page);
  render();
}

function askForToken(why = "The link contains a token, and this tab does not have it.") {
  isConnected = false;
  feed.stop();
  leave();
  document.body.dataset.place = "token";
  for (const id of ["row-view", "timeline", "history"]) byId(id).hidden = true;
  byId("token").hidden = false;
  setText(byId("token-why"), why);
  byId("token-field").focus();
}

function pasteToken(event) {
  event.preventDefault();
  const token = tokenOf(byId("token-field").value);
  setText(byId("token-error"), token ? "" : "This is neither a link with a token nor a token of 32 hexadecimal digits.");
  if (!token) return;
  byId("token-field").value = "";
  storeToken(token);
  connect();
  show();
}

// Places

function go(next) {
  const fragment = fragmentOf(next);
  if (location.hash === fragment) {
    place = next;
    show();
  } else location.hash = fragment;
}

function leave() {
  lines.close();
  screen.close();
  timeline.close();
  historyView.close();
  shown = null;
}

// Shows the place. On a wide page the board always has a row beside it.
function show() {
  if (!isConnected) return;
  const from = document.body.dataset.place;
  document.body.dataset.place = place.kind;
  byId("token").hidden = true;
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === place.kind || (place.kind === "row" && link.dataset.page === "board")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (place.kind === "row") selected = place.id;
  if (place.kind === "board" && wide.matches) selected ??= board.rows[0]?.id ?? null;
  const isPreview = place.kind === "board" && wide.matches && selected !== null;
  const next = place.kind === "row" ? place : isPreview ? { id: selected, view: "output", line: null } : null;
  byId("timeline").hidden = place.kind !== "timeline";
  byId("history").hidden = place.kind !== "history";
  byId("row-view").hidden = next === null;
  showRow(next);
  if (place.kind === "timeline") timeline.open();
  else timeline.close();
  if (place.kind === "history") historyView.open();
  render();
  if (wide.matches && place.kind === "row") boardView.reveal(place.id);
  if (from !== place.kind || place.kind === "row") moveFocus(from);
}

function showRow(next) {
  const isSame = next && shown && shown.id === next.id && shown.view === next.view && shown.line === next.line;
  if (isSame) return;
  search.close();
  lines.close();
  screen.close();
  shown = next && { id: next.id, view: next.view, line: next.line };
  if (!shown) return;
  rowView.open(shown.id, shown.view);
  drawWrap();
  if (shown.view !== "screen") lines.open(shown.id, shown.view, shown.line);
  else openScreen();
}

let screenRow = null;

// The screen needs the row's pane, which the board tells.
function openScreen() {
  const row = board.find(shown.id);
  screenRow = row && hasPane(row) ? row.id : null;
  if (board.isLoaded) screen.open(row);
}

// The focus follows the place, so that keys and screen readers are where the eyes are. A text that is being typed
// keeps it.
function moveFocus(from) {
  if (targetKind(document.activeElement) === "text") return;
  if (place.kind === "row") focusView();
  else if (place.kind === "board" && from !== "board" && selected) boardView.focus(selected);
}

function focusView() {
  const target = shown?.view === "screen" ? byId("screen") : shown ? byId("lines") : byId("view");
  target.focus({ preventScroll: true });
}

// The board

function takeRows(rows) {
  const wasLoaded = board.isLoaded;
  const news = board.receive(rows, performance.now());
  document.title = titleOf(board.latest);
  if (news.length > 0) {
    const words = news.slice(0, 3).map((row) => `${nameOf(row, 60)} needs you: ${oneLine(row.asks ?? row.last_line, 120)}`);
    setText(byId("announce"), words.join(". "));
  }
  if (!wasLoaded) show();
  render();
  lines.setVisible(!document.hidden);
}

function render() {
  if (!isConnected) return;
  clearTimeout(boardTimer);
  const now = performance.now();
  board.settle(now);
  const beside = wide.matches ? shown?.id : null;
  boardView.render({ allowInput, beside, selected: wide.matches || place.kind === "row" ? selected : null });
  if (shown) {
    const row = board.find(shown.id) ?? historyView.find(shown.id);
    rowView.render(row, { allowInput });
    if (!row && board.isLoaded) findEnded(shown.id);
    if (shown.view === "screen" && row && hasPane(row) && screenRow !== row.id) openScreen();
  }
  // A held layout is shown when the hold ends; buttons that have moved are usable again when they have settled.
  const due = [board.dueAt, board.settlesAt(now)].filter((at) => at !== null && at > now);
  if (due.length > 0) boardTimer = setTimeout(render, Math.min(...due) - now + 5);
}

const asked = new Set();

// A row that is not on the board may be an ended run: the history knows its name.
async function findEnded(id) {
  if (asked.has(id)) return;
  asked.add(id);
  await historyView.load();
  if (historyView.find(id)) render();
}

async function dismiss(row, isDismissed) {
  try {
    await api.dismiss(row, isDismissed);
    answers.say(row.id, isDismissed ? "Dismissed until its next change." : "Brought back.");
  } catch (error) {
    answers.say(row.id, `Not dismissed: ${error.message}`, "refused");
  }
  feed.kick();
}

let previewTimer = null;

function select(id) {
  if (id === null || id === selected) return;
  selected = id;
  // Moving through many rows opens one view and not all of them.
  clearTimeout(previewTimer);
  previewTimer = setTimeout(() => wide.matches && place.kind === "board" && show(), 150);
}

function tick() {
  if (document.hidden || !isConnected) return;
  boardView.tick();
  rowView.tick();
  if (!isLookedAt()) return;
  const rows = boardView.questionsInSight().slice(0, 4);
  const row = shown && shown.view !== "screen" ? board.find(shown.id) : null;
  if (row) rows.push(row);
  // What the user sees withholds its notification.
  for (const each of rows) if (hasPane(each) && views.isDue(each)) api.screen(each, true).catch(() => {});
}

// Keys

function keyed(event) {
  if (byId("help").open) {
    if (event.key === "?") byId("help").close();
    return;
  }
  if (event.defaultPrevented || !isConnected) return;
  const action = actionOf(event, targetKind(event.target));
  if (action && act(action, event.target)) event.preventDefault();
}

// Does an action. Returns false if the browser has the key.
function act(action, target) {
  const isOnBoard = place.kind === "board" ? !byId("view").contains(target) : boardView.element.contains(target);
  switch (action) {
    case "leave": return leaveField(target);
    case "back": return back();
    case "help": return openHelp(), true;
    case "timeline": return go({ kind: "timeline" }), true;
    case "history": return go({ kind: "history" }), true;
    case "board": return go({ kind: "board" }), true;
    case "output": case "logs": case "screen": case "events": return openView(action);
    case "open": return selected !== null && isOnBoard ? openView("output") : false;
    case "next-needing": case "previous-needing": return toNeeding(action === "next-needing");
    case "dismiss": case "bring-back": return dismissCurrent(action === "dismiss");
    case "answer": return answerCurrent();
    case "longer": case "shorter": return place.kind === "timeline" ? (timeline.changeSpan(action === "longer" ? 1 : -1), true) : false;
    default:
  }
  if (isOnBoard) return moveIn(boardView.links, action);
  if (place.kind === "history") return moveIn([...document.querySelectorAll("#history-rows .row-link")], action);
  if (place.kind === "timeline") return toBands(action);
  return shown ? actInRow(action) : false;
}

const STEPS = { down: 1, up: -1, "half-down": 5, "half-up": -5, "page-down": 10, "page-up": -10, start: -1e6, end: 1e6 };

// Moves the focus in a list of rows.
function moveIn(links, action) {
  const step = STEPS[action];
  if (step === undefined || links.length === 0) return false;
  const focused = links.findIndex((link) => link.closest("li").contains(document.activeElement));
  const marked = links.findIndex((link) => link.closest("li").dataset.row === selected);
  // The first key shows where one is.
  const at = focused >= 0 ? focused + step : Math.abs(step) > 1e5 ? step : Math.max(0, marked);
  const link = links[Math.min(links.length - 1, Math.max(0, at))];
  link.focus({ preventScroll: true });
  link.closest("li").scrollIntoView({ block: "nearest" });
  return true;
}

function toBands(action) {
  if (STEPS[action] === undefined) return false;
  byId("bands").querySelector('rect[tabindex="0"]')?.focus();
  return true;
}

function actInRow(action) {
  if (shown.view === "screen") return action === "wrap" ? (toggleWrap(), true) : false;
  switch (action) {
    case "down": lines.move(1); break;
    case "up": lines.move(-1); break;
    case "half-down": lines.scroll(0.5); break;
    case "half-up": lines.scroll(-0.5); break;
    case "page-down": lines.scroll(1); break;
    case "page-up": lines.scroll(-1); break;
    case "start": lines.toStart(); break;
    case "end": lines.follow(); break;
    case "search": search.open(); break;
    case "next-match": search.step(1); break;
    case "previous-match": search.step(-1); break;
    case "wrap": toggleWrap(); break;
    case "copy": copyLine(); break;
    case "permalink": permalink(); break;
    default: return false;
  }
  return true;
}

function leaveField(field) {
  if (search.isOpen && byId("search-form").contains(field)) search.close();
  else if (boardView.element.contains(field)) boardView.focus(field.closest("[data-row]")?.dataset.row);
  else {
    field.blur();
    focusView();
  }
  return true;
}

function back() {
  if (search.isOpen) search.close();
  else if (place.kind !== "board") go({ kind: "board" });
  else if (wide.matches && selected) boardView.focus(selected);
  return true;
}

// The row that a key is about: the one that has the focus on the board, else the one that is shown.
const currentId = () => boardView.focusedId ?? (place.kind === "row" ? place.id : selected);
const currentRow = () => board.find(currentId());

function openView(view) {
  const id = currentId() ?? board.rows[0]?.id;
  if (id == null) return false;
  go({ kind: "row", id, view, line: null });
  return true;
}

function toNeeding(isForward) {
  const row = board.nextNeeding(place.kind === "row" ? place.id : boardView.focusedId, isForward);
  if (!row) toast("Nothing needs you.");
  else if (place.kind === "row") go({ kind: "row", id: row.id, view: "output", line: null });
  else if (place.kind === "board") boardView.focus(row.id);
  else go({ kind: "row", id: row.id, view: "output", line: null });
  return true;
}

function dismissCurrent(isDismissed) {
  const row = currentRow();
  if (row) dismiss(row, isDismissed);
  return true;
}

function answerCurrent() {
  const row = currentRow();
  if (!row) return true;
  if (!allowInput) toast("To answer here, start the page with td-observe serve --allow-input.");
  else if (!hasPane(row)) toast("This row has no pane to type into.");
  else if (shown?.id === row.id) rowView.focusAnswer();
  else if (isWaiting(row)) boardView.item(row.id)?.questionPanel?.querySelector("[data-choice], [data-answer-text]")?.focus();
  else {
    go({ kind: "row", id: row.id, view: "output", line: null });
    // The view of the row is drawn when the address has changed.
    setTimeout(() => rowView.focusAnswer(), 50);
  }
  return true;
}

function toggleWrap() {
  if (shown?.view === "screen") screen.toggleFit();
  else byId("lines").dataset.wrap = byId("lines").dataset.wrap === "off" ? "on" : "off";
  drawWrap();
}

function drawWrap() {
  const isScreen = shown?.view === "screen";
  const isOn = isScreen ? screen.isFitting : byId("lines").dataset.wrap !== "off";
  byId("wrap").setAttribute("aria-pressed", String(isOn));
  setText(byId("wrap"), isScreen ? "Fit" : "Wrap");
  byId("wrap").title = isScreen ? "Show the whole width (w)" : "Wrap long lines (w)";
}

async function copyLine() {
  const line = lines.current();
  if (!line) return;
  const isCopied = await copy(visible(line.spans.map(([text]) => text).join("")));
  toast(isCopied ? "Line copied." : "The browser does not allow copying.");
}

async function permalink() {
  const line = lines.current();
  if (!line || !shown) return;
  shown.line = idOf(line);
  place = { kind: "row", ...shown };
  const fragment = fragmentOf(place);
  document.body.dataset.place = "row";
  history.replaceState(null, "", fragment);
  const isCopied = await copy(location.origin + location.pathname + fragment);
  toast(isCopied ? "Link copied." : "The link is in the address bar.");
}

let toastTimer = null;

function toast(text) {
  setText(byId("toast"), text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => setText(byId("toast"), ""), 4000);
}

start();
