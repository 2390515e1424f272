//! Changes of a pane's lines turned into events: throttled, with styles, cut where turns end.

use super::{Follow, Pane};
use crate::agent::Turn;
use crate::event::Styles;
use crate::observe::pane_output::{Completion, PaneOutput};
use crate::track::{Change, Throttled};

impl Pane {
    pub(super) fn finish(&mut self, out: &mut PaneOutput<'_>) {
        for paced in self.pace.finish() {
            self.emit_one(paced, out);
        }
    }

    pub(super) fn emit(&mut self, changes: Vec<Change>, out: &mut PaneOutput<'_>) {
        for change in &changes {
            out.resume_point.note_change(change);
        }
        let turns = self.turns.as_mut();
        let mut turns =
            turns.map_or_else(Vec::new, |turns| turns.handle_changes(&changes, out.now));
        if self.reads_conversation() {
            // Its agent reports them.
            turns.clear();
        }
        if turns.is_empty() {
            return self.emit_paced(changes, out);
        }
        for change in changes {
            let Change::Lines { first_line, chunk } = change else {
                self.emit_paced(vec![change], out);
                continue;
            };
            let (mut line, mut rest) = (first_line, chunk.as_str());
            let end = first_line
                .saturating_add(memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64);
            let is_here = |turn: &Turn| turn.line.is_some_and(|at| (first_line..end).contains(&at));
            let (here, elsewhere): (Vec<_>, Vec<_>) = turns.into_iter().partition(is_here);
            turns = elsewhere;
            for turn in here {
                let next = turn.line.map_or(end, |number| number + 1);
                let (lines, later) = split_lines(rest, next.abs_diff(line));
                self.emit_turn((line, lines), &turn, out);
                (line, rest) = (next, later);
            }
            if !rest.is_empty() {
                let chunk = rest.to_owned();
                let first_line = line;
                self.emit_paced(vec![Change::Lines { first_line, chunk }], out);
            }
        }
        // Those whose markers are not among the new lines.
        for turn in turns {
            self.emit_turn((self.tracker().next_line(), ""), &turn, out);
        }
    }

    /// The lines up to the end of a turn, and that it has ended.
    pub(super) fn emit_turn(&mut self, update: (i64, &str), turn: &Turn, out: &mut PaneOutput<'_>) {
        self.finish(out);
        let styles = self.styles(update.0, update.1);
        out.complete(&self.id, update, styles, Completion::Turn);
        out.turn_completed(&self.id, &turn.marker, &turn.summary, None);
    }

    pub(super) fn emit_paced(&mut self, changes: Vec<Change>, out: &mut PaneOutput<'_>) {
        for paced in self.pace.throttle(changes, out.now) {
            self.emit_one(paced, out);
        }
    }

    pub(super) fn emit_one(&self, paced: Throttled, out: &mut PaneOutput<'_>) {
        let (Throttled::Logged(change) | Throttled::Live(change)) = &paced;
        if self.hides(change) {
            return;
        }
        let styles = match change {
            Change::Lines { first_line, chunk } => self.styles(*first_line, chunk),
            Change::Revised { line, text } => self.styles(*line, text),
            Change::Screen { .. } | Change::Gap { .. } => Styles::default(),
        };
        out.change(&self.id, paced, styles);
    }

    /// Styles of lines of a streamed pane, looked up when the lines are emitted. A line that has
    /// changed since has none.
    pub(super) fn styles(&self, first_line: i64, text: &str) -> Styles {
        match &self.follow {
            Follow::Looks(_) => Styles::default(),
            Follow::Bytes(stream) => stream.styles(first_line, text),
        }
    }
}

/// So many lines, and those behind them.
fn split_lines(chunk: &str, count: u64) -> (&str, &str) {
    let last = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_sub(1));
    let end = last.and_then(|last| chunk.match_indices('\n').nth(last));
    chunk.split_at(end.map_or(0, |(at, _)| at + 1))
}
