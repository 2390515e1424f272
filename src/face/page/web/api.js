// Requests to the server, with the token.

import { noteServerTime } from "./time.js";
import { storedToken } from "./token.js";

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let whenRefused = () => {};

// Sets what happens when the server does not accept the token.
export function onRefused(callback) {
  whenRefused = callback;
}

// Sends a request and returns the response if its status is a success or one of `also`.
export async function send(path, { method = "GET", headers = {}, body, signal, also = [] } = {}) {
  const all = { Authorization: `Bearer ${storedToken() ?? ""}`, ...headers };
  if (body !== undefined) all["Content-Type"] = "application/json";
  const options = { method, headers: all, body: body === undefined ? undefined : JSON.stringify(body) };
  // Relative: a proxy may serve the page below a path of its own.
  const response = await fetch(`.${path}`, { ...options, signal, cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" });
  noteServerTime(response.headers.get("Date"));
  if (response.ok || also.includes(response.status)) return response;
  const problem = await response.json().catch(() => ({}));
  if (response.status === 401) whenRefused();
  throw new ApiError(response.status, problem.detail ?? problem.title ?? `the server answered with ${response.status}`);
}

async function getJson(path, options) {
  return (await send(path, options)).json();
}

const query = (parts) => new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== null && value !== undefined));
const paneOf = (row, what) => `/api/v1/panes/${encodeURIComponent(row.pane)}/${what}?${query({ socket: row.server })}`;

export const about = () => getJson("/page/about");
export const lines = (row, view, place = {}, signal) => getJson(`/page/lines?${query({ row, view, ...place })}`, { signal });
export const livePath = (row, view, after) => `/page/live?${query({ row, view, after })}`;
export const search = (row, view, q, signal) => getJson(`/page/search?${query({ row, view, q })}`, { signal });
export const timeline = (span, signal) => getJson(`/page/timeline?${query({ span })}`, { signal });
export const history = (signal) => getJson("/page/history", { signal });
export const screen = (row, isViewed, signal) => getJson(paneOf(row, "screen") + (isViewed ? "&viewed=true" : ""), { signal });
export const input = (row, body) => send(paneOf(row, "input"), { method: "POST", body });

export function dismiss(row, dismissed) {
  return send(`/api/v1/rows/${encodeURIComponent(row.id)}/dismiss`, { method: "POST", body: { dismissed } });
}

// The board, or null if it has not changed since `etag`.
export async function board(etag, waitSeconds, signal) {
  const headers = etag ? { "If-None-Match": etag } : {};
  const response = await send(`/api/v1/board?${query({ wait: waitSeconds })}`, { headers, signal, also: [304] });
  if (response.status === 304) return null;
  return { rows: await response.json(), etag: response.headers.get("ETag") };
}
