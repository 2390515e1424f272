//! The reports about known lines: what was reported, and when the rest is (pure).

use super::book::{Book, Line, Reported};
use super::change::Change;

/// Settled lines are reported in chunks of about this many bytes: enough to be cheap, little enough to
/// show and to queue.
const CHUNK_BYTES: usize = 64 * 1024;

/// Selects the changed lines that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revises {
    All,
    /// Those that were reported as settled.
    Settled,
    Nothing,
}

impl Book {
    /// The known lines above the cursor were complete when they were seen: they are reported now.
    pub fn flush(&mut self, changes: &mut Vec<Change>) {
        self.report(changes, self.cursor_line - 1);
    }

    /// Reports what has settled, and what of the rest is worth showing.
    pub fn settle(&mut self, changes: &mut Vec<Change>, all: bool) {
        self.revise_settled(changes);
        self.report_settled(changes, all);
        self.revise_open(changes);
        self.prune();
    }

    /// Reports what has settled, and of what reads differently now so much.
    pub fn settle_with(&mut self, changes: &mut Vec<Change>, revises: Revises) {
        if revises != Revises::Nothing {
            self.revise_settled(changes);
        }
        self.report_settled(changes, false);
        if revises == Revises::All {
            self.revise_open(changes);
        }
        if revises != Revises::Nothing {
            self.prune();
        }
    }

    /// Revises reported lines whose text has changed.
    fn revise_settled(&mut self, changes: &mut Vec<Change>) {
        let next = self.next;
        for line in self.lines.iter_mut().filter(|line| line.number < next) {
            revise(line, changes);
        }
    }

    fn report_settled(&mut self, changes: &mut Vec<Change>, all: bool) {
        let next = self.next;
        let last = if all {
            // Blank rows at the very end are not lines that the program ended.
            self.lines
                .iter()
                .rev()
                .find(|line| !line.text.trim_end().is_empty())
                .map(|line| line.number)
        } else {
            let cursor_line = self.cursor_line;
            let settled = |line: &&Line| {
                let scrolled_off = line.start + line.rows <= 0;
                scrolled_off || line.stable && line.number < cursor_line
            };
            let open = self.lines.iter().filter(|line| line.number >= next);
            open.take_while(settled).last().map(|line| line.number)
        };
        if let Some(last) = last {
            self.report(changes, last);
        }
    }

    /// Prompts and progress, and lines that wait for one of those before them. A line that is new,
    /// or that the cursor has just left, will be reported with the next tick. Blank lines before one
    /// that is shown are shown with it, so that a reader of all lines has no hole there.
    fn revise_open(&mut self, changes: &mut Vec<Change>) {
        let (next, cursor_line) = (self.next, self.cursor_line);
        let is_shown = |line: &Line| line.reported != Reported::Nothing;
        let is_due = |line: &Line| {
            let is_ready = line.stable || line.restless;
            let is_news = line.reported_text() != line.text;
            is_news && (is_ready || is_shown(line) && line.number >= cursor_line)
        };
        let open = self.lines.partition_point(|line| line.number < next);
        let open = &mut self.lines[open..];
        let Some(last) = open.iter().rposition(|line| is_shown(line) || is_due(line)) else {
            return;
        };
        for line in &mut open[..=last] {
            if is_due(line) || !is_shown(line) && line.text.is_empty() {
                show(line, changes);
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

    /// Reports the `lines` lines that came and went between two captures. They are in `text` from the
    /// byte `at` on, each ended by `\n`. No known line is left before them.
    pub fn pass(&mut self, mut text: String, at: usize, lines: i64, changes: &mut Vec<Change>) {
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
            first_line += memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64;
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

/// Reports what a line reads now, if that was not said.
fn revise(line: &mut Line, changes: &mut Vec<Change>) {
    if line.reported_text() != line.text {
        show(line, changes);
    }
}

fn show(line: &mut Line, changes: &mut Vec<Change>) {
    line.reported = Reported::Current;
    changes.push(Change::Revised {
        line: line.number,
        text: line.text.clone(),
    });
}
