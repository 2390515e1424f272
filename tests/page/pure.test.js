// The small pure modules: text, places, token, events, SGR, words, keys, search, timeline, screen.

import assert from "node:assert/strict";
import test from "node:test";
import { Backoff } from "../../src/face/page/web/backoff.js";
import { filtered } from "../../src/face/page/web/history_view.js";
import { actionOf } from "../../src/face/page/web/keys.js";
import { fragmentOf, parseFragment } from "../../src/face/page/web/places.js";
import { spansOfRow } from "../../src/face/page/web/screen_cells.js";
import { countInWords, highlightPattern, startIndex } from "../../src/face/page/web/search.js";
import { appearance, contrast, parsed, readable } from "../../src/face/page/web/sgr.js";
import { EventParser } from "../../src/face/page/web/sse.js";
import { cut, oneLine, safeLink, visible, visibleLines } from "../../src/face/page/web/text.js";
import { age, clockTime, duration } from "../../src/face/page/web/time.js";
import { bandsOf, ticksOf } from "../../src/face/page/web/timeline_model.js";
import { tokenOf } from "../../src/face/page/web/token.js";
import { lastText, stateInWords, titleOf } from "../../src/face/page/web/words.js";

const TOKEN = "0123456789abcdef0123456789abcdef";

test("control and bidi characters are visible", () => {
  assert.equal(visible("a\u001b[31m\u202eb\u200bc\u0007"), "a^[[31m<202e>b<200b>c^G");
  assert.equal(visible("plain äöü 日本 🙂"), "plain äöü 日本 🙂");
  assert.equal(visibleLines("a\nb\r"), "a\nb^M");
  assert.equal(oneLine(" a\n b\u202e "), "a b<202e>");
});

test("long texts are cut between characters", () => {
  assert.equal(cut("abc", 3), "abc");
  assert.equal(cut("ab🙂d", 3), "ab…");
  assert.equal(oneLine("A".repeat(100_000), 300).length, 301);
});

test("only web and mail addresses are links", () => {
  assert.equal(safeLink("https://a.example/x"), "https://a.example/x");
  assert.equal(safeLink("mailto:a@b.example"), "mailto:a@b.example");
  for (const bad of ["javascript:alert(1)", " JaVaScRiPt:x", "data:text/html,x", "file:///etc/passwd", "/relative", "", undefined]) assert.equal(safeLink(bad), null);
});

test("tokens are read from links and alone", () => {
  assert.equal(tokenOf(` http://127.0.0.1:7878/#token=${TOKEN}\n`), TOKEN);
  assert.equal(tokenOf(`http://h/#token=${TOKEN}&to=/history`), TOKEN);
  assert.equal(tokenOf(TOKEN), TOKEN);
  assert.equal(tokenOf("#token=chosen-by.the_user~1"), "chosen-by.the_user~1");
  for (const bad of ["", "hello", `${TOKEN} x`, `#token=${TOKEN}/`, "x".repeat(513)]) assert.equal(tokenOf(bad), null);
});

test("places survive the address", () => {
  const places = [{ kind: "board" }, { kind: "timeline" }, { kind: "history" }, { kind: "row", id: "a/b@1:%3 ?#", view: "logs", line: "12.3" }, { kind: "row", id: "x", view: "output", line: null }];
  for (const place of places) assert.deepEqual(parseFragment(fragmentOf(place)), { token: null, place });
  assert.deepEqual(parseFragment(`#token=${TOKEN}`), { token: TOKEN, place: { kind: "board" } });
  const inner = fragmentOf(places[3]).slice(1);
  assert.deepEqual(parseFragment(`#token=${TOKEN}&to=${encodeURIComponent(inner)}`), { token: TOKEN, place: places[3] });
  assert.deepEqual(parseFragment("#/row/%E0%A4%A/bad/1x").place, { kind: "row", id: "%E0%A4%A", view: "output", line: null });
  assert.deepEqual(parseFragment("#/nowhere").place, { kind: "board" });
});

test("events are parsed from pieces of any size", () => {
  const text = ": hi\n\nid: 5\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nid: 6\n\nevent: e\ndata: y\n\n";
  for (const size of [1, 2, 7, 1000]) {
    const parser = new EventParser();
    const events = [];
    for (let i = 0; i < text.length; i += size) events.push(...parser.feed(text.slice(i, i + size)));
    assert.deepEqual(events, [{ id: "5", type: "message", data: "{\"a\":\n1}" }, { id: "5", type: "message", data: "x" }, { id: "6", type: "e", data: "y" }]);
  }
});

test("SGR parameters are parsed", () => {
  assert.deepEqual(parsed("1;38;5;208"), { bold: true, fore: 208 });
  assert.deepEqual(parsed("38;2;1;2;3;48;5;7"), { fore: [1, 2, 3], back: 7 });
  assert.deepEqual(parsed("38:2::1:2:3"), { fore: [1, 2, 3] });
  assert.deepEqual(parsed("4:3;58;5;1;97"), { underline: true, fore: 15 });
  assert.deepEqual(parsed("31;0"), {});
  assert.deepEqual(parsed(""), {});
});

test("colours are readable in both themes", () => {
  const numbers = (css) => css.match(/\d+/g).map(Number);
  for (const sgr of ["38;2;255;255;255", "38;2;0;0;0", "30", "97", "2", "2;90", "38;5;226", "30;41", "7", "31;41"]) {
    for (const [theme, ground] of [["dark", [17, 20, 26]], ["light", [255, 255, 255]]]) {
      const { fore, back } = appearance(sgr)[theme];
      assert.ok(contrast(numbers(fore), back ? numbers(back) : ground) > 4.4, `${sgr} in ${theme}`);
    }
  }
  assert.deepEqual(appearance("1;4"), { classes: ["bold", "underline"], dark: null, light: null });
  assert.deepEqual(readable([255, 255, 255], [0, 0, 0]), [255, 255, 255]);
});

test("rows are told in words", () => {
  const row = { state: "failed", exit_status: 101, attention: "needs_you", last_line: "error" };
  assert.equal(stateInWords(row), "failed 101");
  assert.equal(stateInWords({ state: "not_observed" }), "not observed");
  assert.equal(stateInWords({ state: "exited", ended: true, exit_status: 0 }), "exited 0");
  assert.equal(stateInWords({ state: "exited", ended: true, exit_status: null, cut_off: true }), "cut off");
  assert.equal(lastText({ state: "working", last_line: "Edit", progress: 42 }), "42%: Edit");
  assert.equal(lastText({ state: "working", last_line: "", background: { shells: 1, agents: 2 } }), "1 shell, 2 sub-agents still running");
  assert.equal(titleOf([row, row]), "(2) td-observe");
  assert.equal(titleOf([]), "td-observe");
});

test("times and durations", () => {
  const now = Date.parse("2026-11-29T12:00:00Z");
  assert.deepEqual(["2026-11-29T11:59:30Z", "2026-11-29T11:00:01Z", "2026-11-28T12:00:00Z", "2026-11-29T13:00:00Z"].map((ts) => age(ts, now)), ["30s", "59m", "1d", "0s"]);
  assert.match(clockTime("2026-11-29T12:00:07.5Z", now), /^\d\d:\d\d:07$/);
  assert.match(clockTime("2026-11-20T12:00:07.5Z", now), /^11-20 \d\d:\d\d:07$/);
  assert.deepEqual([59_000, 61_000, 7200_000, 200_000_000].map(duration), ["59 s", "1 min 1 s", "2 h", "2 d 7 h"]);
});

test("bands end with the next one, and nothing follows an end", () => {
  const at = (s) => new Date(s * 1000).toISOString();
  const row = { bands: [[at(0), "working"], [at(50), "waiting"], [at(70), "ended"]] };
  assert.deepEqual(bandsOf(row, 10_000, 100_000), [{ band: "working", from: 10_000, until: 50_000 }, { band: "waiting", from: 50_000, until: 70_000 }]);
  const ticks = ticksOf(0, 3600_000, 8);
  assert.ok(ticks.length >= 4 && ticks.length <= 8 && ticks.every((tick) => tick % 600_000 === 0));
});

test("rows of a screen are split by style and cursor, in code points", () => {
  assert.deepEqual(spansOfRow("🙂abc", [{ start: 1, end: 3, sgr: "31" }]), [["🙂", "", false], ["ab", "31", false], ["c", "", false]]);
  assert.deepEqual(spansOfRow("ab", [], 3, 80), [["ab ", "", false], [" ", "", true]]);
  assert.deepEqual(spansOfRow("", []), []);
});

test("a search begins near the reader, and counts all matches", () => {
  const matches = [{ seq: 2, nth: 0 }, { seq: 5, nth: 1 }, { seq: 9, nth: 0 }];
  assert.equal(startIndex(matches, null), 2);
  assert.equal(startIndex(matches, { seq: 6, nth: 0 }), 1);
  assert.equal(startIndex(matches, { seq: 1, nth: 0 }), 0);
  assert.equal(countInWords(2, { count: 700, matches, is_complete: true }), "700 of 700");
  assert.equal(countInWords(0, { count: 0, matches: [] }), "no match");
  assert.equal(highlightPattern("!x"), null);
  assert.ok("ABC".match(highlightPattern("abc")) && !"abc".match(highlightPattern("Abc")));
  assert.ok("a(b".match(highlightPattern("a(b")));
});

test("keys leave fields and the browser's own keys alone", () => {
  assert.equal(actionOf({ key: "j" }, "page"), "down");
  assert.equal(actionOf({ key: "j" }, "text"), null);
  assert.equal(actionOf({ key: "Escape" }, "text"), "leave");
  assert.equal(actionOf({ key: "Enter" }, "control"), null);
  assert.equal(actionOf({ key: "d", ctrlKey: true }, "page"), "half-down");
  assert.equal(actionOf({ key: "r", ctrlKey: true }, "page"), null);
  assert.equal(actionOf({ key: "n", metaKey: true }, "page"), null);
  assert.equal(actionOf({ key: "Tab" }, "page"), null);
});

test("attempts to connect are 0.2 s to 5 s apart", () => {
  const backoff = new Backoff();
  assert.deepEqual(Array.from({ length: 7 }, () => backoff.next()), [200, 400, 800, 1600, 3200, 5000, 5000]);
  backoff.reset();
  assert.equal(backoff.next(), 200);
});

test("the history is filtered by name, label and agent", () => {
  const rows = [{ name: "Build", label: null, agent: "shell" }, { name: "x", label: "fix/login", agent: "claude" }];
  assert.deepEqual(["", " build", "LOGIN", "claude", "none"].map((text) => filtered(rows, text).length), [2, 1, 1, 1, 0]);
});
