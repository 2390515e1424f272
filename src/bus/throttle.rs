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
                    links,
                    ..
                },
                TdEvent::OutputUpdate {
                    pane: next_pane,
                    first_line,
                    chunk: next_chunk,
                    reason: None,
                    exit_status: None,
                    styles: next_styles,
                    links: next_links,
                    ..
                },
            ) if pane == next_pane && *first_line == self.next_line => {
                links.extend(next_links);
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
mod tests {
    mod throttle {
        //! Tests of the throttle.

        use super::super::*;
        use crate::event::{Cursor, Link, Links, ScreenRow, Style, Styles};
        use crate::timestamp::Timestamp;
        use proptest::prelude::*;

        const INTERVAL: Duration = Duration::from_millis(100);

        fn token(seq: u64, iteration: u32, token: &str) -> Envelope {
            let event = TdEvent::TokenReceived {
                execution_id: "a".into(),
                iteration,
                token: token.into(),
                pane: None,
            };
            Envelope::new(Some(seq), Timestamp::from_micros(seq as i64), event)
        }

        /// Styles of the first character of each line.
        fn styled(sgrs: &[&str]) -> Styles {
            let style = |(line, sgr): (u32, &&str)| Style::new(line, 0, 1, sgr);
            Styles::new((0..).zip(sgrs).map(style).collect())
        }

        /// A link of the first character of the line with this number.
        fn linked(line: i64) -> Links {
            Links::new(vec![Link {
                line,
                start: 0,
                end: 1,
                url: format!("https://x/{line}"),
            }])
        }

        /// Returns an event of the given kind, whose text contains its number.
        fn envelope(seq: u64, kind: u8, next_line: &mut i64) -> Envelope {
            let (execution_id, text) = ("a".into(), format!("<{seq}>"));
            let event = match kind {
                0..=3 => TdEvent::TokenReceived {
                    execution_id,
                    iteration: 1,
                    token: text,
                    pane: None,
                },
                4 => TdEvent::TokenReceived {
                    execution_id,
                    iteration: 2,
                    token: text,
                    pane: None,
                },
                5 => TdEvent::ValidationOutput {
                    execution_id,
                    iteration: 1,
                    line: text,
                    is_stderr: false,
                },
                6 => TdEvent::ExecutionOutput {
                    execution_id,
                    stream: "stdout".into(),
                    text,
                },
                7..=9 => {
                    let first_line = *next_line;
                    // Some lines are missing.
                    *next_line += if kind == 9 { 3 } else { 1 };
                    TdEvent::OutputUpdate {
                        execution_id,
                        pane: "%1".into(),
                        first_line,
                        chunk: text + "\n",
                        is_complete: false,
                        reason: None,
                        exit_status: None,
                        styles: styled(&["31"]),
                        links: linked(first_line),
                    }
                }
                _ => TdEvent::Warning {
                    execution_id,
                    context: text,
                    message: String::new(),
                },
            };
            Envelope::new(Some(seq), Timestamp::from_micros(seq as i64), event)
        }

        fn text(envelope: &Envelope) -> &str {
            match &envelope.event {
                TdEvent::TokenReceived { token: text, .. }
                | TdEvent::ValidationOutput { line: text, .. }
                | TdEvent::ExecutionOutput { text, .. }
                | TdEvent::OutputUpdate { chunk: text, .. }
                | TdEvent::Warning { context: text, .. } => text,
                other => panic!("unexpected event: {other:?}"),
            }
        }

        proptest! {
            /// All text is released once, in order, in time, and counted.
            #[test]
            fn only_the_boundaries_of_text_change(
                steps in prop::collection::vec((0_u8..11, 0_u64..80), 1..200),
                polls in any::<bool>(),
            ) {
                let start = Instant::now();
                let (mut now, mut next_line) = (start, 1);
                let mut throttle = Throttle::new(INTERVAL);
                let (mut out, mut all) = (Vec::new(), String::new());
                let mut oldest_held = None;
                for (seq, (kind, wait)) in (1..).zip(&steps) {
                    now += Duration::from_millis(*wait);
                    if polls {
                        throttle.poll(now, &mut out);
                    }
                    if throttle.deadline().is_none() {
                        oldest_held = None;
                    }
                    let envelope = envelope(seq, *kind, &mut next_line);
                    all += text(&envelope);
                    let before = out.len();
                    let is_lifecycle = !envelope.event.is_text();
                    throttle.push(now, &envelope, &mut out);
                    prop_assert!(!is_lifecycle || throttle.deadline().is_none());
                    match throttle.deadline() {
                        None => oldest_held = None,
                        Some(due) => {
                            if out.len() > before || oldest_held.is_none() {
                                oldest_held = Some(now);
                            }
                            prop_assert!(due > now && due <= oldest_held.unwrap() + INTERVAL);
                        }
                    }
                }
                throttle.flush(now, &mut out);
                prop_assert!(throttle.deadline().is_none());
                let got: String = out.iter().map(text).collect();
                prop_assert_eq!(got.replace('\n', ""), all.replace('\n', ""));
                prop_assert_eq!(out.iter().map(|envelope| envelope.n).sum::<u64>(), steps.len() as u64);
                // Each line keeps its colour and its link.
                for envelope in &out {
                    if let TdEvent::OutputUpdate { first_line, chunk, styles, links, .. } = &envelope.event {
                        let lines = u32::try_from(line_ends_in(chunk)).unwrap();
                        let styled: Vec<u32> = styles.as_slice().iter().map(|style| style.line).collect();
                        prop_assert_eq!(styled, (0..lines).collect::<Vec<_>>());
                        let linked: Vec<i64> = links.as_slice().iter().map(|link| link.line).collect();
                        prop_assert_eq!(linked, (*first_line..first_line + i64::from(lines)).collect::<Vec<_>>());
                    }
                }
                // An envelope has the number of the last event that it represents.
                let mut seq = 0;
                for envelope in &out {
                    seq += envelope.n;
                    prop_assert_eq!(envelope.seq, Some(seq));
                    prop_assert_eq!(envelope.ts.micros(), seq as i64);
                }
            }
        }

        #[test]
        fn the_first_text_passes_at_once_and_the_rest_is_merged() {
            let now = Instant::now();
            let mut throttle = Throttle::new(INTERVAL);
            let mut out = Vec::new();
            throttle.push(now, &token(1, 1, "I'll"), &mut out);
            assert_eq!(out.len(), 1);
            throttle.push(now, &token(2, 1, " do"), &mut out);
            throttle.push(now, &token(3, 1, " it"), &mut out);
            assert_eq!((out.len(), throttle.deadline()), (1, Some(now + INTERVAL)));
            throttle.poll(now + INTERVAL / 2, &mut out);
            assert_eq!(out.len(), 1);
            throttle.poll(now + INTERVAL, &mut out);
            assert_eq!(
                (text(&out[1]), out[1].n, out[1].seq),
                (" do it", 2, Some(3))
            );
            // After a pause, text passes at once again.
            throttle.push(now + INTERVAL * 3, &token(4, 1, "."), &mut out);
            assert_eq!(out.len(), 3);
        }

        #[test]
        fn large_text_is_released_early() {
            let now = Instant::now();
            let mut throttle = Throttle::new(INTERVAL);
            let mut out = Vec::new();
            let large = "x".repeat(1024);
            for seq in 1..=1000 {
                throttle.push(now, &token(seq, 1, &large), &mut out);
                assert!(
                    throttle
                        .held
                        .as_ref()
                        .is_none_or(|held| held.bytes < MERGED_BYTES_MAX)
                );
            }
            assert!(out.len() > 10);
        }

        #[test]
        fn the_last_revision_of_a_line_and_of_a_screen_wins() {
            let now = Instant::now();
            let mut throttle = Throttle::new(INTERVAL);
            let mut out = Vec::new();
            throttle.push(now, &token(1, 1, "x"), &mut out);
            let revised = |line: i64, text: &str| TdEvent::OutputRevised {
                execution_id: "a".into(),
                pane: "%1".into(),
                line,
                text: text.into(),
                styles: Styles::default(),
            };
            let rows = |rows: &[(u32, &str)], x| TdEvent::ScreenUpdate {
                execution_id: "a".into(),
                pane: "%1".into(),
                width: 80,
                height: 24,
                cursor: Cursor { x, y: 0 },
                rows: rows
                    .iter()
                    .map(|&(row, text)| ScreenRow {
                        row,
                        text: text.into(),
                    })
                    .collect(),
            };
            let events = [
                revised(3, "10 %"),
                revised(3, "20 %"),
                revised(4, "other"),
                rows(&[(5, "a"), (7, "b")], 1),
                rows(&[(7, "c"), (6, "d")], 2),
            ];
            for event in &events {
                // A live event has no number.
                throttle.push(
                    now,
                    &Envelope::new(None, Timestamp::default(), event.clone()),
                    &mut out,
                );
            }
            throttle.flush(now, &mut out);
            let got: Vec<_> = out[1..]
                .iter()
                .map(|envelope| (envelope.n, envelope.seq, envelope.event.clone()))
                .collect();
            let expected = [
                (2, None, revised(3, "20 %")),
                (1, None, revised(4, "other")),
                (2, None, rows(&[(5, "a"), (6, "d"), (7, "c")], 2)),
            ];
            assert_eq!(got, expected);
        }

        #[test]
        fn the_end_of_output_is_never_merged() {
            let now = Instant::now();
            let mut throttle = Throttle::new(INTERVAL);
            let mut out = Vec::new();
            let mut line = 1;
            for seq in 1..=3 {
                throttle.push(now, &envelope(seq, 7, &mut line), &mut out);
            }
            let mut end = envelope(4, 7, &mut line);
            if let TdEvent::OutputUpdate { is_complete, .. } = &mut end.event {
                *is_complete = true;
            }
            throttle.push(now, &end, &mut out);
            let counts = out.iter().map(|envelope| envelope.n);
            assert_eq!(counts.collect::<Vec<_>>(), [1, 2, 1]);
            assert_eq!(out[2], end);
        }
    }
}
