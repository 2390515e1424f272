//! Decides when the lines of one pane are printed, rewritten, or printed again (pure).
//!
//! A settled line is printed once. If it changes while it is on the terminal's screen, it is rewritten in
//! place; later changes are printed as a new line once the text has stayed unchanged for a while. Without a
//! terminal, lines that are still on their pane's screen are held briefly, and rows that a program rewrites
//! are held until they stay unchanged, so that a progress display of several lines is printed once, in its
//! final state. Lines of agents are always held, because agents redraw the same rows at other positions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::lines::StyledLines;
use crate::event::{Style, line_ends_in};

/// The maximum number of lines to keep: programs rewrite only lines on their screen, which has fewer.
const LINES_MAX: usize = 300;

/// The time, in microseconds, that a changed line must stay unchanged before it is printed again: longer than
/// the steps of a progress display, and short enough for a reader.
const UNCHANGED: i64 = 1_500_000;

/// The time, in microseconds, that rewritten rows must stay unchanged while the program prints lines below
/// them. A growing display is rewritten sooner.
const PASSED: i64 = 500_000;

/// The settled lines to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    None,
    /// Holds the lines on a screen of this many rows, and prints them in order.
    OnScreen(i64),
    /// Holds each line until it has stayed unchanged for [`UNCHANGED`].
    Each,
}

/// Printed lines, with their numbers.
#[derive(Debug)]
pub(super) enum LineOutput<'a> {
    Chunk(StyledLines<'a>),
    Line(i64, &'a BufferedLine),
    /// The new text of a line that was printed before.
    Changed(i64, &'a BufferedLine),
    /// The new text of a printed line that is rewritten in place.
    Replace(i64, &'a BufferedLine),
    /// A printed line that was removed.
    Remove(i64),
    /// A full-screen program has started after the lines before this output.
    FullScreen,
}

/// Receives the output.
pub(super) struct LineSink<'a> {
    /// Returns true if a row is shown, and false for decoration.
    pub is_shown: &'a dyn Fn(&str) -> bool,
    pub emit: &'a mut dyn FnMut(LineOutput<'_>),
}

/// The lines of one pane, at most [`LINES_MAX`] of them.
#[derive(Debug)]
pub(super) struct LineBuffer {
    /// The number of the first line that has not settled.
    pub next: i64,
    known: BTreeMap<i64, BufferedLine>,
    /// Settled lines whose current text is not printed.
    waiting: BTreeSet<i64>,
    /// The hashes and numbers of the lines printed last.
    printed: VecDeque<(u64, i64)>,
}

#[derive(Debug)]
pub(super) struct BufferedLine {
    pub text: String,
    pub styles: Vec<Style>,
    /// The hash of its printed text.
    printed: Option<u64>,
    /// The time of its last change.
    pub changed: i64,
    /// True if the line is older than this buffer, such as a line of the baseline.
    is_old: bool,
    /// True if the line was rewritten after it had settled.
    is_redrawn: bool,
}

impl BufferedLine {
    /// Returns true if the line had a different text before, like rows of a progress display.
    fn is_rewritten(&self) -> bool {
        self.is_redrawn || self.printed.is_some() || self.is_old
    }
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self {
            next: 1,
            known: BTreeMap::new(),
            waiting: BTreeSet::new(),
            printed: VecDeque::new(),
        }
    }
}

impl LineBuffer {
    /// Skips the line numbers below `next`.
    pub fn skip_to(&mut self, next: i64) {
        self.next = self.next.max(next);
    }

    /// Adds settled lines.
    pub fn settle(
        &mut self,
        lines: StyledLines<'_>,
        (at, hold): (i64, Hold),
        sink: &mut LineSink<'_>,
    ) {
        let first_line = lines.first_line;
        let count = line_ends_in(lines.chunk);
        let end = first_line.saturating_add(count);
        self.skip_to(end);
        if count == 0 {
            return;
        }
        let held = match hold {
            Hold::None => end,
            Hold::OnScreen(rows) => {
                // The cursor is in the row below these lines.
                let top = end.saturating_sub(rows.saturating_sub(1));
                self.release(top, sink);
                top.clamp(first_line, end)
            }
            Hold::Each => first_line,
        };
        let mut known = self.known.range(first_line..held);
        let is_known = known.any(|(_, line)| line.printed.is_some());
        let (passes, _) = lines.split(held - first_line);
        if !passes.chunk.is_empty() && !is_known {
            (sink.emit)(LineOutput::Chunk(passes));
        }
        // Only the last lines of a long chunk can still change.
        let kept = end.saturating_sub(LINES_MAX as i64);
        for (number, text, styles) in lines.iter().take(count as usize) {
            if number >= held {
                self.set(number, (text, styles), at, false);
                self.set_waiting(number, false);
            } else if is_known {
                self.set(number, (text, styles), at, false);
                self.print(number, sink);
            } else if number >= kept {
                self.set(number, (text, styles), at, false);
                self.mark_printed(number);
            }
        }
        self.drop_oldest(sink);
    }

    /// Changes the text of a line; returns true if it differs. `is_printed` is true if the line can be
    /// rewritten in place.
    pub fn revise(
        &mut self,
        number: i64,
        (text, styles): (&str, &[Style]),
        (at, is_printed): (i64, bool),
        sink: &mut LineSink<'_>,
    ) -> bool {
        if number >= self.next {
            return self.set(number, (text, styles), at, false);
        }
        if let Some(line) = self.known.get_mut(&number) {
            let is_held = line.printed.is_none() && !line.is_old;
            if is_held && text.is_empty() && !line.is_redrawn {
                // The program printed the line and then erased its row: the line stays.
                return false;
            }
            line.is_redrawn |= !text.is_empty() && line.text != text;
        }
        let is_new = self.set(number, (text, styles), at, true);
        if let Some(line) = self.known.get(&number)
            && let Some(printed) = line.printed
            && is_printed
            && !text.is_empty()
        {
            self.waiting.remove(&number);
            if printed != hash(text) {
                (sink.emit)(LineOutput::Replace(number, line));
                self.mark_printed(number);
            }
            return is_new;
        }
        self.set_waiting(number, is_printed);
        is_new
    }

    /// Prints the lines that are due.
    pub fn release_due(&mut self, (at, hold): (i64, Hold), sink: &mut LineSink<'_>) {
        if let Hold::OnScreen(_) = hold {
            while let Some((first, due)) = self.due_first() {
                if due > at {
                    return;
                }
                self.print_held(first, sink);
            }
            return;
        }
        if self.deadline(hold).is_none_or(|due| due > at) {
            return;
        }
        let is_due = |number: &i64| {
            let line = self.known.get(number);
            line.is_none_or(|line| line.changed.saturating_add(UNCHANGED) <= at)
        };
        let due: Vec<i64> = self.waiting.iter().copied().filter(is_due).collect();
        for number in due {
            self.print_waiting(number, sink);
        }
    }

    /// Returns the next time, in microseconds, at which a line is due.
    pub fn deadline(&self, hold: Hold) -> Option<i64> {
        if let Hold::OnScreen(_) = hold {
            return Some(self.due_first()?.1);
        }
        let waiting = self.waiting.iter();
        let changed = waiting.filter_map(|number| Some(self.known.get(number)?.changed));
        Some(changed.min()?.saturating_add(UNCHANGED))
    }

    /// Returns the first line that is held in order, and the time at which it is due.
    fn due_first(&self) -> Option<(i64, i64)> {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter_map(|number| Some((*number, self.known.get(number)?)));
        let (mut first, mut redrawn, mut behind) = (None, None, None);
        // The time of the last change of any line, and of the rows down to the last rewritten one.
        let (mut changed, mut display) = (i64::MIN, i64::MIN);
        for (number, line) in waiting {
            first = first.or(Some((number, line)));
            changed = changed.max(line.changed);
            if line.is_rewritten() {
                (redrawn, display, behind) = (Some(number), changed, None);
            } else if line.changed >= display {
                behind = behind.or(Some(line.changed));
            }
        }
        let (number, line) = first?;
        let unchanged = display.saturating_add(UNCHANGED);
        let passed = behind.map_or(unchanged, |at| at.saturating_add(PASSED));
        let unchanged = unchanged.min(passed);
        let due = match redrawn {
            // A line that was never rewritten. Most displays are rewritten at least ten times a second, and a
            // quarter of a second is hardly noticeable on a pipe.
            None => line.changed.saturating_add(250_000),
            // One row that stays unchanged while others are rewritten may be a message that was inserted above
            // a display that runs for hours.
            Some(_) if line.is_rewritten() => unchanged.min(line.changed.saturating_add(3_000_000)),
            Some(_) => unchanged,
        };
        Some((number, due))
    }

    /// Prints the held lines below this number.
    pub fn release(&mut self, end: i64, sink: &mut LineSink<'_>) {
        while let Some(first) = self.waiting.first().copied().filter(|first| *first < end) {
            self.print_held(first, sink);
        }
    }

    /// Prints all waiting lines, and the open lines up to this number.
    pub fn flush(&mut self, last: i64, sink: &mut LineSink<'_>) {
        for number in std::mem::take(&mut self.waiting) {
            self.print_waiting(number, sink);
        }
        if last < self.next {
            return;
        }
        let open = self.known.range(self.next..=last);
        let open: Vec<i64> = open.map(|(number, _)| *number).collect();
        let mut blanks = Vec::new();
        for number in open {
            let text = self.known.get(&number).map_or("", |line| &line.text);
            if text.is_empty() {
                blanks.push(number);
            } else if (sink.is_shown)(text) {
                // A blank open row counts as a line only above a row with text.
                for blank in std::mem::take(&mut blanks) {
                    if (sink.is_shown)("") {
                        self.print(blank, sink);
                    }
                }
                self.print(number, sink);
            }
        }
    }

    /// Returns the open and changing lines with their numbers.
    pub fn live(&self) -> impl Iterator<Item = (i64, &BufferedLine)> {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter_map(|number| Some((*number, self.known.get(number)?)));
        let open = self.known.range(self.next..).map(|(n, line)| (*n, line));
        let open = open.filter(|(_, line)| line.printed.is_none());
        waiting
            .chain(open)
            .filter(|(_, line)| !line.text.is_empty())
    }

    /// Returns the number of the last open line with text.
    pub fn last_open(&self) -> Option<i64> {
        let mut open = self.known.range(self.next..).rev();
        let last = open.find(|(_, line)| !line.text.is_empty())?;
        Some(*last.0)
    }

    /// Sets the text of a line; returns true if it differs.
    fn set(
        &mut self,
        number: i64,
        (text, styles): (&str, &[Style]),
        at: i64,
        is_old: bool,
    ) -> bool {
        let is_known = self.known.contains_key(&number);
        let line = self.known.entry(number).or_insert_with(|| BufferedLine {
            text: String::new(),
            styles: Vec::new(),
            printed: None,
            changed: at,
            is_old,
            is_redrawn: false,
        });
        let is_new = line.text != text;
        if is_new && is_known {
            line.changed = at;
        }
        text.clone_into(&mut line.text);
        styles.clone_into(&mut line.styles);
        is_new
    }

    fn set_waiting(&mut self, number: i64, is_printed: bool) {
        let Some(line) = self.known.get(&number) else {
            return;
        };
        // An erased row is not printed. A printed line is removed only if its program has rewritten it.
        let is_gone = line.text.is_empty() && (line.printed.is_some() || line.is_old);
        let stays = is_gone && !(is_printed && line.is_redrawn);
        if stays || line.printed == Some(hash(&line.text)) {
            self.waiting.remove(&number)
        } else {
            self.waiting.insert(number)
        };
    }

    fn mark_printed(&mut self, number: i64) {
        let Some(line) = self.known.get_mut(&number) else {
            return;
        };
        let printed = hash(&line.text);
        line.printed = Some(printed);
        self.printed.push_back((printed, number));
        if self.printed.len() > LINES_MAX {
            self.printed.pop_front();
        }
    }

    /// Prints a line, unless its current text is printed already.
    fn print(&mut self, number: i64, sink: &mut LineSink<'_>) {
        self.waiting.remove(&number);
        let Some(line) = self.known.get(&number) else {
            return;
        };
        let text = line.text.as_str();
        match line.printed {
            Some(printed) if printed == hash(text) => return,
            // A row of a display that its program has removed.
            None if line.is_redrawn && text.is_empty() => {}
            None if !line.is_old => (sink.emit)(LineOutput::Line(number, line)),
            Some(_) if text.is_empty() => (sink.emit)(LineOutput::Remove(number)),
            _ if text.is_empty() => {}
            _ => (sink.emit)(LineOutput::Changed(number, line)),
        }
        self.mark_printed(number);
    }

    /// Prints a held line. Decoration is omitted only if the line was printed before.
    fn print_held(&mut self, number: i64, sink: &mut LineSink<'_>) {
        let line = self.known.get(&number);
        if line.is_some_and(|line| line.printed.is_none() && !line.is_old) {
            self.print(number, sink)
        } else {
            self.print_waiting(number, sink)
        }
    }

    fn print_waiting(&mut self, number: i64, sink: &mut LineSink<'_>) {
        self.waiting.remove(&number);
        let Some(line) = self.known.get(&number) else {
            return;
        };
        if !(sink.is_shown)(&line.text) {
            return;
        }
        if self.has_moved(number, hash(&line.text)) {
            self.mark_printed(number)
        } else {
            self.print(number, sink)
        }
    }

    /// Returns true if the text has moved: it was printed for a line that now has a different text.
    fn has_moved(&self, number: i64, text: u64) -> bool {
        let mut printed = self.printed.iter().rev();
        printed.any(|(old, at)| {
            let now = self.known.get(at).map(|line| hash(&line.text));
            *old == text && *at != number && now.is_some_and(|now| now != text)
        })
    }

    /// Drops the oldest lines, which cannot change any more, and prints those that are waiting.
    fn drop_oldest(&mut self, sink: &mut LineSink<'_>) {
        while self.known.len() > LINES_MAX {
            let Some((number, _)) = self.known.first_key_value() else {
                return;
            };
            let number = *number;
            if self.waiting.contains(&number) {
                self.print_waiting(number, sink);
            }
            self.known.remove(&number);
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
