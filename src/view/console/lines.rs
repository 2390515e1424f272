//! The lines of one pane as a reader knows them: which are printed, which are open, and which of those
//! printed read differently and wait until they rest (pure).
//!
//! A settled line is printed once. When it changes afterwards it is printed again, but only after it
//! has rested: of a progress display that is rewritten in place, the first and the last state are
//! lines, and all states between them are for the live rows of a terminal. The lines of a pane that
//! an agent draws wait for that from the beginning, because agents draw the same rows again and again
//! at other places.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::event::lines_in;

/// Lines of a pane that are remembered: more than its screen has, which is what programs rewrite.
const LINES_MAX: usize = 300;

/// How long a line that changes must stand to be printed again, in microseconds: longer than programs
/// take from one state of a progress display to the next, and soon enough for a reader.
pub(super) const REST: i64 = 1_500_000;

/// What is to be printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Print<'a> {
    /// Settled lines, each ended by `\n`, and the number of the first.
    Chunk(i64, &'a str),
    /// A line.
    Line(i64, &'a str),
    /// A line that was printed before and reads differently.
    Again(i64, &'a str),
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

    /// Takes in settled lines. `holds`: they are to rest first.
    pub fn settle(
        &mut self,
        first_line: i64,
        chunk: &str,
        (at, holds): (i64, bool),
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        let count = memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64;
        let end = first_line.saturating_add(count);
        self.skip_to(end);
        if count == 0 {
            return;
        }
        let mut known = self.known.range(first_line..end);
        let is_known = known.any(|(_, line)| line.printed.is_some());
        if !holds && !is_known {
            print(Print::Chunk(first_line, chunk));
        }
        // Of thousands of lines only the last can change.
        let kept = end.saturating_sub(LINES_MAX as i64);
        for (number, text) in (first_line..end).zip(lines_in(chunk)) {
            if holds {
                self.set(number, text, at, false);
                self.waits(number);
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

    /// Takes in what a line reads now; whether that is something else than it read before.
    pub fn revise(&mut self, number: i64, text: &str, at: i64) -> bool {
        let is_news = self.set(number, text, at, number < self.next);
        if number < self.next {
            self.waits(number);
        }
        is_news
    }

    /// Prints what has rested by now. `is_shown` says which rows are worth it.
    pub fn rest(
        &mut self,
        at: i64,
        is_shown: &dyn Fn(&str) -> bool,
        print: &mut dyn FnMut(Print<'_>),
    ) {
        if self.due().is_none_or(|due| due > at) {
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
    pub fn due(&self) -> Option<i64> {
        let waiting = self.waiting.iter();
        let changed = waiting.filter_map(|number| Some(self.known.get(number)?.changed));
        Some(changed.min()?.saturating_add(REST))
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
            }
        });
        is_news
    }

    fn waits(&mut self, number: i64) {
        let Some(line) = self.known.get(&number) else {
            return;
        };
        // A row that vanished is nothing to read, but for a blank line between others.
        let is_gone = line.text.is_empty() && (line.printed.is_some() || line.is_old);
        match is_gone || line.printed == Some(hash(&line.text)) {
            true => self.waiting.remove(&number),
            false => self.waiting.insert(number),
        };
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
            None if !line.is_old => print(Print::Line(number, text)),
            _ if text.is_empty() => {}
            _ => print(Print::Again(number, text)),
        }
        self.is_printed(number);
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

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
