//! Selects the lines around matches: `log --grep REGEX -C LINES` (pure).
//!
//! The lines around a match come from the same pane or command, not from others that printed meanwhile.

use std::collections::{HashMap, VecDeque};

use regex::Regex;

use crate::event::{Envelope, TdEvent, lines_in};

/// Maximum number of panes and commands whose lines are held. Beyond it, the one with the oldest output is
/// dropped.
const STREAMS_MAX: usize = 1024;

/// Splits an event into one event for each line.
pub(super) fn lines_of(envelope: &Envelope) -> Vec<Envelope> {
    match &envelope.event {
        TdEvent::OutputUpdate {
            first_line, chunk, ..
        } if lines_in(chunk).nth(1).is_some() => (0_u32..)
            .zip(*first_line..)
            .zip(chunk.split_inclusive('\n'))
            .map(|((at, number), line)| {
                let mut part = envelope.clone();
                if let TdEvent::OutputUpdate {
                    first_line,
                    chunk,
                    styles,
                    ..
                } = &mut part.event
                {
                    *first_line = number;
                    line.clone_into(chunk);
                    styles.move_lines(|line| (line == at).then_some(0));
                }
                part
            })
            .collect(),
        TdEvent::ExecutionOutput { text, .. } => text
            .split_inclusive('\n')
            .map(|line| {
                let mut part = envelope.clone();
                if let TdEvent::ExecutionOutput { text, .. } = &mut part.event {
                    line.clone_into(text);
                }
                part
            })
            .collect(),
        _ => vec![envelope.clone()],
    }
}

/// Returns true if a text of an event matches.
pub(super) fn is_match(envelope: &Envelope, regex: &Regex) -> bool {
    envelope.event.any_text(&mut |text| {
        // `$` must match before a trailing line end.
        regex.is_match(text.strip_suffix('\n').unwrap_or(text))
    })
}

/// The ids of a pane, or of a command, which has no pane.
pub(super) type StreamKey = (String, String);

/// Returns the pane or the command of an event.
pub(super) fn stream_of(event: &TdEvent) -> StreamKey {
    let pane = event.pane().map_or("", |pane| pane.as_str());
    (event.execution_id().to_owned(), pane.to_owned())
}

/// The next thing to show.
#[derive(Debug, PartialEq)]
pub(super) enum Selected<T> {
    /// Lines are omitted here.
    Gap,
    Item(T),
}

/// Selects matching items and the items around them.
#[derive(Debug)]
pub(super) struct Surroundings<T> {
    lines: usize,
    streams: HashMap<StreamKey, Stream<T>>,
    count: u64,
    has_shown: bool,
}

#[derive(Debug)]
struct Stream<T> {
    before: VecDeque<T>,
    /// The number of items to show after the last match.
    after: usize,
    /// Earlier items than those in `before` were dropped.
    has_gap: bool,
    touched: u64,
}

impl<T> Surroundings<T> {
    /// Selects up to `lines` items before and after each match.
    pub fn new(lines: usize) -> Self {
        Self {
            lines,
            streams: HashMap::new(),
            count: 0,
            has_shown: false,
        }
    }

    /// Adds the next item of a pane or a command, and returns the items to show now.
    pub fn push(&mut self, key: StreamKey, item: T, is_match: bool) -> Vec<Selected<T>> {
        self.count += 1;
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&key) {
            let oldest = self.streams.iter().min_by_key(|(_, stream)| stream.touched);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.streams.remove(&oldest);
            }
        }
        let stream = self.streams.entry(key).or_insert_with(|| Stream {
            before: VecDeque::new(),
            after: 0,
            has_gap: true,
            touched: 0,
        });
        stream.touched = self.count;
        if is_match {
            let mut shown = Vec::new();
            if std::mem::replace(&mut stream.has_gap, false) && self.has_shown && self.lines > 0 {
                shown.push(Selected::Gap);
            }
            shown.extend(stream.before.drain(..).map(Selected::Item));
            shown.push(Selected::Item(item));
            stream.after = self.lines;
            self.has_shown = true;
            return shown;
        }
        if stream.after > 0 {
            stream.after -= 1;
            return vec![Selected::Item(item)];
        }
        stream.before.push_back(item);
        if stream.before.len() > self.lines {
            stream.before.pop_front();
            stream.has_gap = true;
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Styles;
    use crate::timestamp::Timestamp;

    fn shown(lines: usize, texts: &[(&str, &str)]) -> String {
        let mut around = Surroundings::new(lines);
        let mut out = Vec::new();
        for (pane, text) in texts {
            let event = TdEvent::OutputRevised {
                execution_id: "x".into(),
                pane: (*pane).into(),
                line: 1,
                text: (*text).into(),
                styles: Styles::default(),
            };
            out.extend(around.push(stream_of(&event), *text, text.contains('!')));
        }
        let out = out.iter().map(|shown| match shown {
            Selected::Gap => "--",
            Selected::Item(text) => text,
        });
        out.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_lines_around_a_match_are_those_of_its_pane() {
        let texts = [
            ("%1", "a"),
            ("%1", "b"),
            ("%2", "other"),
            ("%1", "c!"),
            ("%1", "d"),
            ("%2", "more"),
            ("%1", "e"),
            ("%1", "f"),
            ("%1", "g!"),
            ("%1", "h!"),
            ("%2", "x!"),
        ];
        assert_eq!(shown(0, &texts), "c! g! h! x!");
        assert_eq!(shown(1, &texts), "b c! d -- f g! h! -- more x!");
        assert_eq!(shown(9, &texts), "a b c! d e f g! h! -- other more x!");
    }

    #[test]
    fn an_event_is_divided_into_its_lines() {
        let event = TdEvent::OutputUpdate {
            execution_id: "x".into(),
            pane: "%1".into(),
            first_line: 7,
            chunk: "one\ntwo\n".into(),
            is_complete: false,
            reason: None,
            exit_status: None,
            styles: Styles::default(),
        };
        let envelope = Envelope::new(Some(1), Timestamp::default(), event);
        let parts: Vec<(i64, String)> = lines_of(&envelope)
            .into_iter()
            .map(|part| match part.event {
                TdEvent::OutputUpdate {
                    first_line, chunk, ..
                } => (first_line, chunk),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(parts, [(7, "one\n".to_owned()), (8, "two\n".to_owned())]);
    }
}
