// The rules of the page's source: text is only text, nothing is inline, everything is small and there.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

const WEB = new URL("../../src/face/page/web/", import.meta.url);
const names = readdirSync(WEB).filter((name) => /\.(html|css|js)$/.test(name));
const source = new Map(names.map((name) => [name, readFileSync(new URL(name, WEB), "utf8")]));
const modules = [...source].filter(([name]) => name.endsWith(".js"));

test("no module makes elements of text or runs text", () => {
  const forbidden = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser|setHTML|srcdoc|cssText/;
  for (const [name, text] of modules) assert.doesNotMatch(text, forbidden, name);
});

test("the HTML has no inline code and loads only from this server", () => {
  const html = source.get("index.html");
  assert.doesNotMatch(html, /\sstyle=|\son\w+=|<style|javascript:/i);
  for (const [, attributes, body] of html.matchAll(/<script([^>]*)>([^<]*)</g)) {
    assert.match(attributes, /src="web\/\w+\.js"/);
    assert.equal(body, "");
  }
  for (const [, address] of html.matchAll(/(?:src|href)="([^"]*)"/g)) assert.match(address, /^(web\/|#|data:,$)/);
  assert.doesNotMatch(source.get("style.css"), /url\(|@import/);
});

test("all files together are below 150 KB", () => {
  const bytes = [...source.values()].reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  assert.ok(bytes < 150_000, `${bytes} bytes`);
});

test("each module says what it is for, and is used", () => {
  const imported = new Set(["main.js"]);
  for (const [name, text] of modules) {
    assert.match(text, /^\/\/ [A-Z].*[.:,]?/, name);
    for (const [, file] of text.matchAll(/from "\.\/([\w.]+)"/g)) {
      assert.ok(source.has(file), `${name} imports ${file}`);
      imported.add(file);
    }
  }
  assert.deepEqual(modules.map(([name]) => name).filter((name) => !imported.has(name)), []);
});

test("each element that a module asks for by id is in the HTML", () => {
  const html = source.get("index.html");
  for (const [name, text] of modules) {
    for (const [, id] of text.matchAll(/byId\("([\w-]+)"\)/g)) assert.ok(html.includes(`id="${id}"`), `${name}: #${id}`);
  }
});

test("the output has the same background in style.css as in sgr.js", () => {
  const hex = (rgb) => rgb.split(",").map((n) => Number(n).toString(16).padStart(2, "0")).join("");
  const [dark, light] = [...source.get("sgr.js").matchAll(/back: \[([\d, ]+)\]/g)].map(([, rgb]) => hex(rgb));
  const [cssDark, cssLight] = [...source.get("style.css").matchAll(/--output: #(\w+)/g)].map(([, value]) => value);
  assert.equal(dark, cssDark);
  assert.equal(light, cssLight.length === 3 ? [...cssLight].map((c) => c + c).join("") : cssLight);
});
