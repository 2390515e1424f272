//! The lines that the events of a run have: of panes as they are, of streams joined from their pieces (pure).

use crate::event::{TdEvent, lines_in};
use crate::face::sanitize::push_sanitized;
use crate::face::stream_lines::{LineEnd, StreamLine, StreamLines};

/// Finds the lines of events. A line that arrives in pieces is a line of the event that completes it.
#[derive(Debug, Default)]
pub(super) struct Texts {
    streams: StreamLines,
    /// The memory of a line without control characters.
    shown: String,
}

impl Texts {
    /// Passes the lines of an event to `take`, with their numbers in their pane, if they have some.
    pub fn push(&mut self, event: &TdEvent, take: &mut dyn FnMut(Option<i64>, &str)) {
        match event {
            TdEvent::OutputUpdate {
                first_line, chunk, ..
            } => {
                for (number, text) in (*first_line..=i64::MAX).zip(lines_in(chunk)) {
                    self.line(Some(number), text, take);
                }
            }
            TdEvent::OutputRevised { line, text, .. } if !text.is_empty() => {
                self.line(Some(*line), text, take);
            }
            // A whole message of an agent.
            TdEvent::TokenReceived {
                token,
                pane: Some(_),
                ..
            } => token.lines().for_each(|text| self.line(None, text, take)),
            // What follows does not continue open lines.
            TdEvent::LogGap { .. } => self.finish(take),
            _ => {
                let shown = &mut self.shown;
                let mut emit = |line: StreamLine<'_>| Self::stream_line(shown, line, take);
                self.streams.push_event(event, &mut emit);
            }
        }
    }

    /// Passes the lines that no event has completed.
    pub fn finish(&mut self, take: &mut dyn FnMut(Option<i64>, &str)) {
        let shown = &mut self.shown;
        let mut emit = |line: StreamLine<'_>| Self::stream_line(shown, line, take);
        self.streams.end_all(&mut emit);
    }

    fn line(&mut self, number: Option<i64>, text: &str, take: &mut dyn FnMut(Option<i64>, &str)) {
        self.shown.clear();
        push_sanitized(&mut self.shown, text);
        take(number, &self.shown);
    }

    fn stream_line(
        shown: &mut String,
        mut line: StreamLine<'_>,
        take: &mut dyn FnMut(Option<i64>, &str),
    ) {
        shown.clear();
        line.push(shown, false);
        if !shown.is_empty() || line.end == LineEnd::Terminated && !line.is_continuation {
            take(None, shown);
        }
    }
}
