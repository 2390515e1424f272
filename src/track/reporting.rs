//! Reports of known lines: settled lines and revisions (pure).

use super::book::{Book, Line, Reported};
use super::change::Change;
use crate::event::line_ends_in;

/// The approximate size of a chunk of settled lines: large enough to be cheap, small enough to show
/// and to queue.
const CHUNK_BYTES: usize = 64 * 1024;

/// The revisions that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revisions {
    All,
    /// Those of lines that have settled before.
    Settled,
    None,
}

impl Book {
    /// Reports the known lines above the cursor, which were complete at the last capture.
    pub fn flush(&mut self, changes: &mut Vec<Change>) {
        self.report(changes, self.cursor_line - 1);
    }

    /// Reports lines that have settled, or `all` lines to the last text, and revisions.
    pub fn settle(&mut self, changes: &mut Vec<Change>, all: bool) {
        self.settle_with(changes, all, Revisions::All);
    }

    /// Reports lines that have settled, or `all` lines to the last text, and the selected revisions.
    pub fn settle_with(&mut self, changes: &mut Vec<Change>, all: bool, revisions: Revisions) {
        if revisions != Revisions::None {
            self.revise_settled(changes);
        }
        self.report_settled(changes, all);
        if revisions == Revisions::All {
            self.revise_open(changes);
        }
        if revisions != Revisions::None {
            self.prune();
        }
    }

    /// Revises settled lines whose text has changed.
    fn revise_settled(&mut self, changes: &mut Vec<Change>) {
        let next = self.next;
        let settled = self.lines.iter_mut().filter(|line| line.number < next);
        for line in settled.filter(|line| line.reported_text() != line.text) {
            revise(line, changes);
        }
    }

    fn report_settled(&mut self, changes: &mut Vec<Change>, all: bool) {
        let next = self.next;
        let last = if all {
            // Blank rows below the last text are not lines of the program.
            self.lines
                .iter()
                .rev()
                .find(|line| !line.text.trim_end().is_empty())
                .map(|line| line.number)
        } else {
            let cursor_line = self.cursor_line;
            let settled = |line: &&Line| {
                let scrolled_off = line.end() <= 0;
                scrolled_off || line.stable && line.number < cursor_line
            };
            let open = self.lines.iter().filter(|line| line.number >= next);
            open.take_while(settled).last().map(|line| line.number)
        };
        if let Some(last) = last {
            self.report(changes, last);
        }
    }

    /// Revises open lines: prompts, progress, and lines that cannot settle before one of those. A line
    /// that is new, or that the cursor has just left, waits for the next tick. Blank lines above a
    /// revised one are revised, too, so that a reader has every line up to it.
    fn revise_open(&mut self, changes: &mut Vec<Change>) {
        let (next, cursor_line) = (self.next, self.cursor_line);
        let is_reported = |line: &Line| line.reported != Reported::Nothing;
        let is_due = |line: &Line| {
            let is_ready = line.stable || line.restless;
            let is_changed = line.reported_text() != line.text;
            is_changed && (is_ready || is_reported(line) && line.number >= cursor_line)
        };
        let open = self.lines.partition_point(|line| line.number < next);
        let open = &mut self.lines[open..];
        let Some(last) = open
            .iter()
            .rposition(|line| is_reported(line) || is_due(line))
        else {
            return;
        };
        for line in &mut open[..=last] {
            if is_due(line) || !is_reported(line) && line.text.is_empty() {
                revise(line, changes);
            }
        }
    }

    /// Reports the lines from the next one to `last`.
    pub fn report(&mut self, changes: &mut Vec<Change>, last: i64) {
        let mut chunk = String::new();
        let mut first_line = self.next;
        let next = self.next;
        for line in self
            .lines
            .iter_mut()
            .filter(|line| (next..=last).contains(&line.number))
        {
            if !chunk.is_empty() && chunk.len() + line.text.len() >= CHUNK_BYTES {
                let chunk = std::mem::take(&mut chunk);
                changes.push(Change::Lines { first_line, chunk });
                first_line = line.number;
            }
            chunk.push_str(&line.text);
            chunk.push('\n');
            line.reported = Reported::Current;
            self.next = line.number + 1;
        }
        if !chunk.is_empty() {
            changes.push(Change::Lines { first_line, chunk });
        }
    }

    /// Drops the known lines and reports `lines` lines that have been printed and have scrolled off
    /// since. They are in `text` from the byte `at` on, each ended by `\n`.
    pub fn report_passed(
        &mut self,
        mut text: String,
        at: usize,
        lines: i64,
        changes: &mut Vec<Change>,
    ) {
        self.lines.clear();
        let mut first_line = self.next;
        self.next += lines;
        let mut rest = &text[at..];
        while rest.len() > 2 * CHUNK_BYTES {
            let end = memchr::memrchr(b'\n', &rest.as_bytes()[..CHUNK_BYTES])
                .or_else(|| memchr::memchr(b'\n', rest.as_bytes()));
            let (chunk, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
            changes.push(Change::Lines {
                first_line,
                chunk: chunk.to_owned(),
            });
            first_line += line_ends_in(chunk);
            rest = after;
        }
        if !rest.is_empty() {
            let from = text.len() - rest.len();
            text.drain(..from);
            let chunk = text;
            changes.push(Change::Lines { first_line, chunk });
        }
    }
}

fn revise(line: &mut Line, changes: &mut Vec<Change>) {
    line.reported = Reported::Current;
    changes.push(Change::Revised {
        line: line.number,
        text: line.text.clone(),
    });
}
