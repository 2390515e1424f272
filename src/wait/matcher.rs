//! Looks at one pane against what is waited for: what is new, and is not an echo, matches (pure).

use std::collections::{HashMap, HashSet, VecDeque};

use super::echo::Echo;
use super::needle::Needle;
use crate::track::Change;

/// The last lines of a pane that an outcome shows.
const LAST_LINES: usize = 20;

/// What is looked for, in the order of what decides when one line has both.
#[derive(Clone, Debug, Default)]
pub(super) struct Needles {
    pub wanted: Vec<Needle>,
    pub stops: Vec<Needle>,
}

/// A line that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// It is one that ends the wait without success.
    pub is_stop: bool,
    /// Which of the needles.
    pub needle: usize,
    pub line: i64,
    pub text: String,
}

/// Matches the lines of one pane.
#[derive(Debug)]
pub(super) struct Matcher {
    needles: Needles,
    /// What stood there before, by number; what reads so still is not new.
    before: HashMap<i64, String>,
    /// The same by text: a program that draws its screen anew, one row further down, prints nothing.
    before_texts: HashSet<String>,
    echo: Echo,
    last: VecDeque<(i64, String)>,
}

/// What a look showed.
pub(super) struct Shown<'a> {
    pub changes: &'a [Change],
    /// The lines that stand on the screen, or just above it.
    pub standing: Vec<(i64, &'a str)>,
    /// The line of the cursor, and how much of its text stands before the cursor.
    pub cursor: (i64, &'a str),
}

impl Matcher {
    /// Begins with what stands on a pane.
    pub fn baseline(needles: Needles, standing: &[(i64, &str)], cursor: (i64, &str)) -> Self {
        let mut matcher = Self::fresh(needles);
        for (number, text) in standing {
            matcher.before.insert(*number, (*text).to_owned());
            matcher.before_texts.insert(text.trim_end().to_owned());
        }
        matcher.keep_last(standing);
        matcher.echo.note(cursor.0, cursor.1);
        matcher
    }

    /// Begins with a pane whose text is all new.
    pub fn fresh(needles: Needles) -> Self {
        Self {
            needles,
            before: HashMap::new(),
            before_texts: HashSet::new(),
            echo: Echo::default(),
            last: VecDeque::new(),
        }
    }

    /// The first line that matches.
    pub fn look(&mut self, shown: &Shown<'_>) -> Option<Hit> {
        let mut found = None;
        for change in shown.changes {
            if let Change::Lines { first_line, chunk } = change {
                for (number, text) in (*first_line..).zip(chunk.split_terminator('\n')) {
                    self.keep(number, text);
                    first(&mut found, self.hit(number, text));
                }
            }
        }
        for (number, text) in &shown.standing {
            first(&mut found, self.hit(*number, text));
        }
        self.keep_last(&shown.standing);
        self.echo.note(shown.cursor.0, shown.cursor.1);
        found
    }

    /// Rows of a full-screen program that have changed.
    pub fn screen(&self, rows: &[crate::event::ScreenRow]) -> Option<Hit> {
        let mut found = None;
        for row in rows {
            if !self.before_texts.contains(row.text.trim_end()) {
                first(&mut found, self.matched(i64::from(row.row), &row.text, 0));
            }
        }
        found
    }

    /// The last lines, oldest first.
    pub fn last_lines(&self) -> Vec<String> {
        self.last.iter().map(|(_, text)| text.clone()).collect()
    }

    fn hit(&self, number: i64, text: &str) -> Option<Hit> {
        let mut known = 0;
        if let Some(before) = self.before.get(&number) {
            if before.trim_end() == text.trim_end() {
                return None;
            }
            if text.starts_with(before.as_str()) {
                known = before.len();
            } else if self.before_texts.contains(text.trim_end()) {
                return None;
            }
        }
        if self.echo.is_typed(number, text) {
            return None;
        }
        self.matched(number, text, known)
    }

    fn matched(&self, line: i64, text: &str, known: usize) -> Option<Hit> {
        let find = |needles: &[Needle]| needles.iter().position(|needle| needle.is_in(text, known));
        let (is_stop, needle) = match find(&self.needles.wanted) {
            Some(needle) => (false, needle),
            None => (true, find(&self.needles.stops)?),
        };
        Some(Hit {
            is_stop,
            needle,
            line,
            text: text.to_owned(),
        })
    }

    fn keep(&mut self, number: i64, text: &str) {
        self.last.retain(|(known, _)| *known < number);
        if self.last.len() >= LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back((number, text.to_owned()));
    }

    fn keep_last(&mut self, standing: &[(i64, &str)]) {
        let used = standing
            .iter()
            .rposition(|(_, text)| !text.trim().is_empty())
            .map_or(0, |last| last + 1);
        let from = used.saturating_sub(LAST_LINES);
        for (number, text) in &standing[from..used] {
            self.keep(*number, text);
        }
    }
}

/// Keeps the one whose line comes first.
fn first(found: &mut Option<Hit>, hit: Option<Hit>) {
    if let Some(hit) = hit
        && found.as_ref().is_none_or(|known| hit.line < known.line)
    {
        *found = Some(hit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needles() -> Needles {
        Needles {
            wanted: vec![Needle::text("DONE").unwrap()],
            stops: vec![Needle::regex("^error").unwrap()],
        }
    }

    fn shown<'a>(changes: &'a [Change], standing: &[(i64, &'a str)]) -> Shown<'a> {
        Shown {
            changes,
            standing: standing.to_vec(),
            cursor: standing.last().copied().unwrap_or_default(),
        }
    }

    fn lines(first_line: i64, chunk: &str) -> Change {
        Change::Lines {
            first_line,
            chunk: chunk.to_owned(),
        }
    }

    fn found(matcher: &mut Matcher, changes: &[Change], standing: &[(i64, &str)]) -> Option<i64> {
        matcher.look(&shown(changes, standing)).map(|hit| hit.line)
    }

    #[test]
    fn what_stood_there_never_matches() {
        let before = [(-1, "DONE"), (0, "DONE again"), (1, "almost DONE ")];
        let mut matcher = Matcher::baseline(needles(), &before, (1, "almost DONE "));
        assert_eq!(found(&mut matcher, &[], &before), None);
        // Drawn anew one row lower, and gone on with.
        let drawn = [(-1, "x"), (0, "DONE"), (1, "DONE again")];
        assert_eq!(found(&mut matcher, &[], &drawn), None);
        assert_eq!(found(&mut matcher, &[], &[(1, "almost DONE yes")]), None);
        let hit = found(&mut matcher, &[], &[(1, "almost DONE and DONE")]);
        assert_eq!(hit, Some(1));
        assert_eq!(found(&mut matcher, &[], &[(2, "DONE")]), Some(2));
        assert_eq!(found(&mut matcher, &[lines(7, "DONE\n")], &[]), Some(7));
    }

    #[test]
    fn the_first_line_decides_and_the_needle_in_one_line() {
        let mut matcher = Matcher::fresh(needles());
        let hit = matcher.look(&shown(&[lines(3, "x\nerror: y\nDONE\n")], &[]));
        assert!(hit.is_some_and(|hit| hit.is_stop && hit.line == 4));
        let hit = matcher.look(&shown(&[], &[(9, "error DONE")]));
        assert!(hit.is_some_and(|hit| !hit.is_stop));
    }

    #[test]
    fn an_echo_does_not_match() {
        let mut matcher = Matcher::baseline(needles(), &[(1, "$ ")], (1, "$ "));
        let typed = [(1, "$ echo DONE")];
        assert_eq!(found(&mut matcher, &[], &typed), None);
        let run = [(1, "$ echo DONE"), (2, "DONE"), (3, "$ ")];
        assert_eq!(found(&mut matcher, &[], &run), Some(2));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut matcher = Matcher::fresh(needles());
        let all: String = (1..=30).map(|n| format!("{n}\n")).collect();
        matcher.look(&shown(
            &[lines(1, &all)],
            &[(30, "30"), (31, "open"), (32, "")],
        ));
        let last = matcher.last_lines();
        assert_eq!(last.len(), 20);
        assert_eq!(last.first().map(String::as_str), Some("12"));
        assert_eq!(last.last().map(String::as_str), Some("open"));
    }
}
