// A stream of server-sent events over fetch: `EventSource` cannot send the token.

import { send, ApiError } from "./api.js";
import { Backoff, pause } from "./backoff.js";
import * as connection from "./connection.js";
import { EventParser } from "./sse.js";

// The server sends a comment every 15 s. A connection that is silent for longer is dead:
// a phone that has changed its network waits for minutes otherwise.
const SILENCE_MS = 40_000;

// Reads a stream until the signal aborts, and continues after each break unless `isOver()`. `onMessage` gets the parsed
// data and the id, with which a later stream continues.
export async function follow(path, onMessage, signal, isOver = () => false) {
  const backoff = new Backoff();
  let cursor = null;
  while (!signal.aborted) {
    const silence = new AbortController();
    let timer;
    const hear = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
    };
    try {
      hear();
      const headers = { Accept: "text/event-stream", ...(cursor ? { "Last-Event-ID": cursor } : {}) };
      const response = await send(path, { headers, signal: AbortSignal.any([signal, silence.signal]) });
      connection.isWhole("stream");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new EventParser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        hear();
        for (const event of parser.feed(value)) {
          backoff.reset();
          if (signal.aborted) return;
          cursor = event.id ?? cursor;
          onMessage(JSON.parse(event.data), cursor);
        }
      }
    } catch (error) {
      if (signal.aborted) break;
      if (error instanceof ApiError && error.status === 401) break;
    } finally {
      clearTimeout(timer);
    }
    if (signal.aborted || isOver()) break;
    connection.isBroken("stream");
    await pause(backoff.next(), signal);
  }
  connection.forget("stream");
}
