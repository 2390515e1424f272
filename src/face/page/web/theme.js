// The theme: that of the system, or the one that was chosen with the switch.

import { byId } from "./dom.js";

const KEY = "td-theme";
const light = matchMedia("(prefers-color-scheme: light)");

function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function apply() {
  const theme = chosen();
  document.documentElement.dataset.theme = theme ?? (light.matches ? "light" : "dark");
  byId("theme").setAttribute("aria-label", `Theme: ${theme ?? "as the system"}`);
  byId("theme").title = `Theme: ${theme ?? "as the system"}`;
}

export function setUpTheme() {
  light.addEventListener("change", apply);
  byId("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme;
    const next = now === "dark" ? "light" : "dark";
    const system = light.matches ? "light" : "dark";
    try {
      // The choice of what the system has is no choice: the page follows the system again.
      if (next === system) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, next);
    } catch {
      // Without storage the theme is that of the system.
    }
    apply();
  });
  apply();
}
