//! Where an observer of a pane was: read from the log, kept up while it observes.

use std::collections::{BTreeMap, HashMap};

use crate::Timestamp;
use crate::error::Result;
use crate::event::{Envelope, PaneId, TdEvent};
use crate::history::{LogReader, Query, RunDirectory, read_tail};
use crate::redact::MARKER;
use crate::track::Change;

/// Lines that are remembered: enough for one place only to fit.
const LINES: usize = 64;

/// How much of the end of a log is read at first: a screen of lines takes some kilobytes, a run
/// that many panes share needs more.
const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// Line numbers stay below this: 2^53, the largest that every reader of JSON keeps exactly.
const NUMBERS_MAX: u64 = 1 << 53;

/// What was said of a pane last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recall {
    /// The last lines that were said, settled or not, by number.
    lines: BTreeMap<i64, String>,
    /// The number of the next line to be said.
    next: i64,
    /// When something was said last: of its agent's conversation, and of anything.
    conversed_at: Option<Timestamp>,
    said_at: Option<Timestamp>,
}

impl Recall {
    /// What a run knows of these panes: the end of its log is read, and more of it only where a pane
    /// is missing there or has said little.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn read(run: &RunDirectory, panes: &[PaneId]) -> Result<HashMap<PaneId, Self>> {
        let mut recalls = HashMap::new();
        read_tail(&run.events_path(), TAIL_BYTES)?
            .iter()
            .for_each(|envelope| Self::take(&mut recalls, envelope));
        // The last two files, because the newest may just have begun; all only for a pane of which
        // these say nothing.
        for (files, lines) in [(2, LINES), (usize::MAX, 0)] {
            let is_known = |pane| {
                let recall: Option<&Self> = recalls.get(pane);
                recall.is_some_and(|recall| recall.lines.len() >= lines)
            };
            if panes.iter().all(is_known) {
                break;
            }
            recalls.clear();
            for record in LogReader::open_last(run, files, Query::all())? {
                Self::take(&mut recalls, &record.envelope);
            }
        }
        Ok(recalls)
    }

    /// Takes in what the log says of a pane. One that was observed and said nothing is known too:
    /// what it said since is missing.
    fn take(recalls: &mut HashMap<PaneId, Self>, envelope: &Envelope) {
        let Some(pane) = envelope.event.pane() else {
            return;
        };
        let recall = recalls.entry(pane.clone()).or_insert_with(Self::begin);
        // A log is a file that anybody may have written: numbers that no pane reaches are damage.
        recall.said_at = Some(envelope.ts);
        if is_of_conversation(&envelope.event) {
            recall.conversed_at = recall.said_at;
        }
        let sound = |number: &i64| number.unsigned_abs() < NUMBERS_MAX;
        match &envelope.event {
            TdEvent::OutputUpdate {
                first_line, chunk, ..
            } if sound(first_line) => {
                recall.said(*first_line, chunk);
                recall.forget_redacted();
            }
            TdEvent::OutputRevised { line, text, .. } if sound(line) => {
                recall.revised(*line, text.clone());
                recall.forget_redacted();
            }
            TdEvent::OutputGap {
                first_line,
                lost_lines,
                ..
            } if sound(first_line) && lost_lines.is_none_or(|lost| lost < NUMBERS_MAX) => {
                recall.gap(*first_line, *lost_lines);
            }
            _ => {}
        }
    }

    /// A pane of which nothing has been said.
    pub fn begin() -> Self {
        Self {
            next: 1,
            ..Self::default()
        }
    }

    /// From when on an earlier observer has reported nothing of the conversation in the pane; `None` where
    /// there was none. What is reported was written before, so what it was about to report is not known
    /// to have been: of its conversation, the last event counts.
    pub fn conversation_ends(&self) -> Option<Timestamp> {
        self.conversed_at.or(self.said_at)
    }

    /// Takes in what is said now.
    pub fn note(&mut self, change: &Change) {
        match change {
            Change::Lines { first_line, chunk } => self.said(*first_line, chunk),
            Change::Revised { line, text } => self.revised(*line, text.clone()),
            Change::Gap {
                first_line,
                lost_lines,
                ..
            } => self.gap(*first_line, *lost_lines),
            Change::Screen { .. } => {}
        }
    }

    /// The last lines, with their numbers in order.
    pub fn lines(&self) -> Vec<(i64, String)> {
        self.lines
            .iter()
            .map(|(number, text)| (*number, text.clone()))
            .collect()
    }

    /// The number of the next line to be said.
    pub fn next(&self) -> i64 {
        self.next
    }

    fn said(&mut self, first_line: i64, chunk: &str) {
        let chunk = chunk.as_bytes();
        let count = memchr::memchr_iter(b'\n', chunk).count();
        self.next = self.next.max(first_line.saturating_add(count as i64));
        // Of a flood only the end is remembered.
        let last = memchr::memrchr_iter(b'\n', chunk).nth(LINES);
        let chunk = &chunk[last.map_or(0, |end| end + 1)..];
        let skipped = count.saturating_sub(LINES) as i64;
        let lines = (first_line.saturating_add(skipped)..).zip(chunk.split(|byte| *byte == b'\n'));
        // Behind the last line end there is nothing, or a line that is not whole.
        let lines = lines.take(count.min(LINES));
        // A part of a text that was cut at line ends is text.
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        self.lines
            .extend(lines.map(|(number, line)| (number, text(line))));
        self.forget();
    }

    fn revised(&mut self, line: i64, text: String) {
        self.lines.insert(line, text);
        self.forget();
    }

    fn gap(&mut self, first_line: i64, lost_lines: Option<u64>) {
        let lost = i64::try_from(lost_lines.unwrap_or(0)).unwrap_or(i64::MAX);
        self.next = self.next.max(first_line.saturating_add(lost));
        // What stood before a gap does not stand together with what follows.
        self.lines.clear();
    }

    /// A line that had a secret reads differently in the log than on its pane: it and what stood
    /// before it are no place to find.
    fn forget_redacted(&mut self) {
        let is_redacted = |(_, text): &(&i64, &String)| text.contains(MARKER);
        if let Some((&last, _)) = self.lines.iter().rfind(is_redacted) {
            self.lines = self.lines.split_off(&(last.saturating_add(1)));
        }
    }

    fn forget(&mut self) {
        while self.lines.len() > LINES {
            self.lines.pop_first();
        }
    }
}

/// Whether it was read from the files of an agent.
fn is_of_conversation(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::PromptSent { .. }
            | TdEvent::TokenReceived { .. }
            | TdEvent::ResponseCompleted { .. }
            | TdEvent::ToolCallStarted { .. }
            | TdEvent::ToolCallCompleted { .. }
            | TdEvent::TurnCompleted { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Styles;
    use crate::timestamp::Timestamp;

    #[test]
    fn the_log_tells_where_the_observer_was() {
        let update = |pane: &str, first_line, chunk: &str| TdEvent::OutputUpdate {
            execution_id: "e".into(),
            pane: pane.into(),
            first_line,
            chunk: chunk.into(),
            is_complete: false,
            reason: None,
            exit_status: None,
            styles: Styles::default(),
        };
        let revised = TdEvent::OutputRevised {
            execution_id: "e".into(),
            pane: "%1".into(),
            line: 4,
            text: "$ ".into(),
            styles: Styles::default(),
        };
        let events = [
            update("%1", 1, "a\n\n"),
            update("%2", 7, "x\n"),
            update("%1", 3, "b\n"),
            revised,
        ]
        .map(|event| Envelope::new(Some(1), Timestamp::default(), event));
        let mut panes = HashMap::new();
        events
            .iter()
            .for_each(|envelope| Recall::take(&mut panes, envelope));
        let pane = &panes["%1"];
        assert_eq!(pane.next(), 4);
        let lines = [(1, "a"), (2, ""), (3, "b"), (4, "$ ")];
        assert_eq!(
            pane.lines(),
            lines.map(|(number, text)| (number, text.to_owned()))
        );
        assert_eq!(panes["%2"].next(), 8);
    }
}
