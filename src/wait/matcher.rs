//! Looks at one pane against what is waited for: what is new, and is not an echo, matches (pure).

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::echo::EchoDetector;
use super::pattern::Pattern;
use crate::event::lines_in;
use crate::track::Change;

/// The last lines of a pane that an outcome shows.
const LAST_LINES: usize = 20;

/// What is looked for, in the order of what decides when one line has both.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    pub wanted: Vec<Pattern>,
    pub stops: Vec<Pattern>,
}

impl Patterns {
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.stops.is_empty()
    }
}

/// A line that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineMatch {
    pub what: MatchKind,
    pub line: i64,
    pub text: String,
}

/// What was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MatchKind {
    /// One of the patterns.
    Wanted(usize),
    /// One of those that end the wait without success.
    Stop(usize),
    /// The end of a turn, with this marker.
    Turn(String),
}

/// Matches the lines of one pane.
#[derive(Debug)]
pub(super) struct Matcher {
    patterns: Patterns,
    /// What stood there before, by number; what reads so still is not new.
    before: HashMap<i64, String>,
    /// The same by text: a program that draws its screen anew, one row further down, prints nothing.
    before_texts: HashSet<String>,
    /// Where the cursor stood: what comes from there on is printed, what changes above is drawn.
    cursor_line: i64,
    /// What of it stands on other lines now.
    moved: HashMap<i64, String>,
    /// What lies before this line was there, too, and was not looked at.
    oldest: i64,
    /// Lines of which only the end was seen, the rows before it being lost.
    cut: BTreeSet<i64>,
    echo: EchoDetector,
    last: VecDeque<(i64, String)>,
}

/// What a look showed.
pub(super) struct PaneLines<'a> {
    pub changes: &'a [Change],
    /// The lines that stand on the screen, or just above it.
    pub standing: Vec<(i64, &'a str)>,
    /// The line of the cursor, and how much of its text stands before the cursor.
    pub cursor: (i64, &'a str),
    pub numbers: Numbering,
    /// The line that follows a hole: its beginning may be lost with what was before it.
    pub after_hole: Option<i64>,
}

/// What became of the numbers of lines with a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Each line has the one that it had.
    GoOn,
    /// What stood on the screen may stand there still, under another one.
    Anew,
    /// Any line may have another one.
    Lost,
}

impl Matcher {
    /// Begins with what stands on a pane.
    pub fn baseline(patterns: Patterns, standing: &[(i64, &str)], cursor: (i64, &str)) -> Self {
        let mut matcher = Self::fresh(patterns);
        matcher.stand_on(standing, cursor.0);
        matcher.keep_last(standing);
        matcher.echo.note(cursor.0, cursor.1);
        matcher
    }

    /// Begins with a pane whose text is all new.
    pub fn fresh(patterns: Patterns) -> Self {
        Self {
            patterns,
            before: HashMap::new(),
            before_texts: HashSet::new(),
            cursor_line: i64::MIN,
            moved: HashMap::new(),
            oldest: i64::MIN,
            cut: BTreeSet::new(),
            echo: EchoDetector::default(),
            last: VecDeque::new(),
        }
    }

    /// A full-screen program shows these rows already.
    pub fn baseline_screen<'a>(&mut self, rows: impl Iterator<Item = &'a str>) {
        let texts = rows.map(|text| text.trim_end().to_owned());
        self.before_texts.extend(texts);
    }

    /// What stands there is not new, nor is what lies before it.
    fn stand_on(&mut self, standing: &[(i64, &str)], cursor_line: i64) {
        for (number, text) in standing {
            self.before.insert(*number, (*text).to_owned());
            self.before_texts.insert(text.trim_end().to_owned());
        }
        self.cursor_line = cursor_line;
        self.oldest = standing.first().map_or(i64::MIN, |(number, _)| *number);
    }

    /// The first line that matches.
    pub fn look(&mut self, shown: &PaneLines<'_>) -> Option<LineMatch> {
        match shown.numbers {
            Numbering::GoOn => {}
            Numbering::Anew => self.find_again(shown),
            Numbering::Lost => self.stand_on(&shown.standing, shown.cursor.0),
        }
        self.find_moved(&shown.standing);
        if let Some((first, _)) = shown.standing.first() {
            // What has scrolled away is looked at no more.
            self.cut.retain(|line| line >= first);
        }
        self.cut.extend(shown.after_hole);
        let mut found = None;
        for (number, text) in shown.changes.iter().flat_map(lines_of) {
            self.keep(number, text);
            first(&mut found, self.hit(number, text));
        }
        for (number, text) in &shown.standing {
            first(&mut found, self.hit(*number, text));
        }
        self.keep_last(&shown.standing);
        self.echo.note(shown.cursor.0, shown.cursor.1);
        found
    }

    /// Rows of a full-screen program that have changed.
    pub fn screen(&self, rows: &[crate::event::ScreenRow]) -> Option<LineMatch> {
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

    /// Lines that read as something that stood there are taken to be the same: what is printed
    /// anew would be told from it by nothing.
    fn find_again(&mut self, shown: &PaneLines<'_>) {
        let lines = shown.changes.iter().flat_map(lines_of);
        for (number, text) in lines.chain(shown.standing.iter().copied()) {
            if self.before_texts.contains(text.trim_end()) {
                self.before.insert(number, text.to_owned());
            }
        }
    }

    /// Lines that stood there, and of which others have taken the place, may have been moved up or
    /// down on the screen: as often as they are gone, the same text elsewhere is not new.
    fn find_moved(&mut self, standing: &[(i64, &str)]) {
        let mut gone: HashMap<&str, usize> = HashMap::new();
        for (number, text) in standing {
            if let Some(before) = self.before.get(number).map(|before| before.trim_end())
                && !before.is_empty()
                && !text.starts_with(before)
            {
                *gone.entry(before).or_default() += 1;
            }
        }
        if gone.is_empty() {
            return;
        }
        let elsewhere = standing
            .iter()
            .filter(|(number, _)| !self.before.contains_key(number));
        let was_moved = |(number, text): &&(i64, &str)| {
            let known = self.moved.get(number);
            known.is_some_and(|known| known == text.trim_end())
        };
        let (known, others): (Vec<_>, Vec<_>) = elsewhere.partition(was_moved);
        let mut moved = HashMap::new();
        for (number, text) in known.into_iter().chain(others) {
            let text = text.trim_end();
            if let Some(left) = gone.get_mut(text).filter(|left| **left > 0) {
                *left -= 1;
                moved.insert(number, text.to_owned());
            }
        }
        self.moved = moved;
    }

    fn hit(&self, number: i64, text: &str) -> Option<LineMatch> {
        if number < self.oldest {
            return None;
        }
        let mut known = 0;
        if let Some(before) = self.before.get(&number) {
            let stood_somewhere = self.before_texts.contains(text.trim_end());
            let is_drawn = number < self.cursor_line && stood_somewhere;
            if before.trim_end() == text.trim_end() || is_drawn {
                return None;
            }
            if text.starts_with(before.as_str()) {
                known = before.len();
            } else if stood_somewhere {
                return None;
            }
        }
        let moved = self.moved.get(&number);
        let was_moved = moved.is_some_and(|moved| moved == text.trim_end());
        if was_moved || self.echo.is_typed(number, text) {
            return None;
        }
        self.matched(number, text, known)
    }

    fn matched(&self, line: i64, text: &str, known: usize) -> Option<LineMatch> {
        let is_in = |pattern: &Pattern| match self.cut.contains(&line) {
            true => pattern.is_in_end(text),
            false => pattern.is_in(text, known),
        };
        let find = |patterns: &[Pattern]| patterns.iter().position(is_in);
        let what = match find(&self.patterns.wanted) {
            Some(pattern) => MatchKind::Wanted(pattern),
            None => MatchKind::Stop(find(&self.patterns.stops)?),
        };
        Some(LineMatch {
            what,
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

/// The lines that have settled with a change.
fn lines_of(change: &Change) -> impl Iterator<Item = (i64, &str)> {
    let (first_line, chunk) = match change {
        Change::Lines { first_line, chunk } => (*first_line, chunk.as_str()),
        _ => (0, ""),
    };
    (first_line..).zip(lines_in(chunk))
}

/// Keeps the one whose line comes first.
pub(super) fn first(found: &mut Option<LineMatch>, hit: Option<LineMatch>) {
    if let Some(hit) = hit
        && found.as_ref().is_none_or(|known| hit.line < known.line)
    {
        *found = Some(hit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns() -> Patterns {
        Patterns {
            wanted: vec![Pattern::text("DONE").unwrap()],
            stops: vec![Pattern::regex("^error").unwrap()],
        }
    }

    fn shown<'a>(changes: &'a [Change], standing: &[(i64, &'a str)]) -> PaneLines<'a> {
        PaneLines {
            changes,
            standing: standing.to_vec(),
            cursor: standing.last().copied().unwrap_or_default(),
            numbers: Numbering::GoOn,
            after_hole: None,
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
        let mut matcher = Matcher::baseline(patterns(), &before, (1, "almost DONE "));
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
    fn what_lies_before_all_that_was_seen_is_not_new() {
        let before = [(-1, "one"), (0, "two"), (1, "")];
        let mut matcher = Matcher::baseline(patterns(), &before, (1, ""));
        // A wider pane shows more of its history.
        let wider = [(-2, "DONE"), (-1, "one"), (0, "two"), (1, "")];
        assert_eq!(found(&mut matcher, &[], &wider), None);
    }

    #[test]
    fn what_is_drawn_on_a_blank_row_above_the_cursor_is_not_new() {
        let before = [(-1, "DONE"), (0, ""), (1, "")];
        let mut matcher = Matcher::baseline(patterns(), &before, (1, ""));
        let drawn = [(-1, ""), (0, "DONE"), (1, "")];
        assert_eq!(found(&mut matcher, &[], &drawn), None);
        // Where the cursor stood it is printed.
        assert_eq!(found(&mut matcher, &[], &[(1, "DONE")]), Some(1));
    }

    #[test]
    fn where_numbers_begin_anew_what_stood_there_is_not_new() {
        let before = [(0, "DONE"), (1, "")];
        for (numbers, new) in [(Numbering::Anew, Some(8)), (Numbering::Lost, None)] {
            let mut matcher = Matcher::baseline(patterns(), &before, (1, ""));
            let standing = [(6, "DONE"), (8, "DONE at last"), (9, "")];
            let mut anew = shown(&[], &standing);
            anew.numbers = numbers;
            assert_eq!(matcher.look(&anew).map(|hit| hit.line), new, "{numbers:?}");
            assert_eq!(found(&mut matcher, &[], &[(6, "DONE"), (9, "")]), None);
            assert_eq!(found(&mut matcher, &[], &[(9, "DONE")]), Some(9));
        }
    }

    #[test]
    fn what_follows_a_hole_may_be_the_end_of_a_line() {
        let mut matcher = Matcher::baseline(patterns(), &[(1, "")], (1, ""));
        let changes = [lines(50, "error: but only at the end\nx\n")];
        let mut after_hole = shown(&changes, &[(50, "error"), (51, "x")]);
        after_hole.after_hole = Some(50);
        assert_eq!(matcher.look(&after_hole), None);
        assert_eq!(found(&mut matcher, &[], &[(50, "error"), (52, "")]), None);
        let hit = found(&mut matcher, &[], &[(52, "error: at its beginning")]);
        assert_eq!(hit, Some(52));
    }

    #[test]
    fn what_a_full_screen_program_shows_already_is_not_new() {
        let mut matcher = Matcher::baseline(patterns(), &[], (1, ""));
        matcher.baseline_screen(["DONE", "~"].into_iter());
        let row = |row, text: &str| crate::event::ScreenRow {
            row,
            text: text.to_owned(),
        };
        assert_eq!(matcher.screen(&[row(0, "DONE"), row(1, "~")]), None);
        let hit = matcher.screen(&[row(1, "DONE again")]);
        assert_eq!(hit.map(|hit| hit.line), Some(1));
    }

    #[test]
    fn what_was_moved_is_not_new_and_its_twin_is() {
        let before = [(-1, "DONE"), (0, "x"), (1, "$ ")];
        let mut matcher = Matcher::baseline(patterns(), &before, (1, "$ "));
        let moved = [(-1, ""), (0, ""), (1, "$ z"), (2, "DONE"), (3, "x")];
        assert_eq!(found(&mut matcher, &[], &moved), None);
        assert_eq!(found(&mut matcher, &[], &moved), None, "nor later");
        let twin = [
            (-1, ""),
            (0, ""),
            (1, "$ z"),
            (2, "DONE"),
            (3, "x"),
            (4, "DONE"),
        ];
        assert_eq!(found(&mut matcher, &[], &twin), Some(4));
    }

    #[test]
    fn the_first_line_decides_and_the_needle_in_one_line() {
        let mut matcher = Matcher::fresh(patterns());
        let hit = matcher.look(&shown(&[lines(3, "x\nerror: y\nDONE\n")], &[]));
        assert!(hit.is_some_and(|hit| hit.what == MatchKind::Stop(0) && hit.line == 4));
        let hit = matcher.look(&shown(&[], &[(9, "error DONE")]));
        assert!(hit.is_some_and(|hit| hit.what == MatchKind::Wanted(0)));
    }

    #[test]
    fn an_echo_does_not_match() {
        let mut matcher = Matcher::baseline(patterns(), &[(1, "$ ")], (1, "$ "));
        let typed = [(1, "$ echo DONE")];
        assert_eq!(found(&mut matcher, &[], &typed), None);
        let run = [(1, "$ echo DONE"), (2, "DONE"), (3, "$ ")];
        assert_eq!(found(&mut matcher, &[], &run), Some(2));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut matcher = Matcher::fresh(patterns());
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
