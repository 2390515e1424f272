//! What lines of a history read at last, so that each is shown once, in its place (pure).
//!
//! It takes two passes: [`LastRevisions::note`] takes in the revisions, [`LastRevisions::apply`] then changes the
//! events as they are shown. A line that was rewritten after it had settled, as a row of a progress
//! display, reads as it did at last, and is left out where its program took it away. A line that only
//! vanished stays: it was printed, and its row erased.

use std::collections::BTreeMap;

use crate::event::{Envelope, PaneId, Style, Styles, TdEvent, lines_in};

/// Text that is kept, and what a line costs beside it. More lines read as they did first, and come
/// again as they change: this is some 300,000 of them.
const BYTES_MAX: usize = 64 << 20;
const LINE_BYTES: usize = 128;

/// Lines that were revised, of each execution and pane.
#[derive(Debug, Default)]
pub(crate) struct LastRevisions {
    panes: BTreeMap<(String, PaneId), BTreeMap<i64, Final>>,
    bytes: usize,
}

/// What was last said of a line.
#[derive(Debug, Default)]
struct Final {
    /// The number of the last event.
    seq: u64,
    /// That of the last with text; 0 for none.
    text_seq: u64,
    text: String,
    styles: Styles,
    /// The line has been shown: as it reads at last.
    is_shown: bool,
}

/// How an event is shown.
#[derive(Debug, PartialEq)]
pub(crate) enum Applied {
    Unchanged,
    /// These in its place; none: not at all.
    Replaced(Vec<Envelope>),
}

impl LastRevisions {
    /// Takes in an event of the history; only revisions matter.
    pub fn note(&mut self, envelope: &Envelope) {
        let TdEvent::OutputRevised {
            execution_id,
            pane,
            line,
            text,
            styles,
        } = &envelope.event
        else {
            return;
        };
        // Lines of older logs without numbers are shown as they come.
        let Some(seq) = envelope.seq else {
            return;
        };
        if self.bytes > BYTES_MAX {
            return;
        }
        let key = (execution_id.as_str().to_owned(), pane.clone());
        let known = self.panes.entry(key).or_default().entry(*line);
        let known = known.or_insert_with(|| {
            self.bytes += LINE_BYTES;
            Final::default()
        });
        known.seq = seq;
        if !text.is_empty() {
            self.bytes += text.len();
            self.bytes -= known.text.len();
            known.text_seq = seq;
            known.text.clone_from(text);
            known.styles.clone_from(styles);
        }
    }

    /// How the next event of the history is shown, which are the same that were noted.
    pub fn apply(&mut self, envelope: &Envelope) -> Applied {
        let (Some(seq), Some(pane)) = (envelope.seq, envelope.event.pane()) else {
            return Applied::Unchanged;
        };
        let key = (envelope.event.execution_id().to_owned(), pane.clone());
        let Some(lines) = self.panes.get_mut(&key) else {
            return Applied::Unchanged;
        };
        match &envelope.event {
            TdEvent::OutputUpdate {
                first_line, chunk, ..
            } => {
                let count = lines_in(chunk).count() as i64;
                let range = *first_line..first_line.saturating_add(count);
                let mut is_final = true;
                for (_, line) in lines.range_mut(range) {
                    line.is_shown |= line.seq > seq;
                    is_final &= line.text_seq < seq;
                }
                match is_final {
                    true => Applied::Unchanged,
                    false => Applied::Replaced(parts(envelope, seq, lines)),
                }
            }
            TdEvent::OutputRevised { line, .. } => {
                let is_told = |known: &Final| known.is_shown && seq <= known.seq;
                match lines.get(line).is_some_and(is_told) {
                    true => Applied::Replaced(Vec::new()),
                    false => Applied::Unchanged,
                }
            }
            _ => Applied::Unchanged,
        }
    }
}

/// Settled lines as they read at last: in several events where lines between them are left out.
fn parts(envelope: &Envelope, seq: u64, finals: &BTreeMap<i64, Final>) -> Vec<Envelope> {
    let TdEvent::OutputUpdate {
        first_line,
        chunk,
        styles,
        ..
    } = &envelope.event
    else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    let mut part = Part::at(*first_line);
    for (at, (number, line)) in (0_u32..).zip((*first_line..=i64::MAX).zip(lines_in(chunk))) {
        let known = finals.get(&number).filter(|known| known.text_seq > seq);
        match known {
            None => {
                let styles = styles.as_slice().iter();
                part.push(line, styles.filter(|style| style.line == at));
            }
            Some(known) if known.seq == known.text_seq => {
                part.push(&known.text, known.styles.as_slice().iter());
            }
            Some(_) => {
                if !part.chunk.is_empty() {
                    parts.push(part.envelope(envelope, false));
                }
                part = Part::at(number.saturating_add(1));
            }
        }
    }
    // Even without lines it carries what else the event says.
    parts.push(part.envelope(envelope, true));
    parts
}

/// Lines in a row.
struct Part {
    first_line: i64,
    count: u32,
    chunk: String,
    styles: Vec<Style>,
}

impl Part {
    fn at(first_line: i64) -> Self {
        Self {
            first_line,
            count: 0,
            chunk: String::new(),
            styles: Vec::new(),
        }
    }

    fn push<'s>(&mut self, line: &str, styles: impl Iterator<Item = &'s Style>) {
        self.chunk.push_str(line);
        self.chunk.push('\n');
        self.styles.extend(styles.map(|style| Style {
            line: self.count,
            ..style.clone()
        }));
        self.count += 1;
    }

    fn envelope(self, of: &Envelope, is_last: bool) -> Envelope {
        let mut envelope = of.clone();
        if let TdEvent::OutputUpdate {
            first_line,
            chunk,
            styles,
            is_complete,
            ..
        } = &mut envelope.event
        {
            *first_line = self.first_line;
            *chunk = self.chunk;
            *styles = Styles::new(self.styles);
            *is_complete &= is_last;
        }
        envelope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;

    fn style(line: u32, sgr: &str) -> Style {
        Style {
            line,
            from: 0,
            to: 1,
            sgr: sgr.to_owned(),
        }
    }

    fn update(first_line: i64, chunk: &str, styles: Vec<Style>) -> TdEvent {
        TdEvent::OutputUpdate {
            execution_id: "x".into(),
            pane: "%1".into(),
            first_line,
            chunk: chunk.into(),
            is_complete: false,
            reason: None,
            exit_status: None,
            styles: Styles::new(styles),
        }
    }

    fn revised(line: i64, text: &str) -> TdEvent {
        let styles = match text.strip_prefix("red") {
            Some(_) => vec![style(0, "31")],
            None => Vec::new(),
        };
        TdEvent::OutputRevised {
            execution_id: "x".into(),
            pane: "%1".into(),
            line,
            text: text.into(),
            styles: Styles::new(styles),
        }
    }

    /// The events as they are shown: number and chunk of lines, or `~` of revisions.
    fn shown(noted: usize, events: Vec<TdEvent>) -> Vec<(i64, String)> {
        let mut finals = LastRevisions::default();
        let envelopes: Vec<Envelope> = (1..)
            .zip(events)
            .map(|(seq, event)| Envelope::new(Some(seq), Timestamp::default(), event))
            .collect();
        for envelope in &envelopes[..noted.min(envelopes.len())] {
            finals.note(envelope);
        }
        let mut shown = Vec::new();
        for envelope in envelopes {
            let parts = match finals.apply(&envelope) {
                Applied::Unchanged => vec![envelope],
                Applied::Replaced(parts) => parts,
            };
            for part in parts {
                shown.push(match part.event {
                    TdEvent::OutputUpdate {
                        first_line, chunk, ..
                    } => (first_line, chunk),
                    TdEvent::OutputRevised { line, text, .. } => (line, format!("~{text}")),
                    _ => continue,
                });
            }
        }
        shown
    }

    fn lines(of: &[(i64, &str)]) -> Vec<(i64, String)> {
        of.iter()
            .map(|(line, text)| (*line, (*text).to_owned()))
            .collect()
    }

    #[test]
    fn a_line_reads_as_it_did_at_last() {
        let events = || {
            vec![
                revised(1, "a 0"),
                update(1, "a 1\nb 1\nc 1\n", Vec::new()),
                revised(2, "b 2"),
                revised(3, ""),
                update(4, "d\n", Vec::new()),
                revised(2, "b 3"),
                revised(5, "$ "),
            ]
        };
        // What changed before it settled is of the open line, and what only vanished was printed.
        assert_eq!(
            shown(usize::MAX, events()),
            lines(&[(1, "~a 0"), (1, "a 1\nb 3\nc 1\n"), (4, "d\n"), (5, "~$ ")])
        );
        // What is written after the first pass comes as it is.
        assert_eq!(
            shown(4, events()),
            lines(&[
                (1, "~a 0"),
                (1, "a 1\nb 2\nc 1\n"),
                (4, "d\n"),
                (2, "~b 3"),
                (5, "~$ ")
            ])
        );
    }

    #[test]
    fn a_row_that_its_program_took_away_is_left_out() {
        let events = vec![
            update(1, "a\nb\nc\nd\n", Vec::new()),
            revised(2, "b 2"),
            revised(4, "d 2"),
            revised(2, ""),
            revised(4, ""),
        ];
        assert_eq!(
            shown(usize::MAX, events),
            lines(&[(1, "a\n"), (3, "c\n"), (5, "")])
        );
    }

    #[test]
    fn colours_are_of_the_text_that_is_shown() {
        let mut finals = LastRevisions::default();
        let envelope = |seq, event| Envelope::new(Some(seq), Timestamp::default(), event);
        finals.note(&envelope(3, revised(2, "red")));
        let first = vec![style(0, "1"), style(1, "2"), style(2, "3")];
        let event = envelope(2, update(1, "a\nb\nc\n", first));
        let Applied::Replaced(parts) = finals.apply(&event) else {
            panic!("the second line reads differently");
        };
        let now = vec![style(0, "1"), style(1, "31"), style(2, "3")];
        assert_eq!(parts, [envelope(2, update(1, "a\nred\nc\n", now))]);
    }
}
