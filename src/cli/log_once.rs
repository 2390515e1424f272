//! Shows a line of a conversation once: the rows of a screen that repeat it are left out of a search (pure).

use std::collections::{HashMap, VecDeque};

use crate::event::{Envelope, ScreenRow, TdEvent};
use crate::text::{last_bytes, letters};

/// The ids of a pane, or of a command, which has no pane.
pub(super) type StreamKey = (String, String);

/// Returns the pane or the command of an event.
pub(super) fn stream_of(event: &TdEvent) -> StreamKey {
    let pane = event.pane().map_or("", |pane| pane.as_str());
    (event.execution_id().to_owned(), pane.to_owned())
}

/// The time in microseconds for which rows are held back, because the conversation may follow: transcripts are read up to
/// a few seconds after the screen.
const HOLD_MICROS: i64 = 10_000_000;
/// The maximum number of events that are held back.
const HELD_MAX: usize = 10_000;
/// The maximum number of bytes of a pane's conversation that are known. A screen shows less.
const HEARD_BYTES_MAX: usize = 256 << 10;

/// What a search has found, on its way to the reader.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The letters of each pane's conversation, as far as it matches.
    heard: HashMap<StreamKey, String>,
    held: VecDeque<Envelope>,
}

impl Found {
    /// Takes an event of which only what matches is left.
    pub fn push(&mut self, mut envelope: Envelope) {
        let stream = stream_of(&envelope.event);
        if let TdEvent::ScreenSnapshot { rows, .. } = &mut envelope.event {
            if let Some(heard) = self.heard.get(&stream) {
                drop_heard(rows, heard);
            }
            if rows.is_empty() {
                return;
            }
        } else if envelope.event.pane().is_some() && !is_printed(&envelope.event) {
            let said = letters_of(&envelope.event);
            let is_summary = matches!(
                &envelope.event,
                TdEvent::TurnCompleted { .. } | TdEvent::ResponseCompleted { .. }
            );
            let heard = self.heard.get(&stream);
            if is_summary && heard.is_some_and(|heard| heard.contains(&said)) {
                return;
            }
            self.hear(stream, &said);
        }
        self.held.push_back(envelope);
    }

    /// Returns the next event to show. `is_over`: nothing follows that could make rows of a screen needless.
    pub fn pop(&mut self, is_over: bool) -> Option<Envelope> {
        let first = self.held.front()?;
        let last = self.held.back()?;
        let age = last.ts.micros().saturating_sub(first.ts.micros());
        let is_screen = matches!(first.event, TdEvent::ScreenSnapshot { .. });
        let is_due = is_over || !is_screen || age > HOLD_MICROS || self.held.len() > HELD_MAX;
        if is_due { self.held.pop_front() } else { None }
    }

    /// Takes the letters of a conversation, which the rows that are held back may show as well.
    fn hear(&mut self, stream: StreamKey, said: &str) {
        self.held.retain_mut(|held| {
            let is_same_pane = stream_of(&held.event) == stream;
            let TdEvent::ScreenSnapshot { rows, .. } = &mut held.event else {
                return true;
            };
            if is_same_pane {
                drop_heard(rows, said);
            }
            !rows.is_empty()
        });
        let heard = self.heard.entry(stream).or_default();
        heard.push_str(said);
        if heard.len() > 2 * HEARD_BYTES_MAX {
            *heard = last_bytes(heard, HEARD_BYTES_MAX).to_owned();
        }
    }
}

/// Returns true if an event holds lines that a program printed, which are no conversation.
fn is_printed(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::OutputUpdate { .. }
            | TdEvent::OutputRevised { .. }
            | TdEvent::ScreenUpdate { .. }
            | TdEvent::ExecutionOutput { .. }
    )
}

/// Removes the rows whose letters a conversation has. Frames, bullets and the breaks of lines do not count.
fn drop_heard(rows: &mut Vec<ScreenRow>, heard: &str) {
    rows.retain(|row| {
        let row: String = letters(&row.text).collect();
        row.is_empty() || !heard.contains(&row)
    });
}

/// Returns the letters of all texts of an event.
fn letters_of(event: &TdEvent) -> String {
    let mut all = String::new();
    event.any_text(&mut |text| {
        all.extend(letters(text));
        false
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::PaneId;
    use crate::timestamp::Timestamp;

    fn at(seconds: i64, event: TdEvent) -> Envelope {
        Envelope::new(
            Some(seconds.unsigned_abs()),
            Timestamp::from_micros(seconds * 1_000_000),
            event,
        )
    }

    fn screen(seconds: i64, pane: &str, texts: &[&str]) -> Envelope {
        let rows = (0..).zip(texts);
        let rows = rows.map(|(row, text)| ScreenRow {
            row,
            text: (*text).to_owned(),
        });
        at(
            seconds,
            TdEvent::ScreenSnapshot {
                execution_id: "run".into(),
                pane: PaneId::from(pane),
                width: 80,
                height: 24,
                rows: rows.collect(),
            },
        )
    }

    fn said(seconds: i64, text: &str) -> Envelope {
        at(
            seconds,
            TdEvent::TokenReceived {
                execution_id: "run".into(),
                token: text.to_owned(),
                iteration: 1,
                pane: Some(PaneId::from("%1")),
            },
        )
    }

    /// Returns the texts that are shown, and those that are held back.
    fn shown(events: Vec<Envelope>) -> (Vec<String>, Vec<String>) {
        let mut found = Found::default();
        let text = |envelope: Envelope| {
            let mut all = String::new();
            envelope.event.any_text(&mut |text| {
                all.push_str(text);
                false
            });
            all
        };
        let mut now = Vec::new();
        for event in events {
            found.push(event);
            now.extend(std::iter::from_fn(|| found.pop(false)).map(text));
        }
        let later = std::iter::from_fn(|| found.pop(true)).map(text).collect();
        (now, later)
    }

    #[test]
    fn rows_that_a_conversation_says_are_left_out_whichever_comes_first() {
        let answer = "I found three files; all is well.";
        let row = "│ ⏺ I found three files; all";
        let (now, later) = shown(vec![
            screen(1, "%1", &[row, "three files in the footer"]),
            said(2, answer),
            screen(3, "%1", &[row]),
        ]);
        assert_eq!(now, [] as [String; 0]);
        assert_eq!(later, ["three files in the footer", answer]);
    }

    #[test]
    fn rows_that_nobody_says_are_shown_after_a_while_and_other_panes_are_apart() {
        let (now, later) = shown(vec![
            screen(1, "%2", &["all is well"]),
            said(2, "all is well"),
            screen(12, "%2", &["all is well, too"]),
        ]);
        assert_eq!(now, ["all is well", "all is well"]);
        assert_eq!(later, ["all is well, too"]);
    }
}
