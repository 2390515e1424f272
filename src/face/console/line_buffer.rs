//! The lines of one pane as a reader knows them: which are printed, which are open, and which of those
//! printed read differently and wait until they rest (pure).
//!
//! A settled line is printed once. When it changes afterwards it is rewritten where it stands on a
//! terminal's screen. Where it does not stand there any more it is printed again, but only after it
//! has rested. Elsewhere than on a terminal, lines that are still on their pane's screen are held for
//! a moment, and rows that a program rewrites until they rest: a progress display of several lines is
//! printed once, as it reads at last. The lines of a pane that an agent draws wait in any case,
//! because agents draw the same rows again and again at other places.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::event::lines_in;

/// Lines of a pane that are remembered: more than its screen has, which is what programs rewrite.
const LINES_MAX: usize = 300;

/// How long a line that changes must stand to be printed again, in microseconds: longer than programs
/// take from one state of a progress display to the next, and soon enough for a reader.
pub(super) const REST: i64 = 1_500_000;

/// How long a held line must stand that was not rewritten, in microseconds: most displays are
/// rewritten ten times a second or more often, and no reader of a pipe notices a quarter of a second.
const STANDS: i64 = 250_000;

/// How long rewritten rows must stand below which the program has gone on to print lines, in
/// microseconds. A display that grows is rewritten sooner.
const LEFT_BEHIND: i64 = 500_000;

/// How long one of several rows must stand while the others are still rewritten, in microseconds: it
/// may be a message that was put in above a display which runs for hours.
const ROW_STANDS: i64 = 3_000_000;

/// Whether settled lines are printed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    No,
    /// Those on a screen of so many rows are held, and printed in their order.
    OnScreen(i64),
    /// Each is held until it has rested, for [`REST`].
    Each,
}

/// What is to be printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Print<'a> {
    /// Settled lines, each ended by `\n`, and the number of the first.
    Chunk(i64, &'a str),
    /// A line.
    Line(i64, &'a str),
    /// A line that was printed before and reads differently.
    Again(i64, &'a str),
    /// The same, where it stands.
    Over(i64, &'a str),
    /// A line that was printed before and has vanished.
    Gone(i64),
}

/// The lines of one pane, at most [`LINES_MAX`].
#[derive(Debug)]
pub(super) struct Lines {
    /// The number of the first line that is not settled.
    next: i64,
    known: BTreeMap<i64, Line>,
    /// Settled lines that are not printed as they read now.
    waiting: BTreeSet<i64>,
    /// What was printed of the last lines, and where it stood.
    printed: VecDeque<(u64, i64)>,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// What was printed of it.
    printed: Option<u64>,
    /// When it was last changed.
    changed: i64,
    /// It was there before it was seen to change.
    is_old: bool,
    /// It was rewritten after it had settled.
    is_redrawn: bool,
}

impl Line {
    /// Whether it read differently before, as a row of a display does.
    fn is_rewritten(&self) -> bool {
        self.is_redrawn || self.printed.is_some() || self.is_old
    }
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            next: 1,
            known: BTreeMap::new(),
            waiting: BTreeSet::new(),
            printed: VecDeque::new(),
        }
    }
}

impl Lines {
    pub fn next(&self) -> i64 {
        self.next
    }

    /// Lines below this number are spent.
    pub fn skip_to(&mut self, next: i64) {
        self.next = self.next.max(next);
    }

    /// Takes in settled lines.
    pub fn settle(
        &mut self,
        first_line: i64,
        chunk: &str,
        (at, holds): (i64, Holds),
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        let count = memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64;
        let end = first_line.saturating_add(count);
        self.skip_to(end);
        if count == 0 {
            return;
        }
        let held = match holds {
            Holds::No => end,
            Holds::OnScreen(rows) => {
                // The cursor is in the line behind these.
                let top = end.saturating_sub(rows.saturating_sub(1));
                self.release(top, is_shown, print);
                top.clamp(first_line, end)
            }
            Holds::Each => first_line,
        };
        let mut known = self.known.range(first_line..held);
        let is_known = known.any(|(_, line)| line.printed.is_some());
        let (passes, _) = split(chunk, held - first_line);
        if !passes.is_empty() && !is_known {
            print(Print::Chunk(first_line, passes));
        }
        // Of thousands of lines only the last can change.
        let kept = end.saturating_sub(LINES_MAX as i64);
        for (number, text) in (first_line..end).zip(lines_in(chunk)) {
            if number >= held {
                self.set(number, text, at, false);
                self.waits(number, false);
            } else if is_known {
                self.set(number, text, at, false);
                self.print(number, print);
            } else if number >= kept {
                self.set(number, text, at, false);
                self.is_printed(number);
            }
        }
        self.forget(is_shown, print);
    }

    /// Takes in what a line reads now; whether that is something else than it read before. `is_there`:
    /// it can be rewritten where it stands.
    pub fn revise(
        &mut self,
        number: i64,
        text: &str,
        (at, is_there): (i64, bool),
        print: &mut dyn FnMut(Print<'_>),
    ) -> bool {
        if number >= self.next {
            return self.set(number, text, at, false);
        }
        if let Some(line) = self.known.get_mut(&number) {
            let is_held = line.printed.is_none() && !line.is_old;
            if is_held && text.is_empty() && !line.is_redrawn {
                // It was printed as it reads, and its row erased: that takes no line back.
                return false;
            }
            line.is_redrawn |= !text.is_empty() && line.text != text;
        }
        let is_news = self.set(number, text, at, true);
        let line = self.known.get(&number);
        let was_printed = line.is_some_and(|line| line.printed.is_some());
        if is_there && was_printed && !text.is_empty() {
            self.waiting.remove(&number);
            if self.print_news(number) {
                print(Print::Over(number, text));
            }
            return is_news;
        }
        self.waits(number, is_there);
        is_news
    }

    /// Prints what has rested by now. `is_shown` says which rows are worth it.
    pub fn rest(
        &mut self,
        (at, holds): (i64, Holds),
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        if let Holds::OnScreen(_) = holds {
            while let Some((first, due)) = self.due_first() {
                if due > at {
                    return;
                }
                self.print_held(first, is_shown, print);
            }
            return;
        }
        if self.due(holds).is_none_or(|due| due > at) {
            return;
        }
        let rests = |number: &i64| {
            let line = self.known.get(number);
            line.is_none_or(|line| line.changed.saturating_add(REST) <= at)
        };
        let due: Vec<i64> = self.waiting.iter().copied().filter(rests).collect();
        for number in due {
            self.print_waiting(number, is_shown, print);
        }
    }

    /// When a line will have rested.
    pub fn due(&self, holds: Holds) -> Option<i64> {
        if let Holds::OnScreen(_) = holds {
            return Some(self.due_first()?.1);
        }
        let waiting = self.waiting.iter();
        let changed = waiting.filter_map(|number| Some(self.known.get(number)?.changed));
        Some(changed.min()?.saturating_add(REST))
    }

    /// Of lines that are held in their order, the first, and when it has stood for long enough.
    fn due_first(&self) -> Option<(i64, i64)> {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter_map(|number| Some((*number, self.known.get(number)?)));
        let (mut first, mut redrawn, mut behind) = (None, None, None);
        // When any of them changed, and when the rows up to the last that was rewritten did.
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
        let rests = display.saturating_add(REST);
        let left = behind.map_or(rests, |at| at.saturating_add(LEFT_BEHIND));
        let rests = rests.min(left);
        let due = match redrawn {
            None => line.changed.saturating_add(STANDS),
            Some(_) if line.is_rewritten() => rests.min(line.changed.saturating_add(ROW_STANDS)),
            Some(_) => rests,
        };
        Some((number, due))
    }

    /// Prints the held lines below this number as they read now.
    pub fn release(
        &mut self,
        end: i64,
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        while let Some(first) = self.waiting.first().copied().filter(|first| *first < end) {
            self.print_held(first, is_shown, print);
        }
    }

    /// Prints what waits, and the open lines up to this number, as the last that they read.
    pub fn flush(
        &mut self,
        last: i64,
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        for number in std::mem::take(&mut self.waiting) {
            self.print_waiting(number, is_shown, print);
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
            } else if is_shown(text) {
                // Blank lines are lines only above one that has text.
                for blank in std::mem::take(&mut blanks) {
                    if is_shown("") {
                        self.print(blank, print);
                    }
                }
                self.print(number, print);
            }
        }
    }

    /// What is open or changes: number, text, and when it changed.
    pub fn live(&self) -> impl Iterator<Item = (i64, &str, i64)> {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter_map(|number| Some((*number, self.known.get(number)?)));
        let open = self.known.range(self.next..).map(|(n, line)| (*n, line));
        let open = open.filter(|(_, line)| line.printed.is_none());
        let live = waiting.chain(open);
        live.filter(|(_, line)| !line.text.is_empty())
            .map(|(number, line)| (number, line.text.as_str(), line.changed))
    }

    /// The number of the last open line that has text.
    pub fn last_open(&self) -> Option<i64> {
        let mut open = self.known.range(self.next..).rev();
        let last = open.find(|(_, line)| !line.text.is_empty())?;
        Some(*last.0)
    }

    fn set(&mut self, number: i64, text: &str, at: i64, is_old: bool) -> bool {
        let line = self.known.entry(number);
        let mut is_news = false;
        line.and_modify(|line| {
            if line.text != text {
                text.clone_into(&mut line.text);
                line.changed = at;
                is_news = true;
            }
        })
        .or_insert_with(|| {
            is_news = !text.is_empty();
            Line {
                text: text.to_owned(),
                printed: None,
                changed: at,
                is_old,
                is_redrawn: false,
            }
        });
        is_news
    }

    fn waits(&mut self, number: i64, is_there: bool) {
        let Some(line) = self.known.get(&number) else {
            return;
        };
        // A row that vanished is nothing to read, but for a blank line between others, and nothing to
        // take away unless its program rewrote it: what was printed stays.
        let is_gone = line.text.is_empty() && (line.printed.is_some() || line.is_old);
        let stays = is_gone && !(is_there && line.is_redrawn);
        match stays || line.printed == Some(hash(&line.text)) {
            true => self.waiting.remove(&number),
            false => self.waiting.insert(number),
        };
    }

    /// Whether a line reads differently than it was printed; it counts as printed now.
    fn print_news(&mut self, number: i64) -> bool {
        let line = self.known.get(&number);
        let is_news = line.is_some_and(|line| line.printed != Some(hash(&line.text)));
        if is_news {
            self.is_printed(number);
        }
        is_news
    }

    fn is_printed(&mut self, number: i64) {
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

    /// Prints a line that was printed before only if it reads differently.
    fn print(&mut self, number: i64, print: &mut dyn FnMut(Print<'_>)) {
        self.waiting.remove(&number);
        let Some(line) = self.known.get(&number) else {
            return;
        };
        let text = line.text.as_str();
        match line.printed {
            Some(printed) if printed == hash(text) => return,
            // A row of a display that its program took away.
            None if line.is_redrawn && text.is_empty() => {}
            None if !line.is_old => print(Print::Line(number, text)),
            Some(_) if text.is_empty() => print(Print::Gone(number)),
            _ if text.is_empty() => {}
            _ => print(Print::Again(number, text)),
        }
        self.is_printed(number);
    }

    /// Prints a line that was held: as all others, but for those that were printed before.
    fn print_held(
        &mut self,
        number: i64,
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        let line = self.known.get(&number);
        match line.is_some_and(|line| line.printed.is_none() && !line.is_old) {
            true => self.print(number, print),
            false => self.print_waiting(number, is_shown, print),
        }
    }

    fn print_waiting(
        &mut self,
        number: i64,
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        self.waiting.remove(&number);
        let Some(line) = self.known.get(&number) else {
            return;
        };
        if !is_shown(&line.text) {
            return;
        }
        match self.stood_elsewhere(number, hash(&line.text)) {
            true => self.is_printed(number),
            false => self.print(number, print),
        }
    }

    /// Whether the text was printed of another line, which does not read so any more: it has moved.
    fn stood_elsewhere(&self, number: i64, text: u64) -> bool {
        let mut printed = self.printed.iter().rev();
        printed.any(|(old, at)| {
            let now = self.known.get(at).map(|line| hash(&line.text));
            *old == text && *at != number && now.is_some_and(|now| now != text)
        })
    }

    /// What waits and is forgotten will not change any more.
    fn forget(&mut self, is_shown: &dyn Fn(&str) -> bool, print: &mut dyn FnMut(Print<'_>)) {
        while self.known.len() > LINES_MAX {
            let Some((number, _)) = self.known.first_key_value() else {
                return;
            };
            let number = *number;
            if self.waiting.contains(&number) {
                self.print_waiting(number, is_shown, print);
            }
            self.known.remove(&number);
        }
    }
}

/// So many lines of a chunk, and those behind them.
pub(super) fn split(chunk: &str, count: i64) -> (&str, &str) {
    let Some(last) = usize::try_from(count).ok().and_then(|n| n.checked_sub(1)) else {
        return ("", chunk);
    };
    let end = memchr::memchr_iter(b'\n', chunk.as_bytes()).nth(last);
    end.map_or((chunk, ""), |end| chunk.split_at(end + 1))
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
