// Draws the timeline: a band of states for each row, as SVG and as a table.

import * as api from "./api.js";
import { byId, el, setText, svg } from "./dom.js";
import { rowFragment } from "./places.js";
import { oneLine } from "./text.js";
import { clockTime, duration, tickTime } from "./time.js";
import { BANDS, bandsOf, ticksOf } from "./timeline_model.js";
import { nameOf } from "./words.js";

const SPANS = [[900, "15 minutes"], [3600, "1 hour"], [21600, "6 hours"], [86400, "24 hours"], [604800, "7 days"]];
const HEIGHT = 20;
// What needs the user has a pattern, so that hue is not the only difference.
const PATTERNS = {
  waiting: [["path", { d: "M-2 8 L8 -2 M4 10 L10 4", class: "hatch" }]],
  error: [["path", { d: "M0 0 L8 8 M8 0 L0 8", class: "hatch" }]],
  limited: [["path", { d: "M4 0 V8", class: "hatch" }]],
  suspended: [["path", { d: "M0 4 H8", class: "hatch" }]],
  done: [["circle", { cx: 4, cy: 4, r: 1.6, class: "hatch-dot" }]],
};

export class Timeline {
  #abort = null;
  #timer = null;
  #answer = null;
  #width = 0;

  constructor(go) {
    this.go = go;
    this.bands = byId("bands");
    this.select = byId("span");
    for (const [seconds, name] of SPANS) this.select.append(el("option", { value: String(seconds), selected: seconds === 3600 }, name));
    this.select.addEventListener("change", () => this.#refresh());
    for (const band of BANDS.slice(0, -1)) {
      const swatch = svg("svg", { class: "swatch", "aria-hidden": "true" }, ...bandShapes(band, 0, 34, 14));
      byId("legend").append(el("li", {}, swatch, word(band)));
    }
    byId("legend").after(patterns());
    this.bands.addEventListener("keydown", (event) => this.#keyed(event));
    byId("timeline-table").addEventListener("toggle", () => this.#drawTable());
    new ResizeObserver(() => this.#resized()).observe(this.bands);
  }

  open() {
    this.close();
    this.#refresh();
  }

  close() {
    this.#abort?.abort();
    clearTimeout(this.#timer);
    this.#abort = null;
  }

  get span() {
    return Number(this.select.value);
  }

  // Selects a longer (1) or a shorter (-1) span.
  changeSpan(by) {
    const index = Math.min(SPANS.length - 1, Math.max(0, this.select.selectedIndex + by));
    if (index === this.select.selectedIndex) return;
    this.select.selectedIndex = index;
    this.#refresh();
  }

  async #refresh() {
    this.#abort?.abort();
    clearTimeout(this.#timer);
    const { signal } = (this.#abort = new AbortController());
    try {
      if (!document.hidden) {
        this.#answer = await api.timeline(this.span, signal);
        if (signal.aborted) return;
        this.#draw();
        this.#drawTable();
      }
    } catch (error) {
      if (signal.aborted) return;
      setText(byId("band-details"), `The timeline could not be loaded: ${error.message}`);
    }
    // A pixel of an hour is some four seconds.
    this.#timer = setTimeout(() => this.#refresh(), Math.min(60_000, Math.max(2000, this.span * 2)));
  }

  #resized() {
    if (this.#answer && this.bands.clientWidth !== this.#width && this.#abort) this.#draw();
  }

  #draw() {
    const { rows } = this.#answer;
    const [from, until] = [Date.parse(this.#answer.from), Date.parse(this.#answer.until)];
    this.#width = this.bands.clientWidth;
    const isNarrow = this.#width < 640;
    const width = Math.max(100, this.#width - 28 - (isNarrow ? 0 : 180));
    const scale = (at) => ((at - from) / (until - from)) * width;
    const focused = document.activeElement?.closest?.("#bands rect")?.dataset;
    const axis = ticksOf(from, until, isNarrow ? 4 : 8);
    const names = isNarrow ? [] : [el("span")];
    const list = [el("div", { class: "band axis", "aria-hidden": "true" }, ...names, axisOf(axis, scale, width, until - from))];
    for (const row of rows) {
      const name = nameOf(row, 80) || "unnamed";
      const bands = bandsOf(row, from, until);
      const picture = svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": `States of ${name}` });
      for (const at of axis) picture.append(svg("line", { x1: scale(at), x2: scale(at), y1: 0, y2: HEIGHT, class: "tick" }));
      for (const band of bands) picture.append(...this.#bandOf(row, name, band, scale));
      list.push(el("div", { class: "band", "data-band-row": row.id }, el("a", { href: rowFragment(row.id) }, name), picture));
    }
    if (rows.length === 0) list.push(el("p", { class: "empty" }, "Nothing was observed in this time."));
    this.bands.replaceChildren(...list);
    const all = [...this.bands.querySelectorAll("rect[data-band]")];
    // The focused band, which may begin elsewhere now: the span moves with the time.
    const own = focused ? all.filter((rect) => rect.dataset.rowId === focused.rowId) : [];
    const again = own.findLast((rect) => Number(rect.dataset.from) <= Number(focused.from)) ?? own[0];
    (again ?? all[0])?.setAttribute("tabindex", "0");
    again?.focus();
    // What the pointer is at stays.
    if (!again && byId("band-details").textContent === "" && all.length > 0) {
      setText(byId("band-details"), "Point at a band, or move with the arrow keys, for its details.");
    }
  }

  #bandOf(row, name, { band, from, until }, scale) {
    const details = `${name}: ${word(band)} for ${duration(until - from)}, from ${timeOf(from)} until ${timeOf(until)}`;
    const x = scale(from);
    const [rect, ...others] = bandShapes(band, x, Math.max(2, scale(until) - x), HEIGHT);
    // One tab stop for the whole picture; the arrow keys move between bands.
    const attributes = { tabindex: "-1", role: "link", "aria-label": details, "data-band": band, "data-row-id": row.id, "data-from": from };
    for (const [key, value] of Object.entries(attributes)) rect.setAttribute(key, value);
    const show = () => setText(byId("band-details"), details);
    rect.addEventListener("pointerenter", show);
    rect.addEventListener("focus", show);
    // A finger has no hover: the first tap shows the details, as it gives the focus.
    let isFocusedBefore = false;
    rect.addEventListener("pointerdown", () => (isFocusedBefore = document.activeElement === rect));
    rect.addEventListener("click", (event) => {
      if (event.pointerType === "touch" && !isFocusedBefore) rect.focus();
      else this.go(row.id);
    });
    return [rect, ...others];
  }

  #keyed(event) {
    const rect = event.target.closest?.("rect[data-band]");
    if (!rect) return;
    const rects = (picture) => [...(picture?.querySelectorAll("rect[data-band]") ?? [])];
    const own = rects(rect.parentElement);
    const step = { ArrowLeft: -1, ArrowRight: 1, h: -1 }[event.key];
    const line = { ArrowUp: -1, ArrowDown: 1, k: -1, j: 1 }[event.key];
    let to = null;
    if (event.key === "Enter" || event.key === " ") this.go(rect.dataset.rowId);
    else if (step) to = own[own.indexOf(rect) + step];
    else if (line) {
      const lines = [...this.bands.querySelectorAll("svg")].filter((picture) => rects(picture).length > 0);
      const others = rects(lines[lines.indexOf(rect.parentElement) + line]);
      to = others.findLast((other) => Number(other.getAttribute("x")) <= Number(rect.getAttribute("x"))) ?? others[0];
    } else return;
    event.preventDefault();
    event.stopPropagation();
    if (!to) return;
    rect.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  }

  #drawTable() {
    const place = byId("timeline-table").querySelector("div");
    if (!byId("timeline-table").open || !this.#answer) return place.replaceChildren();
    const [from, until] = [Date.parse(this.#answer.from), Date.parse(this.#answer.until)];
    const head = el("tr", {}, ...["Row", "State", "From", "For"].map((name) => el("th", { scope: "col" }, name)));
    const body = el("tbody");
    for (const row of this.#answer.rows) {
      // Weeks of a busy pane have thousands.
      for (const band of bandsOf(row, from, until).slice(-50)) {
        const cells = [nameOf(row, 80), word(band.band), timeOf(band.from), duration(band.until - band.from)];
        body.append(el("tr", {}, ...cells.map((text) => el("td", {}, text))));
      }
    }
    place.replaceChildren(el("table", {}, el("thead", {}, head), body));
  }
}

const word = (band) => band.replace("_", " ");

const timeOf = (ms) => clockTime(new Date(ms).toISOString());

function bandShapes(band, x, width, height) {
  const rect = svg("rect", { x, y: 1, width, height: height - 2, rx: Math.min(3, width / 2), class: `w-${band}` });
  if (!PATTERNS[band] || width < 5) return [rect];
  return [rect, svg("rect", { x, y: 1, width, height: height - 2, fill: `url(#p-${band})`, "pointer-events": "none" })];
}

function patterns() {
  const all = Object.entries(PATTERNS).map(([band, shapes]) => {
    const attributes = { id: `p-${band}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" };
    return svg("pattern", attributes, ...shapes.map(([name, shape]) => svg(name, shape)));
  });
  return svg("svg", { width: 0, height: 0, "aria-hidden": "true", class: "unseen" }, svg("defs", {}, ...all));
}

function axisOf(ticks, scale, width, span) {
  const picture = svg("svg", { width, height: 18, viewBox: `0 0 ${width} 18` });
  for (const at of ticks) {
    const x = scale(at);
    const anchor = x < 20 ? "start" : x > width - 20 ? "end" : "middle";
    picture.append(svg("text", { x, y: 12, "text-anchor": anchor }, tickTime(at, span)));
  }
  return picture;
}
