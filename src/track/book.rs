//! The known lines of a pane by number, and the text last reported for each (pure).

use std::time::Duration;

use super::align::{Footprint, KEPT_ROWS, OVERLAP_BESIDE_GAP, OVERLAP_MIN};
use super::change::{Change, Loss};
use super::lines::{LogicalLine, first_rows, overlaps};
use crate::event::line_ends_in;
use crate::text::first_bytes;

/// A known line, on the screen or just above it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub number: i64,
    /// Its first row, counted from the top of the screen.
    pub start: i64,
    pub rows: i64,
    /// The length of its beginning that counts as one row, as in [`LogicalLine`].
    head: usize,
    pub text: String,
    pub reported: Reported,
    /// The time of the first capture with this text.
    pub since: Duration,
    /// The previous capture had the same text.
    pub same: bool,
    /// The text has been unchanged for the settle period.
    pub stable: bool,
    /// The text differs from the previous capture, and differed there, too.
    restless: bool,
}

/// The movement of the known rows between two captures.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moved {
    /// Up by this many rows.
    By(i64),
    /// Up by at least this many rows.
    AtLeast(i64),
    /// Not comparable: tmux rewrapped the rows, or all lines are new.
    Unknown,
}

/// The time of a capture and the pane's width in columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub at: Duration,
    pub width: u32,
}

/// The text last reported for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    Nothing,
    /// The present text.
    Current,
    /// Another text.
    Outdated(String),
}

impl Reported {
    /// Returns the state of a line whose text changes from `old` to `new`.
    fn carried_over(self, old: String, new: &str) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Current if old == new => Self::Current,
            Self::Current => Self::Outdated(old),
            Self::Outdated(reported) if reported == new => Self::Current,
            Self::Outdated(reported) => Self::Outdated(reported),
        }
    }
}

impl Line {
    /// Returns the first row after it.
    pub fn end(&self) -> i64 {
        self.start + self.rows
    }

    /// Returns the line with its rows moved so that this is the first row after it.
    pub fn ending_at(&self, end: i64) -> LogicalLine {
        LogicalLine {
            start: end - self.rows,
            rows: self.rows,
            head: self.head,
            text: self.text.clone(),
        }
    }

    /// Returns the length of the beginning that tmux no longer has, if it shows `text` for this line now, and if
    /// that length is certain.
    pub fn cut_in(&self, text: &str, is_finished: bool) -> (usize, bool) {
        let whole = self.text.trim_end_matches(' ');
        let shown = text.trim_end_matches(' ');
        if self.head > 0 && (whole.get(self.head..)).is_some_and(|rest| shown.starts_with(rest)) {
            return (self.head, true);
        }
        if shown.starts_with(whole) {
            return (0, true);
        }
        if is_finished {
            let cut = whole.strip_suffix(shown).filter(|_| !shown.is_empty());
            return (cut.map_or(0, str::len), true);
        }
        let (longest, next) = overlaps(whole, text);
        if longest < OVERLAP_MIN {
            return (0, true);
        }
        (whole.len() - longest, next < OVERLAP_MIN)
    }

    pub fn reported_text(&self) -> &str {
        match &self.reported {
            Reported::Nothing => "",
            Reported::Current => &self.text,
            Reported::Outdated(text) => text,
        }
    }
}

/// The number of remembered pieces: more than one update of a stream can report.
const PIECES_MAX: usize = 64;

/// The known lines with consecutive numbers: some history, and the used part of the screen.
#[derive(Clone, Debug)]
pub(super) struct Book {
    /// The time for which a line must be unchanged to settle.
    pub settle_period: Duration,
    pub(super) lines: Vec<Line>,
    /// The number of the next line to be reported. All earlier lines were reported or are baseline.
    pub(super) next: i64,
    /// The number of the cursor's line.
    pub(super) cursor_line: i64,
    /// The last lines that are not the first piece of a long one, oldest first: each continues the line before it.
    pieces: Vec<i64>,
}

impl Book {
    /// Creates a book without lines. `next` is the first free number.
    pub fn new(next: i64) -> Self {
        Self {
            settle_period: Duration::ZERO,
            lines: Vec::new(),
            next,
            cursor_line: next,
            pieces: Vec::new(),
        }
    }

    /// Notes lines that continue the lines before them.
    pub fn note_pieces(&mut self, numbers: impl Iterator<Item = i64>) {
        self.pieces.extend(numbers);
        let excess = self.pieces.len().saturating_sub(PIECES_MAX);
        self.pieces.drain(..excess);
    }

    /// Returns the last lines that continue the lines before them, oldest first.
    pub fn pieces(&self) -> &[i64] {
        &self.pieces
    }

    /// Returns the last line that continues the line before it.
    pub fn last_piece(&self) -> Option<i64> {
        self.pieces.last().copied()
    }

    /// Returns a known line.
    pub fn line(&self, number: i64) -> Option<&Line> {
        let at = self.lines.partition_point(|line| line.number < number);
        self.lines.get(at).filter(|line| line.number == number)
    }

    /// Returns all known lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (i64, &str)> {
        self.lines
            .iter()
            .map(|line| (line.number, line.text.as_str()))
    }

    /// Returns the known lines that reach into the screen, or are on it.
    pub(super) fn on_screen(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.end() > 0)
    }

    /// Returns the number of the first known line, or the greatest number if there is none.
    pub fn oldest_known(&self) -> i64 {
        self.lines.first().map_or(i64::MAX, |line| line.number)
    }

    /// Returns the cursor's line, unless it has been reported as settled.
    pub fn open_line(&self) -> Option<&Line> {
        self.line(self.cursor_line)
            .filter(|line| line.number >= self.next)
    }

    /// Returns a gap before the next line.
    pub fn gap(&self, Loss { reason, evidence }: Loss) -> Change {
        Change::Gap {
            first_line: self.next,
            lost_lines: None,
            reason,
            evidence,
        }
    }

    /// Returns how many rows of the line that reaches into the screen are above it.
    pub fn rows_above(&self) -> i64 {
        self.on_screen()
            .next()
            .map_or(0, |line| (-line.start).max(0))
    }

    /// Returns the lines above the cursor's with their numbers.
    pub fn above_cursor(&self) -> Vec<(i64, &str)> {
        self.lines()
            .filter(|(number, _)| *number < self.cursor_line)
            .collect()
    }

    /// Marks the lines above this one as known. Their numbers are uncertain, so they are not reported.
    pub fn mark_known_above(&mut self, number: i64) {
        for line in self.lines.iter_mut().filter(|line| line.number < number) {
            (line.reported, line.same, line.stable) = (Reported::Current, true, true);
        }
    }

    /// Returns true if a line would be reported now if it had been unchanged for the settle period.
    pub fn is_waiting(&self) -> bool {
        self.lines.iter().any(|line| {
            let is_due = line.number < self.cursor_line || line.reported_text() != line.text;
            line.number >= self.next && !line.stable && is_due
        })
    }

    /// Marks the lines that an earlier observer reported.
    pub fn mark_reported(&mut self, known: &[(i64, String)]) {
        for line in &mut self.lines {
            let reported = known.iter().find(|(number, _)| *number == line.number);
            line.reported = match reported {
                Some((_, text)) if *text == line.text => Reported::Current,
                Some((_, text)) => Reported::Outdated(text.clone()),
                None if line.number < self.next => Reported::Current,
                None => Reported::Nothing,
            };
        }
    }

    /// Marks all lines as unchanged from the last capture until `at`.
    pub fn mark_unchanged(&mut self, at: Duration) {
        for line in &mut self.lines {
            line.same = true;
            line.stable |= at.saturating_sub(line.since) >= self.settle_period;
        }
    }

    /// Drops all known lines and reports a gap. Returns the first number for new lines.
    pub fn lose(&mut self, loss: Loss, changes: &mut Vec<Change>) -> i64 {
        self.flush(changes);
        self.discard_lines();
        changes.push(self.gap(loss));
        self.next
    }

    /// Drops all lines. Numbers of unfinished lines that have been revised are not used again.
    pub fn discard_lines(&mut self) {
        let spent = self
            .lines
            .iter()
            .rev()
            .find(|line| line.reported != Reported::Nothing);
        self.next = self
            .next
            .max(spent.map_or(i64::MIN, |line| line.number + 1));
        self.lines.clear();
    }

    /// Returns the number of the first captured line after a respawn. All lines are new, except for
    /// those of the history above its last `new_rows` rows.
    pub fn first_after_respawn(&mut self, lines: &[LogicalLine], new_rows: i64) -> i64 {
        self.discard_lines();
        let is_old = |line: &&LogicalLine| line.start < -new_rows;
        let old = lines.iter().take_while(is_old).count();
        self.next - old as i64
    }

    /// Returns the number of the last known line, or of the line before the next if there is none.
    pub fn last_number(&self) -> i64 {
        self.lines.last().map_or(self.next - 1, |line| line.number)
    }

    /// Drops all lines and skips the numbers of `lines` lost lines, of which the cursor's is the first.
    pub fn skip(&mut self, lines: u64) {
        self.lines.clear();
        self.next = self
            .next
            .saturating_add(i64::try_from(lines).unwrap_or(i64::MAX));
        self.cursor_line = self.next;
    }

    /// Returns the number of the first line of a capture in which the known rows have scrolled up by
    /// `scrolled` rows.
    pub fn first_number(&self, lines: &[LogicalLine], scrolled: i64) -> i64 {
        let (Some(first), Some(oldest)) = (lines.first(), self.lines.first()) else {
            return self.next;
        };
        // Lines older than the oldest known line count down from its number. A line that reaches into
        // its rows is that line, of which only the end was captured before.
        let older = lines
            .iter()
            .take_while(|line| line.end() + scrolled <= oldest.start)
            .count();
        if older > 0 {
            return oldest.number - older as i64;
        }
        let number = self.number_at(first.start + scrolled);
        // The row of a beginning that tmux no longer has is that of the line before, if it is on the screen.
        let is_before = |known: &Line| known.head > 0 && first.end() + scrolled == known.start + 1;
        number - i64::from(self.line(number).is_some_and(is_before))
    }

    /// Returns the number of the line that begins in a row, which counts as in the known lines: that
    /// of a known line, or the number after the last one.
    pub fn number_at(&self, start: i64) -> i64 {
        let Some(oldest) = self.lines.first() else {
            return self.next;
        };
        let known = self
            .lines
            .iter()
            .rev()
            .find(|known| known.start <= start)
            .unwrap_or(oldest);
        if start < known.end() {
            known.number
        } else {
            known.number + 1
        }
    }

    /// Replaces the known lines by those of a capture, numbered from `first` on.
    pub fn take(
        &mut self,
        lines: Vec<LogicalLine>,
        first: i64,
        moved: Moved,
        footprint: &Footprint,
        Taken { at, width }: Taken,
    ) {
        let old = std::mem::take(&mut self.lines);
        let old_first = old.first().map_or(i64::MIN, |line| line.number);
        let old_lines = old.len();
        let mut old: Vec<Option<Line>> = old.into_iter().map(Some).collect();
        let mut was = |number: i64| {
            usize::try_from(number.checked_sub(old_first)?)
                .ok()
                .and_then(|at| old.get_mut(at)?.take())
        };
        let mut end = 0;
        let mut last = first - 1;
        for (number, mut line) in (first..).zip(lines) {
            (end, last) = (line.end(), number);
            if number == first && number < old_first && line.end() <= 0 {
                // It is older than the known lines, and may be only the end of a line: a deeper capture
                // would seem to revise it.
                continue;
            }
            let (reported, since, same, restless) = match was(number) {
                Some(old) => {
                    // A line of which tmux keeps only the end has its old beginning.
                    let cut_rows = match moved {
                        Moved::By(rows) | Moved::AtLeast(rows) => line.start - (old.start - rows),
                        Moved::Unknown => 0,
                    };
                    // Rows of before may stand above a line that has lost its beginning.
                    if (number == first || old.head > 0) && cut_rows > 0 {
                        let (head, rest) =
                            old.text.split_at(first_bytes(&old.text, old.head).len());
                        let rest_rows = cut_rows - i64::from(!head.is_empty());
                        let cut = head.len() + first_rows(rest, width, rest_rows).len();
                        let (begin, rest) = old.text.split_at(cut);
                        // The columns of other characters are not certain.
                        let is_exact = !rest.is_empty() && old.text.is_ascii();
                        let shows_rest = is_exact && line.text.starts_with(rest);
                        // Beside a gap, the cursor's line may be another one, unless its text shows that it is not.
                        let is_same = matches!(moved, Moved::By(_))
                            || number < self.cursor_line
                            || shows_rest && rest.len() >= OVERLAP_BESIDE_GAP;
                        let begin = if shows_rest {
                            begin
                        } else {
                            old.text.strip_suffix(&line.text).unwrap_or(begin)
                        };
                        if is_same {
                            line.text.insert_str(0, begin);
                            line.start -= cut_rows;
                            line.rows += cut_rows;
                            line.head = head.len();
                        }
                    }
                    let same = old.text == line.text;
                    let since = if same { old.since } else { at };
                    let restless = !same && !old.same && old.reported != Reported::Nothing;
                    let reported = old.reported.carried_over(old.text, &line.text);
                    (reported, since, same, restless)
                }
                // Reported and pruned since, so its text is final.
                None if number < old_first || old_lines == 0 && number < self.next => {
                    (Reported::Current, Duration::ZERO, true, false)
                }
                // Reported, and blank below the text since then.
                None if number < self.next => (Reported::Outdated(String::new()), at, false, false),
                None => (Reported::Nothing, at, false, false),
            };
            let stable = same && at.saturating_sub(since) >= self.settle_period;
            let reported = match moved {
                // It may be another line, so a revision could be wrong.
                Moved::AtLeast(_) if number < self.next => Reported::Current,
                _ => reported,
            };
            let LogicalLine {
                start,
                rows,
                head,
                text,
            } = line;
            self.lines.push(Line {
                number,
                start,
                rows,
                head,
                text,
                reported,
                since,
                same,
                stable,
                restless,
            });
        }
        // Lines that vanished below the text are blank now, and keep their numbers while they fit on
        // the screen.
        let mut vanished: Vec<Line> = (last + 1..).map_while(&mut was).collect();
        let room = (footprint.height - end).max(0) as usize;
        let kept = vanished.iter().enumerate().rposition(|(row, line)| {
            !line.reported_text().is_empty() || line.number < self.next && row < room
        });
        vanished.truncate(kept.map_or(0, |last| last + 1));
        for (start, line) in (end..).zip(vanished) {
            self.lines.push(Line {
                start,
                rows: 1,
                head: 0,
                since: at,
                same: line.text.is_empty(),
                stable: line.text.is_empty(),
                restless: false,
                reported: line.reported.carried_over(line.text, ""),
                text: String::new(),
                number: line.number,
            });
        }
        self.cursor_line = self
            .lines
            .iter()
            .rev()
            .find(|line| line.start <= footprint.cursor_row)
            .map_or(first, |line| line.number);
    }

    /// Drops lines that can neither change nor help to align captures.
    pub(super) fn prune(&mut self) {
        let oldest = -(KEPT_ROWS as i64);
        let next = self.next;
        let keep = self
            .lines
            .iter()
            .position(|line| line.end() > oldest || line.number >= next)
            .unwrap_or(self.lines.len());
        self.lines.drain(..keep);
    }
}

// Reports of known lines: settled lines and revisions (pure).

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
