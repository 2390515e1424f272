//! The throttle of a lossy lane: merges consecutive text and passes all other events at once, in order
//! (pure).
//!
//! `now` is an argument and the deadline a result; the fan-out waits.

use std::time::{Duration, Instant};

use crate::event::{Envelope, TdEvent, line_ends_in};

/// Size at which merged text is released at once: a viewer can redraw a few screens without stutter, and one
/// held event is small compared with a lane.
const MERGED_BYTES_MAX: usize = 64 * 1024;

/// Merges the text of one lane; it holds at most one envelope.
/// Intervals are capped at about one year so that adding one to the present time cannot overflow.
const INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

#[derive(Debug)]
pub(super) struct Throttle {
    interval: Duration,
    held: Option<HeldText>,
    /// Text that arrives before this time is held until this time.
    open_at: Option<Instant>,
}

#[derive(Debug)]
struct HeldText {
    envelope: Envelope,
    due: Instant,
    bytes: usize,
    /// For pane output, the number of the line that the next chunk must begin with.
    next_line: i64,
}

impl Throttle {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval: interval.min(INTERVAL_MAX),
            held: None,
            open_at: None,
        }
    }

    /// Processes the next envelope; adds the envelopes that are released now to `out`.
    pub(super) fn push(&mut self, now: Instant, envelope: &Envelope, out: &mut Vec<Envelope>) {
        if !envelope.event.is_text() {
            self.flush(now, out);
            out.push(envelope.clone());
            return;
        }
        if let Some(held) = &mut self.held {
            if held.merge(envelope) {
                if held.bytes >= MERGED_BYTES_MAX || now >= held.due {
                    self.flush(now, out);
                }
                return;
            }
            self.flush(now, out);
        }
        let bytes = envelope.event.memory_bytes();
        match self.open_at {
            Some(due) if now < due && bytes < MERGED_BYTES_MAX => {
                let next_line = line_after(&envelope.event);
                self.held = Some(HeldText {
                    envelope: envelope.clone(),
                    due,
                    bytes,
                    next_line,
                });
            }
            // The first text after a pause passes at once.
            _ => {
                out.push(envelope.clone());
                self.open_at = Some(now + self.interval);
            }
        }
    }

    /// Returns the time of the next [`Throttle::poll`], if text is held.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.due)
    }

    /// Releases held text that is due.
    pub(super) fn poll(&mut self, now: Instant, out: &mut Vec<Envelope>) {
        if self.deadline().is_some_and(|due| now >= due) {
            self.flush(now, out);
        }
    }

    /// Releases held text before the end and before missed events.
    pub(super) fn flush(&mut self, now: Instant, out: &mut Vec<Envelope>) {
        if let Some(held) = self.held.take() {
            out.push(held.envelope);
            self.open_at = Some(now + self.interval);
        }
    }
}

/// Returns the number of the line after this event's output; 0 for other events.
fn line_after(event: &TdEvent) -> i64 {
    match event {
        TdEvent::OutputUpdate {
            first_line, chunk, ..
        } => first_line + line_ends_in(chunk),
        _ => 0,
    }
}

impl HeldText {
    /// Merges `next` into the held text if it continues it; returns false otherwise.
    fn merge(&mut self, next: &Envelope) -> bool {
        if self.envelope.extra.is_some()
            || next.extra.is_some()
            || self.envelope.event.execution_id() != next.event.execution_id()
        {
            return false;
        }
        let added = match (&mut self.envelope.event, &next.event) {
            (
                TdEvent::TokenReceived {
                    iteration,
                    token,
                    pane: None,
                    ..
                },
                TdEvent::TokenReceived {
                    iteration: next_iteration,
                    token: next_token,
                    pane: None,
                    ..
                },
            ) if iteration == next_iteration => {
                token.push_str(next_token);
                next_token.len()
            }
            (
                TdEvent::ValidationOutput {
                    iteration,
                    line,
                    is_stderr,
                    ..
                },
                TdEvent::ValidationOutput {
                    iteration: next_iteration,
                    line: next_line,
                    is_stderr: next_is_stderr,
                    ..
                },
            ) if iteration == next_iteration && is_stderr == next_is_stderr => {
                line.push('\n');
                line.push_str(next_line);
                next_line.len() + 1
            }
            (
                TdEvent::ExecutionOutput { stream, text, .. },
                TdEvent::ExecutionOutput {
                    stream: next_stream,
                    text: next_text,
                    ..
                },
            ) if stream == next_stream => {
                text.push_str(next_text);
                next_text.len()
            }
            (
                TdEvent::OutputUpdate {
                    pane,
                    first_line: held_line,
                    chunk,
                    reason: None,
                    exit_status: None,
                    styles,
                    ..
                },
                TdEvent::OutputUpdate {
                    pane: next_pane,
                    first_line,
                    chunk: next_chunk,
                    reason: None,
                    exit_status: None,
                    styles: next_styles,
                    ..
                },
            ) if pane == next_pane && *first_line == self.next_line => {
                styles.extend(self.next_line.saturating_sub(*held_line), next_styles);
                chunk.push_str(next_chunk);
                self.next_line += line_ends_in(next_chunk);
                next_chunk.len()
            }
            (
                TdEvent::OutputRevised {
                    pane,
                    line,
                    text,
                    styles,
                    ..
                },
                TdEvent::OutputRevised {
                    pane: next_pane,
                    line: next_line,
                    text: next_text,
                    styles: next_styles,
                    ..
                },
            ) if pane == next_pane && line == next_line => {
                text.clone_from(next_text);
                styles.clone_from(next_styles);
                0
            }
            (
                TdEvent::ScreenUpdate {
                    pane,
                    width,
                    height,
                    cursor,
                    rows,
                    ..
                },
                TdEvent::ScreenUpdate {
                    pane: next_pane,
                    width: next_width,
                    height: next_height,
                    cursor: next_cursor,
                    rows: next_rows,
                    ..
                },
            ) if pane == next_pane && width == next_width && height == next_height => {
                *cursor = *next_cursor;
                for row in next_rows {
                    match rows.iter_mut().find(|known| known.row == row.row) {
                        Some(known) => known.text.clone_from(&row.text),
                        None => rows.push(row.clone()),
                    }
                }
                rows.sort_by_key(|row| row.row);
                0
            }
            _ => return false,
        };
        self.bytes += added;
        self.envelope.seq = next.seq.or(self.envelope.seq);
        self.envelope.ts = next.ts;
        self.envelope.n += next.n;
        true
    }
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
