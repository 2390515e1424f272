// Shows the lines of a row: follows at the end, stays where the reader is, loads pages, keeps a bounded number.

import * as api from "./api.js";
import { byId, setText } from "./dom.js";
import { Lines, idOf } from "./lines.js";
import { fill, lineElement, textElement } from "./line_element.js";
import { follow } from "./stream.js";
import { plural } from "./text.js";

// Under load the lines are drawn this often: more is unreadable, and each drawing costs a layout.
const LOADED_INTERVAL_MS = 100;
const LOADED_LINES = 60;
// A flood is that many lines at three drawings in a row: a burst is shown whole. Of a flood only the last screens are
// drawn, and less often, because on two busy cores a drawing of 1,000 lines takes several frames.
const FLOOD_LINES = 300;
const FLOOD_DRAWINGS = 3;
const FLOOD_INTERVAL_MS = 200;
const FLOOD_DRAWN_MAX = 150;
// The distance from an edge at which the next page is asked for, in pixels.
const NEAR = 800;

export class LinesView {
  #model = new Lines();
  #elements = new Map();
  #open = null;
  #isFollowing = true;
  // Where the list was scrolled to when it was last known. Only the user moves it up from there: when the box or the
  // lines change their height, the end may be out of sight for a moment, too.
  #top = 0;
  #isScheduled = false;
  #drawnAt = 0;
  #fullDrawings = 0;
  #isLoaded = false;
  #opened = null;
  #live = null;
  #cursor = 0;
  #isLoading = false;
  #at = null;
  #target = null;

  // `isOver(id)` tells whether a row has ended, `whenDrawn` is called after new elements were made.
  constructor({ isOver }) {
    this.isOver = isOver;
    this.list = byId("lines");
    this.button = byId("follow");
    this.wait = byId("lines-wait");
    this.list.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.button.addEventListener("click", () => this.follow());
    this.list.addEventListener("click", (event) => this.#clicked(event));
    new ResizeObserver(() => this.#isFollowing && this.#toEnd()).observe(this.list);
    this.onPermalink = () => {};
  }

  // Opens a view of a row, at its end or at a line (`SEQ.NTH`; also `SEQ`, for the first one of an event).
  async open(row, view, line) {
    this.close();
    const opened = (this.#opened = { row, view, abort: new AbortController() });
    this.list.setAttribute("aria-label", `${view} lines`);
    await this.#load(line);
    if (opened === this.#opened && !document.hidden) this.#listen();
  }

  close() {
    this.#opened?.abort.abort();
    this.#live?.abort();
    this.#live = null;
    this.#opened = null;
    this.#at = this.#target = null;
    this.#model.clear();
    this.#isLoading = false;
    this.#isLoaded = false;
    this.#clear();
    this.button.hidden = true;
    this.#say("");
  }

  // A hidden page holds no connection; a visible one continues where it was.
  setVisible(isVisible) {
    if (!this.#opened || !this.#isLoaded) return;
    if (!isVisible) {
      this.#live?.abort();
      this.#live = null;
    } else if (!this.#live) this.#listen();
  }

  // Loads the lines at the end or around a line, and draws them.
  async #load(line) {
    const { row, view, abort } = this.#opened;
    const { signal } = abort;
    this.#live?.abort();
    this.#live = null;
    this.#isLoading = true;
    const slow = setTimeout(() => this.#say("Loading …"), 300);
    try {
      const page = await api.lines(row, view, line == null ? {} : { at: Number.parseInt(line, 10) }, signal);
      // The live stream begins at the end of the log, wherever the reader is.
      const tail = page.is_last ? page : await api.lines(row, view, {}, signal);
      if (signal.aborted) return;
      this.#model.reset(page, tail.lines.at(-1) ?? null, line ?? null);
      this.#cursor = tail.last ?? 0;
      this.#isLoaded = true;
      this.#isFollowing = line == null;
      this.#redraw();
      this.#say(this.#model.items.length === 0 ? "No lines yet." : "");
      if (line != null) this.#showTarget(line);
    } catch (error) {
      if (signal.aborted) return;
      this.#say(error.status === 404 ? "This row is not in the log any more." : `The lines could not be loaded: ${error.message}. Trying again …`);
      if (error.status !== 404 && error.status !== 401) setTimeout(() => signal.aborted || this.open(row, view, line), 2000);
    } finally {
      clearTimeout(slow);
      if (!signal.aborted) this.#isLoading = false;
    }
  }

  #listen() {
    const { row, view } = this.#opened ?? {};
    this.#live?.abort();
    this.#live = null;
    if (!row || !this.#isLoaded || this.isOver(row)) return;
    const live = (this.#live = new AbortController());
    const take = (message, id) => {
      if (/^\d+$/.test(id ?? "")) this.#cursor = Number(id);
      this.#model.receive(message);
      this.#schedule();
    };
    follow(api.livePath(row, view, this.#cursor), take, live.signal, () => this.isOver(row));
  }

  #schedule() {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    requestAnimationFrame((now) => this.#frame(now));
  }

  #frame(now) {
    const isLoaded = this.#model.pending.length > LOADED_LINES;
    const interval = this.#isFlood ? FLOOD_INTERVAL_MS : LOADED_INTERVAL_MS;
    if (isLoaded && now - this.#drawnAt < interval && this.#isFollowing) {
      requestAnimationFrame((next) => this.#frame(next));
      return;
    }
    this.#isScheduled = false;
    this.#drawnAt = now;
    this.#fullDrawings = this.#model.pending.length > FLOOD_LINES ? this.#fullDrawings + 1 : 0;
    this.#draw();
  }

  get #isFlood() {
    return this.#fullDrawings >= FLOOD_DRAWINGS;
  }

  #draw() {
    if (!this.#opened) return;
    for (const line of this.#model.takeRevised()) {
      const text = this.#elements.get(idOf(line))?.querySelector(".text");
      text?.replaceChildren();
      if (text) fill(text, line.spans);
    }
    if (!this.#isFollowing) {
      this.#drawButton();
      return;
    }
    const { isReset, added, removed } = this.#model.take(this.#isFlood ? FLOOD_DRAWN_MAX : undefined);
    if (isReset) this.#clear();
    this.#removeFirst(removed);
    if (added.length > 0) this.#say("");
    this.#insert(added, this.#open);
    this.#drawOpen();
    this.#drawButton();
    this.#toEnd();
  }

  #drawOpen() {
    const { open } = this.#model;
    if (!open) {
      this.#open?.remove();
      this.#open = null;
      return;
    }
    if (!this.#open) {
      this.#open = document.createElement("div");
      this.#open.className = "line open";
      this.list.append(this.#open);
    }
    this.#open.replaceChildren(textElement(open));
  }

  #redraw() {
    this.#clear();
    this.#insert(this.#model.items, null);
    this.#drawButton();
    if (this.#isFollowing) this.#toEnd();
  }

  #insert(items, before) {
    if (items.length === 0) return;
    const { row, view } = this.#opened;
    const fragment = document.createDocumentFragment();
    for (const item of items) {
      const element = lineElement(item, row, view);
      if (item.missed === undefined) this.#elements.set(idOf(item), element);
      fragment.append(element);
    }
    this.list.insertBefore(fragment, before);
  }

  #clear() {
    this.#elements.clear();
    this.#open = null;
    this.list.replaceChildren();
  }

  #removeFirst(count) {
    for (let i = 0; i < count; i++) this.#forget(this.list.firstElementChild);
  }

  #removeLast(count) {
    this.#open?.remove();
    this.#open = null;
    for (let i = 0; i < count; i++) this.#forget(this.list.lastElementChild);
  }

  #forget(element) {
    if (!element) return;
    this.#elements.delete(element.dataset.line);
    element.remove();
  }

  #toEnd() {
    // The browser takes the greatest place that there is. This lays out the page, once for each drawing.
    this.list.scrollTop = 1e9;
    this.#top = this.list.scrollTop;
  }

  #drawButton() {
    const { unseen, hasGap } = this.#model;
    this.button.hidden = this.#isFollowing || !this.#isLoaded;
    this.list.dataset.follow = this.#isFollowing ? "on" : "off";
    if (this.button.hidden) return;
    setText(this.button, unseen > 0 ? `${plural(unseen, "new line")} – follow` : hasGap ? "To the end – follow" : "Paused – follow");
  }

  #scrolled() {
    if (!this.#opened || !this.#isLoaded) return;
    const { scrollTop, scrollHeight, clientHeight } = this.list;
    const below = scrollHeight - scrollTop - clientHeight;
    if (below <= 4) {
      if (!this.#isFollowing && !this.#model.hasGap) this.#resume();
    } else if (this.#isFollowing && scrollTop < this.#top - 1) {
      this.#isFollowing = false;
      this.#drawButton();
    }
    this.#top = scrollTop;
    if (this.#isFollowing) return;
    if (scrollTop < NEAR) this.#loadOlder();
    else if (below < NEAR && this.#model.hasGap) this.#loadNewer();
  }

  #resume() {
    this.#isFollowing = true;
    this.#schedule();
  }

  pause() {
    this.#isFollowing = false;
    this.#drawButton();
  }

  get isFollowing() {
    return this.#isFollowing;
  }

  // Goes to the end and follows.
  async follow() {
    this.#at = null;
    this.#markAt();
    if (!this.#opened) return;
    if (this.#model.hasGap && !this.#isLoading) {
      await this.#load(null);
      this.#listen();
      return;
    }
    this.#resume();
  }

  async #loadOlder() {
    await this.#loadPage(() => !this.#model.isFirst && this.#model.before != null && { before: this.#model.before }, (page) => {
      const anchor = this.list.firstElementChild;
      const from = anchor?.offsetTop ?? 0;
      const { added, removed } = this.#model.prepend(page);
      this.#insert(added, anchor);
      if (removed > 0) this.#removeLast(removed);
      // The line that was read stays where it was.
      if (anchor) this.list.scrollTop += anchor.offsetTop - from;
      return added.length;
    });
  }

  async #loadNewer() {
    await this.#loadPage(() => this.#model.hasGap && this.#model.after != null && { after: this.#model.after }, (page) => {
      const anchor = this.list.lastElementChild;
      const from = anchor?.offsetTop ?? 0;
      const { added, removed } = this.#model.append(page);
      this.#insert(added, null);
      this.#removeFirst(removed);
      if (anchor) this.list.scrollTop += anchor.offsetTop - from;
      if (page.is_last) {
        this.#cursor = page.last ?? this.#cursor;
        this.#listen();
      }
      return added.length;
    });
  }

  // Loads pages until one has lines: events of other kinds may fill whole pages of the log.
  async #loadPage(placeOf, apply) {
    if (this.#isLoading || !this.#opened) return;
    const { row, view, abort } = this.#opened;
    this.#isLoading = true;
    try {
      for (let place = placeOf(), count = 0; place && count === 0; place = placeOf()) {
        const page = await api.lines(row, view, place, abort.signal);
        if (abort.signal.aborted) return;
        count = apply(page);
        if (page.first === null) break;
      }
    } catch {
      // Scrolling asks again.
    } finally {
      if (!abort.signal.aborted) this.#isLoading = false;
    }
    this.#drawButton();
  }

  // Shows a line, from the log if it is not among those that are here.
  async show(seq, nth = 0) {
    if (!this.#elements.has(`${seq}.${nth}`)) {
      this.#isFollowing = false;
      await this.#load(`${seq}.${nth}`);
      this.#listen();
    }
    this.pause();
    this.select(`${seq}.${nth}`, "center");
    return this.#elements.get(`${seq}.${nth}`) ?? null;
  }

  #showTarget(at) {
    const { items } = this.#model;
    const seq = Number.parseInt(at, 10);
    const line = items.find((item) => item.seq !== undefined && idOf(item) === at) ?? items.find((item) => item.seq >= seq) ?? this.#model.last;
    if (!line) return;
    this.#target = idOf(line);
    this.#elements.get(this.#target)?.classList.add("target");
    this.select(this.#target, "center");
    this.#drawButton();
  }

  // Makes a line the current one, for `y`, `p` and moving by keys.
  select(key, block = "nearest") {
    this.#at = key;
    this.#markAt();
    this.#elements.get(key)?.scrollIntoView({ block });
  }

  #markAt() {
    for (const element of this.list.querySelectorAll(".line.at")) element.classList.remove("at");
    this.#elements.get(this.#at)?.classList.add("at");
  }

  // Moves the current line.
  move(by) {
    const now = this.#elements.get(this.#at) ?? this.#lastInSight();
    let element = now;
    if (this.#elements.has(this.#at)) {
      const step = by > 0 ? "nextElementSibling" : "previousElementSibling";
      for (let i = Math.abs(by); i > 0 && element?.[step]?.dataset.line; i--) element = element[step];
      if (element === now && by > 0 && !this.#model.hasGap) return void this.follow();
    }
    if (!element) return;
    this.pause();
    this.select(element.dataset.line);
    if (element === this.list.firstElementChild) this.#loadOlder();
  }

  scroll(pages) {
    this.list.scrollBy({ top: pages * this.list.clientHeight * 0.9 });
  }

  // Goes to the first line of the log.
  async toStart() {
    this.pause();
    if (!this.#model.isFirst) {
      await this.#load(0);
      this.#listen();
    }
    this.list.scrollTop = 0;
  }

  #lastInSight() {
    const box = this.list.getBoundingClientRect();
    const all = [...this.list.querySelectorAll("[data-line]")];
    return all.findLast((element) => element.getBoundingClientRect().bottom <= box.bottom + 2) ?? all.at(-1);
  }

  // The current line, or the last one: `{seq, nth, spans}`.
  current() {
    return this.#model.items.find((item) => item.seq !== undefined && idOf(item) === this.#at) ?? this.#model.last;
  }

  // The texts of the lines that are here, for the highlights of a search.
  *texts() {
    for (const element of this.#elements.values()) yield element.querySelector(".text");
  }

  #clicked(event) {
    const line = event.target.closest(".line[data-line]");
    if (!line) return;
    if (event.target.closest(".time")) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.#at = line.dataset.line;
      this.#markAt();
      this.onPermalink();
    } else if (!event.target.closest("a") && getSelection().isCollapsed) {
      this.#at = this.#at === line.dataset.line ? null : line.dataset.line;
      if (this.#at) this.pause();
      this.#markAt();
    }
  }

  #say(text) {
    setText(this.wait, text);
    this.wait.hidden = text === "";
  }
}
