//! Replaces each line of a history by its last revision, so that the line is shown once, in its place (pure).
//!
//! There are two passes: [`LastRevisions::note`] collects the revisions, then [`LastRevisions::apply`]
//! changes the events that are shown. A line that was rewritten after it had settled, such as a row of a
//! progress display, is shown with its last text, and omitted if its program removed it. A line that was only
//! erased stays, because it was printed before its row vanished.

use std::collections::BTreeMap;

use crate::event::{Envelope, PaneId, Style, Styles, TdEvent, lines_in};

/// The bound, in bytes, on the revisions in memory, some 300,000 lines, and the memory of a line in addition
/// to its text. Lines beyond the bound keep their first text and are shown again when they change.
const BYTES_MAX: usize = 64 << 20;
const LINE_BYTES: usize = 128;

/// The last revision of each line, by execution and pane.
#[derive(Debug, Default)]
pub(crate) struct LastRevisions {
    panes: BTreeMap<(String, PaneId), BTreeMap<i64, LastRevision>>,
    bytes: usize,
}

/// The last revision of a line.
#[derive(Debug, Default)]
struct LastRevision {
    /// The `seq` of the last revision.
    seq: u64,
    /// The `seq` of the last revision with text; 0 for none.
    text_seq: u64,
    text: String,
    styles: Styles,
    /// True if the line was shown with its last text.
    is_shown: bool,
}

/// The result of applying the revisions to an event.
#[derive(Debug, PartialEq)]
pub(crate) enum Applied {
    Unchanged,
    /// These events are shown instead; an empty list hides the event.
    Replaced(Vec<Envelope>),
}

impl LastRevisions {
    /// Records an event of the history, if it is a revision.
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
        // Events of older logs have no number and are shown unchanged.
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
            LastRevision::default()
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

    /// Drops the revisions of an execution whose history has been shown.
    pub fn forget(&mut self, execution_id: &str) {
        self.panes.retain(|(id, _), lines| {
            let is_kept = id != execution_id;
            if !is_kept {
                let bytes = lines.values().map(|line| line.text.len() + LINE_BYTES);
                self.bytes -= bytes.sum::<usize>();
            }
            is_kept
        });
    }

    /// Applies the revisions to the next event of the recorded history.
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
                let mut is_unchanged = true;
                for (_, line) in lines.range_mut(range) {
                    line.is_shown |= line.seq > seq;
                    is_unchanged &= line.text_seq < seq;
                }
                match is_unchanged {
                    true => Applied::Unchanged,
                    false => Applied::Replaced(parts(envelope, seq, lines)),
                }
            }
            TdEvent::OutputRevised { line, .. } => {
                let is_included = |known: &LastRevision| known.is_shown && seq <= known.seq;
                match lines.get(line).is_some_and(is_included) {
                    true => Applied::Replaced(Vec::new()),
                    false => Applied::Unchanged,
                }
            }
            _ => Applied::Unchanged,
        }
    }
}

/// Returns settled lines with their last text, as several events if lines between them are omitted.
fn parts(envelope: &Envelope, seq: u64, revisions: &BTreeMap<i64, LastRevision>) -> Vec<Envelope> {
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
    let mut part = ChunkPart::at(*first_line);
    for (at, (number, line)) in (0_u32..).zip((*first_line..=i64::MAX).zip(lines_in(chunk))) {
        let known = revisions.get(&number).filter(|known| known.text_seq > seq);
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
                part = ChunkPart::at(number.saturating_add(1));
            }
        }
    }
    // The last part carries the event's other fields, even without lines.
    parts.push(part.envelope(envelope, true));
    parts
}

/// Consecutive lines.
struct ChunkPart {
    first_line: i64,
    count: u32,
    chunk: String,
    styles: Vec<Style>,
}

impl ChunkPart {
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

    fn envelope(self, source: &Envelope, is_last: bool) -> Envelope {
        let mut envelope = source.clone();
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
    use crate::face::samples;
    use crate::timestamp::Timestamp;

    fn style(line: u32, sgr: &str) -> Style {
        Style {
            line,
            from: 0,
            to: 1,
            sgr: sgr.to_owned(),
        }
    }

    fn revised(line: i64, text: &str) -> TdEvent {
        let styles = match text.strip_prefix("red") {
            Some(_) => vec![style(0, "31")],
            None => Vec::new(),
        };
        samples::revised_with(line, text, styles)
    }

    /// Returns the shown events: the number and the chunk of lines, `~` for revisions.
    fn shown(noted: usize, events: Vec<TdEvent>) -> Vec<(i64, String)> {
        let mut revisions = LastRevisions::default();
        let envelopes: Vec<Envelope> = (1..)
            .zip(events)
            .map(|(seq, event)| Envelope::new(Some(seq), Timestamp::default(), event))
            .collect();
        for envelope in &envelopes[..noted.min(envelopes.len())] {
            revisions.note(envelope);
        }
        let mut shown = Vec::new();
        for envelope in envelopes {
            let parts = match revisions.apply(&envelope) {
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
    fn a_line_is_shown_with_its_last_text() {
        let events = || {
            vec![
                revised(1, "a 0"),
                samples::update(1, "a 1\nb 1\nc 1\n"),
                revised(2, "b 2"),
                revised(3, ""),
                samples::update(4, "d\n"),
                revised(2, "b 3"),
                revised(5, "$ "),
            ]
        };
        // Changes of an open line stay, and so does a printed line that was erased.
        assert_eq!(
            shown(usize::MAX, events()),
            lines(&[(1, "~a 0"), (1, "a 1\nb 3\nc 1\n"), (4, "d\n"), (5, "~$ ")])
        );
        // Events after the first pass are unchanged.
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
    fn a_row_removed_by_its_program_is_omitted() {
        let events = vec![
            samples::update(1, "a\nb\nc\nd\n"),
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
    fn the_shown_text_has_its_own_colours() {
        let mut revisions = LastRevisions::default();
        let envelope = |seq, event| Envelope::new(Some(seq), Timestamp::default(), event);
        revisions.note(&envelope(3, revised(2, "red")));
        let first = vec![style(0, "1"), style(1, "2"), style(2, "3")];
        let event = envelope(2, samples::update_of("%1", 1, "a\nb\nc\n", first));
        let Applied::Replaced(parts) = revisions.apply(&event) else {
            panic!("the second line reads differently");
        };
        let now = vec![style(0, "1"), style(1, "31"), style(2, "3")];
        assert_eq!(
            parts,
            [envelope(2, samples::update_of("%1", 1, "a\nred\nc\n", now))]
        );
    }
}
