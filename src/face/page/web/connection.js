// Whether the server can be reached: those who read from it report here; one quiet line tells it.

import { about } from "./api.js";
import { byId } from "./dom.js";

const broken = new Set();
let page = null;
let whenWhole = () => {};

// Sets what happens with the answer of `/page/about` after a connection is whole: the server may have been
// started anew, with other options.
export function onWhole(callback) {
  whenWhole = callback;
}

// Notes the version of the page that runs.
export function setPage(hash) {
  page ??= hash;
}

export function isBroken(part, detail) {
  // The first failure is often a connection that the server closed in an orderly way.
  broken.add(part);
  show(`No connection to td-observe${detail ? ` (${detail})` : ""}. Trying again …`);
}

export function isWhole(part) {
  if (!broken.delete(part) || broken.size > 0) return;
  show("");
  about().then((now) => {
    whenWhole(now);
    // The modules of another version would be mixed with these.
    if (page && now.page !== page) show("td-observe was updated.", true);
  }).catch(() => {});
}

export function forget(part) {
  broken.delete(part);
  if (broken.size === 0 && byId("reload").hidden) show("");
}

function show(text, canReload = false) {
  byId("notice-text").textContent = text;
  byId("reload").hidden = !canReload;
  byId("notice").hidden = text === "";
}
