//! Matching of one pane's captures against patterns: new lines match, the baseline and echoed input do not
//! (pure).

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::echo::EchoDetector;
use super::pattern::Pattern;
use crate::event::{ScreenRow, lines_in};
use crate::track::Change;

/// The number of a pane's last lines in an outcome.
const LAST_LINES: usize = 20;

/// The number of lines kept before them: a secret in the last lines may begin there, such as a private key of
/// about fifty lines.
const LINES_BEFORE: usize = 60;

/// The last lines of a pane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LastLines {
    /// The last lines, oldest first.
    pub lines: Vec<String>,
    /// The lines before them.
    pub before: Vec<String>,
}

/// The patterns of a wait. A line that matches both kinds counts for the wanted patterns.
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

/// A line that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineMatch {
    pub kind: MatchKind,
    /// The pattern as displayed; for a turn, its marker.
    pub pattern: String,
    /// The number of the line. `None` for the turn of a full-screen program, which has no lines.
    pub line: Option<i64>,
    pub text: String,
}

/// The kind of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchKind {
    Wanted,
    /// A pattern that ends the wait without success.
    Stop,
    /// The end of a turn.
    Turn,
}

impl LineMatch {
    /// Returns the match whose line comes first.
    pub fn first_of(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let both = one.into_iter().chain(other);
        both.min_by_key(|line_match| line_match.line.unwrap_or(i64::MAX))
    }
}

/// Matches the lines of one pane.
#[derive(Debug)]
pub(super) struct Matcher {
    patterns: Patterns,
    /// The lines of the baseline by number. A line with the same text is not new.
    baseline: HashMap<i64, String>,
    /// The texts of the baseline: a program that redraws its screen one row further down prints nothing.
    baseline_texts: HashSet<String>,
    /// The line of the cursor in the baseline. Text from there on is printed; text above it is redrawn.
    cursor_line: i64,
    /// Lines of the baseline that have moved to other numbers.
    moved: HashMap<i64, String>,
    /// The first line of the baseline. Earlier lines are not new, though they were not captured.
    oldest: i64,
    /// Lines whose first rows were lost.
    truncated: BTreeSet<i64>,
    echo: EchoDetector,
    /// The lines that are typed during the wait.
    sent: Vec<String>,
    /// The first line that contains one of the typed lines.
    echo_line: Option<i64>,
    last: VecDeque<(i64, String)>,
}

/// The lines of one capture.
pub(super) struct PaneLines<'a> {
    pub changes: &'a [Change],
    /// The lines on the screen or just above it.
    pub visible: Vec<(i64, &'a str)>,
    /// The number of the cursor's line, and its text before the cursor.
    pub cursor: (i64, &'a str),
    pub numbering: Numbering,
    /// The line after a gap: its beginning may be lost with the gap.
    pub after_gap: Option<i64>,
}

/// The relation of line numbers to those of the previous capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Each line has kept its number.
    Continued,
    /// Lines on the screen may have new numbers.
    Restarted,
    /// Any line may have a new number.
    Lost,
}

impl Matcher {
    /// Creates a matcher whose baseline is the content of a pane.
    pub fn with_baseline(patterns: Patterns, visible: &[(i64, &str)], cursor: (i64, &str)) -> Self {
        let mut matcher = Self::new(patterns);
        matcher.add_baseline(visible, cursor.0);
        matcher.keep_last(visible);
        matcher.echo.note(cursor.0, cursor.1);
        matcher
    }

    /// Creates a matcher without a baseline: all text is new.
    pub fn new(patterns: Patterns) -> Self {
        Self {
            patterns,
            baseline: HashMap::new(),
            baseline_texts: HashSet::new(),
            cursor_line: i64::MIN,
            moved: HashMap::new(),
            oldest: i64::MIN,
            truncated: BTreeSet::new(),
            echo: EchoDetector::default(),
            sent: Vec::new(),
            echo_line: None,
            last: VecDeque::new(),
        }
    }

    /// Names the lines that are typed during the wait.
    pub fn sends(mut self, lines: &[String]) -> Self {
        self.sent = lines.to_vec();
        self
    }

    /// Returns the first of these lines that a wanted pattern matches.
    pub fn already_shown<'a>(&self, mut lines: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let wanted = &self.patterns.wanted;
        lines.find(|line| wanted.iter().any(|pattern| pattern.matches(line, 0)))
    }

    /// Adds the rows of a full-screen program to the baseline.
    pub fn add_baseline_screen<'a>(&mut self, rows: impl Iterator<Item = &'a str>) {
        let texts = rows.map(|text| text.trim_end().to_owned());
        self.baseline_texts.extend(texts);
    }

    fn add_baseline(&mut self, visible: &[(i64, &str)], cursor_line: i64) {
        for (number, text) in visible {
            self.baseline.insert(*number, (*text).to_owned());
            self.baseline_texts.insert(text.trim_end().to_owned());
        }
        self.cursor_line = cursor_line;
        self.oldest = visible.first().map_or(i64::MIN, |(number, _)| *number);
    }

    /// Applies a capture and returns the first line that matches.
    pub fn update(&mut self, lines: &PaneLines<'_>) -> Option<LineMatch> {
        match lines.numbering {
            Numbering::Continued => {}
            Numbering::Restarted => self.renumber_baseline(lines),
            Numbering::Lost => self.add_baseline(&lines.visible, lines.cursor.0),
        }
        self.find_moved(&lines.visible);
        if let Some((first, _)) = lines.visible.first() {
            // Lines that have scrolled away do not match again.
            self.truncated.retain(|line| line >= first);
        }
        self.truncated.extend(lines.after_gap);
        self.find_echo(lines);
        let mut first = None;
        for (number, text) in lines.changes.iter().flat_map(settled_lines) {
            self.keep(number, text);
            first = LineMatch::first_of(first, self.match_line(number, text));
        }
        for (number, text) in &lines.visible {
            first = LineMatch::first_of(first, self.match_line(*number, text));
        }
        self.keep_last(&lines.visible);
        self.echo.note(lines.cursor.0, lines.cursor.1);
        first
    }

    /// Returns the first match among changed rows of a full-screen program.
    pub fn match_screen(&self, rows: &[ScreenRow]) -> Option<LineMatch> {
        let is_new = |row: &&ScreenRow| !self.baseline_texts.contains(row.text.trim_end());
        let matches = rows.iter().filter(is_new);
        let matches = matches.map(|row| self.match_text(i64::from(row.row), &row.text, 0));
        matches.fold(None, LineMatch::first_of)
    }

    /// Returns the last lines, oldest first, and the lines before them.
    pub fn last_lines(&self) -> LastLines {
        let mut before: Vec<String> = self.last.iter().map(|(_, text)| text.clone()).collect();
        let lines = before.split_off(before.len().saturating_sub(LAST_LINES));
        LastLines { lines, before }
    }

    /// Adds lines that have a text of the baseline to the baseline under their new numbers. They cannot be
    /// distinguished from new output with the same text.
    fn renumber_baseline(&mut self, lines: &PaneLines<'_>) {
        let settled = lines.changes.iter().flat_map(settled_lines);
        for (number, text) in settled.chain(lines.visible.iter().copied()) {
            if self.baseline_texts.contains(text.trim_end()) {
                self.baseline.insert(number, text.to_owned());
            }
        }
    }

    /// Finds lines of the baseline that were moved on the screen: a text that was replaced on `n` lines of
    /// the baseline is not new on `n` other lines.
    fn find_moved(&mut self, visible: &[(i64, &str)]) {
        let mut replaced: HashMap<&str, usize> = HashMap::new();
        for (number, text) in visible {
            if let Some(before) = self.baseline.get(number).map(|before| before.trim_end())
                && !before.is_empty()
                && !text.starts_with(before)
            {
                *replaced.entry(before).or_default() += 1;
            }
        }
        if replaced.is_empty() {
            return;
        }
        let elsewhere = visible
            .iter()
            .filter(|(number, _)| !self.baseline.contains_key(number));
        let (known, others): (Vec<_>, Vec<_>) =
            elsewhere.partition(|(number, text)| self.is_moved(*number, text));
        let mut moved = HashMap::new();
        for (number, text) in known.into_iter().chain(others) {
            let text = text.trim_end();
            if let Some(count) = replaced.get_mut(text).filter(|count| **count > 0) {
                *count -= 1;
                moved.insert(number, text.to_owned());
            }
        }
        self.moved = moved;
    }

    fn is_moved(&self, number: i64, text: &str) -> bool {
        let moved = self.moved.get(&number);
        moved.is_some_and(|moved| moved == text.trim_end())
    }

    fn match_line(&self, number: i64, text: &str) -> Option<LineMatch> {
        if number < self.oldest {
            return None;
        }
        let mut known_bytes = 0;
        if let Some(before) = self.baseline.get(&number) {
            let is_baseline_text = self.baseline_texts.contains(text.trim_end());
            let is_redrawn = number < self.cursor_line && is_baseline_text;
            if before.trim_end() == text.trim_end() || is_redrawn {
                return None;
            }
            if text.starts_with(before.as_str()) {
                known_bytes = before.len();
            } else if is_baseline_text {
                return None;
            }
        }
        if self.is_moved(number, text) || self.echo.is_typed(number, text) {
            return None;
        }
        self.match_text(number, text, known_bytes)
    }

    fn match_text(&self, line: i64, text: &str, known_bytes: usize) -> Option<LineMatch> {
        let matches = |pattern: &&Pattern| {
            let is_match = match self.truncated.contains(&line) {
                true => pattern.matches_line_end(text),
                false => pattern.matches(text, known_bytes),
            };
            is_match && !self.is_sent(line, text, pattern)
        };
        let Patterns { wanted, stops } = &self.patterns;
        let (kind, pattern) = match wanted.iter().find(matches) {
            Some(pattern) => (MatchKind::Wanted, pattern),
            None => (MatchKind::Stop, stops.iter().find(matches)?),
        };
        Some(LineMatch {
            kind,
            pattern: pattern.to_string(),
            line: Some(line),
            text: text.to_owned(),
        })
    }

    /// Returns true if a match is part of the echo of the typed text: on the line of the cursor, on the
    /// first line with the text, or preceded only by a prompt. The output that the text causes matches, even
    /// if a program repeats the text on another line.
    fn is_sent(&self, line: i64, text: &str, pattern: &Pattern) -> bool {
        self.sent.iter().any(|sent| {
            let Some((before, _)) = text.split_once(sent.as_str()) else {
                return false;
            };
            let is_echo_line = line == self.cursor_line || self.echo_line == Some(line);
            let is_at_prompt = !before.contains(char::is_alphanumeric) && !pattern.is_all_of(sent);
            (is_echo_line || is_at_prompt)
                && pattern.matches(sent, 0)
                && !pattern.matches(&text.replace(sent.as_str(), "\u{fffc}"), 0)
        })
    }

    /// Finds the first line that contains the typed text.
    fn find_echo(&mut self, lines: &PaneLines<'_>) {
        if self.echo_line.is_some() || self.sent.is_empty() {
            return;
        }
        let has_sent = |text: &str| self.sent.iter().any(|sent| text.contains(sent.as_str()));
        let settled = lines.changes.iter().flat_map(settled_lines);
        let all = settled.chain(lines.visible.iter().copied());
        let echoes = all.filter(|(number, text)| *number >= self.cursor_line && has_sent(text));
        self.echo_line = echoes.map(|(number, _)| number).min();
    }

    fn keep(&mut self, number: i64, text: &str) {
        while self.last.back().is_some_and(|(known, _)| *known >= number) {
            self.last.pop_back();
        }
        if self.last.len() >= LAST_LINES + LINES_BEFORE {
            self.last.pop_front();
        }
        self.last.push_back((number, text.to_owned()));
    }

    fn keep_last(&mut self, visible: &[(i64, &str)]) {
        let used = visible
            .iter()
            .rposition(|(_, text)| !text.trim().is_empty())
            .map_or(0, |last| last + 1);
        for (number, text) in &visible[used.saturating_sub(LAST_LINES + LINES_BEFORE)..used] {
            self.keep(*number, text);
        }
    }
}

/// Returns the lines that have settled with a change.
fn settled_lines(change: &Change) -> impl Iterator<Item = (i64, &str)> {
    let (first_line, chunk) = match change {
        Change::Lines { first_line, chunk } => (*first_line, chunk.as_str()),
        _ => (0, ""),
    };
    (first_line..).zip(lines_in(chunk))
}

#[cfg(test)]
#[path = "matcher_tests.rs"]
mod tests;
