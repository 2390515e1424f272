//! The lines of a pane that are known, by number, and what was reported of each (pure).

use std::time::Duration;

use super::align::{Footprint, KEPT_ROWS};
use super::change::{Change, Loss};
use super::lines::{Logical, first_rows};

/// A line that is known, on the screen or just above it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub number: i64,
    /// Its first row, counted from the top of the screen.
    pub start: i64,
    pub rows: i64,
    pub text: String,
    pub reported: Reported,
    /// When it was first seen to read so.
    pub since: Duration,
    /// It read the same in the capture before.
    pub same: bool,
    /// It did, and has for long enough to be taken for settled.
    pub stable: bool,
    /// It read something else in the capture before, and in the one before that too.
    pub restless: bool,
}

/// Where the known lines stand in a capture.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moved {
    /// This many rows higher.
    By(i64),
    /// At least this many rows higher, perhaps gone.
    AtLeast(i64),
    /// In rows that have been made anew.
    Unknown,
}

/// When a capture was taken, and how wide the pane was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub at: Duration,
    pub width: u32,
}

/// The text last reported for a line, relative to its present text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    Nothing,
    Current,
    Outdated(String),
}

impl Reported {
    /// Returns what was reported of a line that read `old` and reads `new` now.
    pub fn carried_over(self, old: String, new: &str) -> Self {
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
    pub(super) fn reported_text(&self) -> &str {
        match &self.reported {
            Reported::Nothing => "",
            Reported::Current => &self.text,
            Reported::Outdated(text) => text,
        }
    }
}

/// The known lines, with consecutive numbers: some history, and the screen as far as it is used.
#[derive(Debug)]
pub(super) struct Book {
    /// Time for which a line must read the same, from one capture to another, to be taken for settled.
    pub settle: Duration,
    pub(super) lines: Vec<Line>,
    /// The number of the next line to be reported; all before it were reported, or stood there before.
    pub(super) next: i64,
    /// The number of the line that the cursor is in.
    pub(super) cursor_line: i64,
}

impl Book {
    /// Without lines; `next` is the first number that is free.
    pub fn new(next: i64) -> Self {
        Self {
            settle: Duration::ZERO,
            lines: Vec::new(),
            next,
            cursor_line: next,
        }
    }

    /// The number of the next line to be reported.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// All lines that are known, with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (i64, &str)> {
        self.lines
            .iter()
            .map(|line| (line.number, line.text.as_str()))
    }

    /// The same, with where they stand.
    pub(super) fn lines_with_rows(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// The number of the first line that is known; beyond all numbers if none is.
    pub fn oldest_known(&self) -> i64 {
        self.lines.first().map_or(i64::MAX, |line| line.number)
    }

    /// The number of the line that the cursor is in.
    pub fn cursor_line(&self) -> i64 {
        self.cursor_line
    }

    /// A gap before the next line.
    pub fn gap(&self, Loss { reason, evidence }: Loss) -> Change {
        Change::Gap {
            first_line: self.next,
            lost_lines: None,
            reason,
            evidence,
        }
    }

    /// Returns how many rows above the screen the topmost line begins that reaches into it.
    pub fn rows_above(&self) -> i64 {
        let unfinished = self.lines.iter().find(|line| line.start + line.rows > 0);
        unfinished.map_or(0, |line| (-line.start).max(0))
    }

    /// The lines above the cursor's, with their numbers.
    pub fn above_cursor(&self) -> Vec<(i64, &str)> {
        let above = self
            .lines
            .iter()
            .filter(|line| line.number < self.cursor_line);
        above
            .map(|line| (line.number, line.text.as_str()))
            .collect()
    }

    /// Marks all known lines as baseline: none of them is reported.
    pub fn mark_baseline(&mut self) {
        self.mark_known_above(i64::MAX);
    }

    /// Marks the lines above this one as known: their place is unsure, so none of them is reported.
    pub fn mark_known_above(&mut self, number: i64) {
        for line in self.lines.iter_mut().filter(|line| line.number < number) {
            (line.reported, line.same, line.stable) = (Reported::Current, true, true);
        }
    }

    /// Returns whether something is not said only because it has not stood for long enough.
    pub fn is_waiting(&self) -> bool {
        self.lines.iter().any(|line| {
            let to_say = line.number < self.cursor_line || line.reported_text() != line.text;
            line.number >= self.next && !line.stable && to_say
        })
    }

    /// Notes the lines that an earlier observer reported.
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

    /// At this time nothing had changed since the last capture.
    pub fn mark_unchanged(&mut self, at: Duration) {
        for line in &mut self.lines {
            line.same = true;
            line.stable |= at.saturating_sub(line.since) >= self.settle;
        }
    }

    /// No known line is left: what comes takes numbers that none had. Returns the first.
    pub fn lose(&mut self, loss: Loss, changes: &mut Vec<Change>) -> i64 {
        self.flush(changes);
        self.discard_lines();
        changes.push(self.gap(loss));
        self.next
    }

    /// Forgets all lines. The cursor's was unfinished, and perhaps shown: its number is spent then.
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

    /// The number of the first line of a pane with a new program: its history is known as far as
    /// it is old, its screen is new. `new_rows` of the history were not seen before.
    pub fn first_after_respawn(&mut self, lines: &[Logical], new_rows: i64) -> i64 {
        self.discard_lines();
        let is_old = |line: &&Logical| line.start < -new_rows;
        let old = lines.iter().take_while(is_old).count();
        self.next - old as i64
    }

    /// The number of the last line that is known; of the one before the next, when none is.
    pub fn last_number(&self) -> i64 {
        self.lines.last().map_or(self.next - 1, |line| line.number)
    }

    /// The line that reaches into the screen from above: its text, how many of its rows are above,
    /// and how many on the screen.
    pub fn reaching_in(&self) -> Option<(&str, u32, usize)> {
        let line = self
            .lines
            .iter()
            .find(|line| line.start < 0 && line.start + line.rows > 0)?;
        let above = u32::try_from(-line.start).ok()?;
        let below = usize::try_from(line.start + line.rows).ok()?;
        Some((&line.text, above, below))
    }

    /// So many lines are lost, that of the cursor first: they take numbers, and none is known.
    pub fn skip(&mut self, lines: u64) {
        self.lines.clear();
        self.next = self
            .next
            .saturating_add(i64::try_from(lines).unwrap_or(i64::MAX));
        self.cursor_line = self.next;
    }

    /// The number of the first line of a capture in which the known rows scrolled so far.
    pub fn first_number(&self, lines: &[Logical], scrolled: i64) -> i64 {
        let (Some(first), Some(oldest)) = (lines.first(), self.lines.first()) else {
            return self.next;
        };
        // The capture goes further back than what is known: older lines count down from there. One that
        // reaches into the oldest known line is that line, of which only the end was seen.
        let older = lines
            .iter()
            .take_while(|line| line.end() + scrolled <= oldest.start)
            .count();
        if older > 0 {
            return oldest.number - older as i64;
        }
        self.number_at(first.start + scrolled)
    }

    /// The number of the line that begins in a row, counted as the known lines are: in one of them,
    /// or right after the last.
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
        if start < known.start + known.rows {
            known.number
        } else {
            known.number + 1
        }
    }

    /// Makes the lines of a capture the known ones, numbered from `first` on.
    pub fn take(
        &mut self,
        lines: Vec<Logical>,
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
                // In the history, older than what is known, and perhaps only its end: it would seem
                // to change when a deeper capture shows all of it.
                continue;
            }
            let (reported, since, same, restless) = match was(number) {
                Some(old) => {
                    // A line of which tmux has only the end begins as it did.
                    let cut_rows = match moved {
                        Moved::By(rows) => line.start - (old.start - rows),
                        // Only a line that was finished is the same one for sure.
                        Moved::AtLeast(rows) if number < self.cursor_line => {
                            line.start - (old.start - rows)
                        }
                        Moved::AtLeast(_) | Moved::Unknown => 0,
                    };
                    if number == first && cut_rows > 0 {
                        let begin = old.text.strip_suffix(&line.text);
                        let begin = begin.unwrap_or_else(|| first_rows(&old.text, width, cut_rows));
                        line.text.insert_str(0, begin);
                        line.start -= cut_rows;
                        line.rows += cut_rows;
                    }
                    let same = old.text == line.text;
                    let since = if same { old.since } else { at };
                    let restless = !same && !old.same && old.reported != Reported::Nothing;
                    let reported = old.reported.carried_over(old.text, &line.text);
                    (reported, since, same, restless)
                }
                // Said long ago, and forgotten since: final.
                None if number < old_first || old_lines == 0 && number < self.next => {
                    (Reported::Current, Duration::ZERO, true, false)
                }
                // Said, and blank since then, below the text.
                None if number < self.next => (Reported::Outdated(String::new()), at, false, false),
                None => (Reported::Nothing, at, false, false),
            };
            let stable = same && at.saturating_sub(since) >= self.settle;
            let reported = match moved {
                // Whether it is the same line is not known: no word about it that may be wrong.
                Moved::AtLeast(_) if number < self.next => Reported::Current,
                _ => reported,
            };
            let Logical { start, rows, text } = line;
            self.lines.push(Line {
                number,
                start,
                rows,
                text,
                reported,
                since,
                same,
                stable,
                restless,
            });
        }
        // What vanished below the text is blank now, and keeps its number while there is room.
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

    /// Forgets lines that can neither change nor help to find the place.
    pub(super) fn prune(&mut self) {
        let oldest = -(KEPT_ROWS as i64);
        let next = self.next;
        let keep = self
            .lines
            .iter()
            .position(|line| line.start + line.rows > oldest || line.number >= next)
            .unwrap_or(self.lines.len());
        self.lines.drain(..keep);
    }
}
