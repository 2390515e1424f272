//! Matching of one pane's captures against patterns: new lines match, the baseline and echoed input do not
//! (pure).

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;

use regex::Regex;

use crate::error::{Error, Result};
use crate::event::{ScreenRow, lines_in};
use crate::text::last_bytes;
use crate::track::Change;

/// The number of a pane's last lines in an outcome.
const LAST_LINES: usize = 20;

/// The number of lines kept before them: a secret in the last lines may begin there, such as a private key of
/// about fifty lines.
const LINES_BEFORE: usize = 60;

/// The end of the piece of a long line that is matched together with the next piece, in bytes.
const TAIL_BYTES: usize = 4096;

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
    /// The lines before the text, in which a secret of the text may begin.
    pub before: Vec<String>,
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
    /// The line that outcomes call line 1.
    first_line: i64,
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
    /// Lines that continue the lines before them, as pieces of one long line.
    pub pieces: &'a [i64],
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
            first_line: 1,
        }
    }

    /// Sets the line that outcomes call line 1.
    pub fn numbered_from(mut self, line: i64) -> Self {
        self.first_line = line;
        self
    }

    /// Returns the number of a line as outcomes have it.
    pub fn outcome_line(&self, line: i64) -> i64 {
        line - self.first_line + 1
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
            self.match_first(&mut first, (number, text), lines);
        }
        for (number, text) in &lines.visible {
            self.match_first(&mut first, (*number, text), lines);
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
        let found = matches.fold(None, LineMatch::first_of)?;
        let rows = rows.iter();
        let above = rows.filter(|row| Some(i64::from(row.row)) < found.line);
        let before = above.map(|row| row.text.clone()).collect();
        Some(LineMatch { before, ..found })
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

    /// Returns the piece before this line, if it is a later piece of a long one: empty if it is not known.
    fn continued<'a>(&'a self, number: i64, lines: &'a PaneLines<'_>) -> Option<&'a str> {
        if !lines.pieces.contains(&number) {
            return None;
        }
        let before = self.known_before(number, &lines.visible).last();
        let piece = before.filter(|(known, _)| *known == number - 1);
        Some(piece.map_or("", |(_, text)| text))
    }

    /// Returns the known lines before this one, oldest first.
    fn known_before<'a>(
        &'a self,
        number: i64,
        visible: &'a [(i64, &'a str)],
    ) -> impl Iterator<Item = (i64, &'a str)> {
        let first = visible.first().map_or(i64::MAX, |(first, _)| *first);
        let kept = self
            .last
            .iter()
            .map(|(known, text)| (*known, text.as_str()));
        let kept = kept.filter(move |(known, _)| *known < first.min(number));
        kept.chain(
            visible
                .iter()
                .copied()
                .filter(move |(known, _)| *known < number),
        )
    }

    /// Matches a line, and keeps the match if it is the first.
    fn match_first(
        &self,
        first: &mut Option<LineMatch>,
        (number, text): (i64, &str),
        lines: &PaneLines<'_>,
    ) {
        let piece = self.continued(number, lines);
        let Some(mut found) = self.match_line(number, text, piece) else {
            return;
        };
        if first.as_ref().is_some_and(|first| first.line <= found.line) {
            return;
        }
        // A text on a border begins in the piece before.
        let begins = number - i64::from(found.text.len() > text.len());
        let before = self.known_before(begins, &lines.visible);
        found.before = before.map(|(_, text)| text.to_owned()).collect();
        let excess = found.before.len().saturating_sub(LINES_BEFORE);
        found.before.drain(..excess);
        *first = Some(found);
    }

    /// Matches a line. `piece` is the piece of a long line that this one continues.
    fn match_line(&self, number: i64, text: &str, piece: Option<&str>) -> Option<LineMatch> {
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
        if self.is_moved(number, text) {
            return None;
        }
        if self.echo.is_typed(number, text) {
            return self.match_prompt(number, text);
        }
        let found = match piece {
            None => self.match_text(number, text, known_bytes)?,
            Some(piece) => self.match_continued(number, piece, text, known_bytes)?,
        };
        Some(LineMatch {
            line: Some(self.outcome_line(number)),
            ..found
        })
    }

    /// Matches a known prompt that has come back, if it is meant: its sign is part of the match. A word in it, such as the
    /// name of the directory, is not printed anew by each command.
    fn match_prompt(&self, number: i64, text: &str) -> Option<LineMatch> {
        let begin = text.trim_end().strip_suffix(PROMPT_ENDS)?;
        if self.baseline.contains_key(&number) || !self.echo.is_prompt(number, text) {
            return None;
        }
        let found = self.first_match(number, text, |pattern| {
            pattern.matches(text, 0) && !pattern.matches(begin, 0)
        })?;
        Some(LineMatch {
            line: Some(self.outcome_line(number)),
            ..found
        })
    }

    fn match_text(&self, line: i64, text: &str, known_bytes: usize) -> Option<LineMatch> {
        self.first_match(line, text, |pattern| {
            if self.truncated.contains(&line) {
                pattern.matches_line_end(text, 0)
            } else {
                pattern.matches(text, known_bytes)
            }
        })
    }

    /// Matches a piece of a line, and its border with the piece before.
    fn match_continued(
        &self,
        line: i64,
        before: &str,
        text: &str,
        known_bytes: usize,
    ) -> Option<LineMatch> {
        let in_piece = self.first_match(line, text, |pattern| {
            pattern.matches_line_end(text, known_bytes)
        });
        if in_piece.is_some() {
            return in_piece;
        }
        let tail = last_bytes(before, TAIL_BYTES);
        let joined = format!("{tail}{text}");
        let from = tail.len() + known_bytes;
        let found = self.first_match(line, &joined, |pattern| {
            pattern.matches_line_end(&joined, from)
        })?;
        // Whole pieces, so that a secret is not cut where the tail begins.
        let text = format!("{before}{text}");
        Some(LineMatch { text, ..found })
    }

    fn first_match(
        &self,
        line: i64,
        text: &str,
        is_match: impl Fn(&Pattern) -> bool,
    ) -> Option<LineMatch> {
        let matches = |pattern: &&Pattern| is_match(pattern) && !self.is_sent(line, text, pattern);
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
            before: Vec::new(),
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

/// The last characters of prompts, before a blank or the cursor.
const PROMPT_ENDS: &[char] = &['$', '#', '>', '%', '❯', '»', '›', 'λ', '➜'];

/// Maximum number of remembered prompts: the prompt of a shell changes with its directory.
const PROMPTS_MAX: usize = 16;

/// Maximum number of remembered lines with a prompt.
const LINES_MAX: usize = 256;

/// The prompts of one pane.
#[derive(Debug, Default)]
pub(super) struct EchoDetector {
    prompts: VecDeque<String>,
    /// The numbers of lines with a prompt, and the prompt.
    prompt_lines: VecDeque<(i64, String)>,
}

impl EchoDetector {
    /// Remembers the prompt, if any, on the cursor's line of a capture. `text` ends at the cursor.
    pub fn note(&mut self, number: i64, text: &str) {
        let Some(prompt) = prompt_of(text) else {
            return;
        };
        if self.prompt_lines.iter().any(|(known, _)| *known == number) {
            return;
        }
        if self.prompt_lines.len() >= LINES_MAX {
            self.prompt_lines.pop_front();
        }
        self.prompt_lines.push_back((number, prompt.to_owned()));
        let is_known = self.prompts.iter().any(|known| known == prompt);
        // Output may begin like a shorter prompt (`$ make` in a build's log).
        if !is_known && prompt.chars().count() >= 6 {
            if self.prompts.len() >= PROMPTS_MAX {
                self.prompts.pop_front();
            }
            self.prompts.push_back(prompt.to_owned());
        }
    }

    /// Returns true if a line is a known prompt, and nothing was typed at it.
    pub fn is_prompt(&self, number: i64, text: &str) -> bool {
        let is_text = |prompt: &String| prompt == text.trim_end();
        let here = self.prompt_lines.iter().find(|(line, _)| *line == number);
        here.is_some_and(|(_, prompt)| is_text(prompt)) || self.prompts.iter().any(is_text)
    }

    /// Returns true if a line was typed.
    pub fn is_typed(&self, number: i64, text: &str) -> bool {
        let continues = |prompt: &str| {
            text.strip_prefix(prompt)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let has_prompt =
            (self.prompt_lines.iter()).any(|(line, prompt)| *line == number && continues(prompt));
        has_prompt || self.prompts.iter().any(|prompt| continues(prompt))
    }
}

/// Returns the prompt at the beginning of a line, without trailing blanks.
fn prompt_of(text: &str) -> Option<&str> {
    let trimmed = text.trim_end();
    // A percentage shows progress; its line may continue with a match.
    let is_percentage = trimmed
        .strip_suffix('%')
        .is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()));
    if trimmed.ends_with(PROMPT_ENDS) && !is_percentage {
        return Some(trimmed);
    }
    // Input already follows the prompt.
    // Output contains `>` and `%` so often that they count only at the end of a line.
    let is_clear = |c: char| PROMPT_ENDS.contains(&c) && !matches!(c, '>' | '%');
    text.char_indices()
        .filter(|(_, c)| is_clear(*c))
        .map(|(at, c)| at + c.len_utf8())
        .find(|end| text[*end..].starts_with(' '))
        .map(|end| &text[..end])
}

/// A text or a regular expression that a line must contain.
#[derive(Clone, Debug)]
pub struct Pattern(PatternKind);

#[derive(Clone, Debug)]
enum PatternKind {
    Text(String),
    Regex(Regex),
}

impl Pattern {
    /// Creates a pattern for a text anywhere in a line.
    ///
    /// # Errors
    /// `is_invalid_input()` when the text is empty or contains a line end: each line is matched on its own.
    pub fn text(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() {
            return Err(Error::invalid(
                "the text is empty, which every line contains: give at least one character",
            ));
        }
        if text.contains('\n') {
            return Err(Error::invalid(
                "the text contains a line end, but each line is matched on its own: give one line",
            ));
        }
        Ok(Self(PatternKind::Text(text)))
    }

    /// Creates a pattern for a regular expression in the syntax of the `regex` crate; `^` and `$` match the
    /// ends of a line.
    ///
    /// # Errors
    /// `is_invalid_input()` when the expression is empty or invalid.
    pub fn regex(pattern: &str) -> Result<Self> {
        if pattern.is_empty() {
            return Err(Error::invalid(
                "the expression is empty, which every line matches",
            ));
        }
        let regex = Regex::new(pattern).map_err(|cause| {
            // The message has several lines; the last one contains the reason.
            let text = cause.to_string();
            let last = text.lines().last().unwrap_or_default().trim();
            let why = last.trim_start_matches("error: ");
            Error::invalid(format!("{pattern:?} is not a regular expression: {why}"))
        })?;
        Ok(Self(PatternKind::Regex(regex)))
    }

    /// Returns true if a line has a match that ends after its first `from` bytes.
    pub(crate) fn matches(&self, line: &str, from: usize) -> bool {
        match &self.0 {
            PatternKind::Text(text) => {
                // A match may begin in the known part.
                let begin = from.saturating_sub(text.len().saturating_sub(1));
                let begin = (0..=begin).rev().find(|at| line.is_char_boundary(*at));
                let begin = begin.unwrap_or(0).min(line.len());
                let mut matches = line[begin..].match_indices(text.as_str());
                matches.any(|(at, _)| begin + at + text.len() > from)
            }
            PatternKind::Regex(regex) => {
                from == 0 && regex.is_match(line)
                    || from > 0 && regex.find_iter(line).any(|found| found.end() > from)
            }
        }
    }

    /// Returns true if the end of a line has a match that ends after its first `from` bytes. The beginning of the
    /// line is unknown, so `^` never matches.
    pub(super) fn matches_line_end(&self, end: &str, from: usize) -> bool {
        match &self.0 {
            PatternKind::Text(_) => self.matches(end, from),
            PatternKind::Regex(regex) => {
                // Represents the missing beginning with a character that is neither word nor blank.
                let unknown = char::REPLACEMENT_CHARACTER;
                let line = format!("{unknown}{end}");
                let known = unknown.len_utf8() + from;
                let mut at = unknown.len_utf8();
                while at <= line.len()
                    && let Some(found) = regex.find_at(&line, at)
                {
                    if from == 0 || found.end() > known {
                        return true;
                    }
                    // An empty match would be found again.
                    let next = line[found.end()..].chars().next();
                    let step = next.map_or(1, char::len_utf8);
                    at = found.end() + if found.is_empty() { step } else { 0 };
                }
                false
            }
        }
    }

    /// Returns true if the pattern matches the entire text.
    pub(super) fn is_all_of(&self, text: &str) -> bool {
        match &self.0 {
            PatternKind::Text(wanted) => wanted == text,
            PatternKind::Regex(regex) => {
                let found = regex.find(text);
                found.is_some_and(|found| found.range() == (0..text.len()))
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PatternKind::Text(text) => write!(f, "{text:?}"),
            PatternKind::Regex(regex) => write!(f, "/{regex}/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_recognized_by_their_ends() {
        for (text, prompt) in [
            ("$ ", Some("$")),
            ("user@host:~/x$ ", Some("user@host:~/x$")),
            ("user@host:~/x$ make te", Some("user@host:~/x$")),
            ("host% ", Some("host%")),
            ("> ", Some(">")),
            ("~/x ❯ cargo", Some("~/x ❯")),
            ("50% of it", None),
            ("copied 50%", None),
            ("a > b", None),
            ("Compiling... ", None),
            ("", None),
            ("Continue? [y/N] ", None),
        ] {
            assert_eq!(prompt_of(text), prompt, "{text:?}");
        }
    }

    #[test]
    fn typed_lines_are_not_output() {
        let mut echo = EchoDetector::default();
        echo.note(5, "$ ");
        echo.note(7, "user@host:~$ ");
        echo.note(8, "working on it ");
        for (number, text, is_typed) in [
            (5, "$ echo DONE", true),
            (5, "$5 are DONE", false),
            (6, "$ echo DONE", false),
            (7, "user@host:~$ echo DONE", true),
            (9, "user@host:~$ echo DONE", true),
            (9, "user@host:~$", true),
            (8, "working on it DONE", false),
        ] {
            assert_eq!(echo.is_typed(number, text), is_typed, "{number} {text:?}");
        }
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut echo = EchoDetector::default();
        for number in 0..10_000 {
            echo.note(number, &format!("prompt number {number} $ "));
        }
        assert!(echo.prompts.len() <= PROMPTS_MAX && echo.prompt_lines.len() <= LINES_MAX);
        assert!(echo.is_typed(9_999, "prompt number 9999 $ ls"));
    }

    #[test]
    fn a_match_that_ends_in_the_new_part_counts() {
        let (text, regex) = (
            Pattern::text("abab").unwrap(),
            Pattern::regex("ab+").unwrap(),
        );
        for (line, from, has_text, has_regex) in [
            ("abab", 0, true, true),
            ("abab", 3, true, true),
            ("abab", 4, false, false),
            ("ababab", 4, true, true),
            ("üabab", 5, true, true),
            ("üabab", 1, true, true),
            ("", 0, false, false),
            ("aba", 7, false, false),
        ] {
            assert_eq!(text.matches(line, from), has_text, "{line:?} {from}");
            assert_eq!(regex.matches(line, from), has_regex, "{line:?} {from}");
        }
        assert!(Pattern::regex("^$").unwrap().matches("", 0));
    }

    #[test]
    fn the_end_of_a_line_does_not_match_its_beginning() {
        for (pattern, expected) in [("^ERROR", false), ("ERROR$", true), (r"\bERR", true)] {
            let regex = Pattern::regex(pattern).unwrap();
            assert_eq!(regex.matches_line_end("ERROR", 0), expected, "{pattern}");
        }
        assert!(Pattern::text("ERR").unwrap().matches_line_end("ERROR", 0));
        for (pattern, from, expected) in [("R", 4, true), ("R", 5, false), ("x*", 5, false)] {
            let regex = Pattern::regex(pattern).unwrap();
            assert_eq!(regex.matches_line_end("ERROR", from), expected, "{pattern}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for refused in [
            Pattern::text(""),
            Pattern::text("a\nb"),
            Pattern::regex("a("),
        ] {
            assert!(refused.unwrap_err().is_invalid_input());
        }
        let error = Pattern::regex("a(").unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
    }

    fn patterns() -> Patterns {
        Patterns {
            wanted: vec![Pattern::text("DONE").unwrap()],
            stops: vec![Pattern::regex("^error").unwrap()],
        }
    }

    fn lines_of<'a>(changes: &'a [Change], visible: &[(i64, &'a str)]) -> PaneLines<'a> {
        PaneLines {
            changes,
            visible: visible.to_vec(),
            cursor: visible.last().copied().unwrap_or_default(),
            numbering: Numbering::Continued,
            after_gap: None,
            pieces: &[],
        }
    }

    fn lines(first_line: i64, chunk: &str) -> Change {
        Change::Lines {
            first_line,
            chunk: chunk.to_owned(),
        }
    }

    fn found(matcher: &mut Matcher, changes: &[Change], visible: &[(i64, &str)]) -> Option<i64> {
        matcher
            .update(&lines_of(changes, visible))
            .and_then(|line_match| line_match.line)
    }

    #[test]
    fn the_baseline_never_matches() {
        let before = [(-1, "DONE"), (0, "DONE again"), (1, "almost DONE ")];
        let mut matcher = Matcher::with_baseline(patterns(), &before, (1, "almost DONE "));
        assert_eq!(found(&mut matcher, &[], &before), None);
        // Redrawn one row lower, then continued.
        let drawn = [(-1, "x"), (0, "DONE"), (1, "DONE again")];
        assert_eq!(found(&mut matcher, &[], &drawn), None);
        assert_eq!(found(&mut matcher, &[], &[(1, "almost DONE yes")]), None);
        let line_match = found(&mut matcher, &[], &[(1, "almost DONE and DONE")]);
        assert_eq!(line_match, Some(1));
        assert_eq!(found(&mut matcher, &[], &[(2, "DONE")]), Some(2));
        assert_eq!(found(&mut matcher, &[lines(7, "DONE\n")], &[]), Some(7));
    }

    #[test]
    fn typed_text_does_not_match_where_it_is_echoed() {
        let before = [(1, "[x] ")];
        let begun = |sent: &str| {
            let matcher = Matcher::with_baseline(patterns(), &before, before[0]);
            matcher.sends(&[sent.to_owned()])
        };
        for (sent, line, text, is_match) in [
            ("echo DONE", 1, "[x] echo DONE", false),
            ("echo DONE", 4, "user> echo DONE", false),
            ("echo DONE", 2, "DONE", true),
            ("echo DONE", 1, "[x] DONE", true),
            ("DONE", 1, "[x] DONE", false),
            ("ONE", 1, "[x] DONE", true),
        ] {
            let mut matcher = begun(sent);
            let seen = found(&mut matcher, &[], &[(line, text)]).is_some();
            assert_eq!(seen, is_match, "{sent:?} {text:?}");
        }
        // After the echo, the text matches in an answer, unless only a prompt precedes it.
        let mut matcher = begun("say DONE");
        let echo = (1, "[x] say DONE");
        assert_eq!(found(&mut matcher, &[], &[echo]), None);
        assert_eq!(found(&mut matcher, &[], &[echo, (2, "❯ say DONE")]), None);
        assert_eq!(
            found(&mut matcher, &[], &[echo, (3, "got say DONE")]),
            Some(3)
        );
        // A program that repeats its input.
        let mut matcher = begun("DONE");
        assert_eq!(
            found(&mut matcher, &[], &[(1, "[x] DONE"), (2, "DONE")]),
            Some(2)
        );
    }

    #[test]
    fn lines_before_the_baseline_are_not_new() {
        let before = [(-1, "one"), (0, "two"), (1, "")];
        let mut matcher = Matcher::with_baseline(patterns(), &before, (1, ""));
        // A wider pane shows more of its history.
        let wider = [(-2, "DONE"), (-1, "one"), (0, "two"), (1, "")];
        assert_eq!(found(&mut matcher, &[], &wider), None);
    }

    #[test]
    fn text_that_is_redrawn_above_the_cursor_is_not_new() {
        let before = [(-1, "DONE"), (0, ""), (1, "")];
        let mut matcher = Matcher::with_baseline(patterns(), &before, (1, ""));
        let drawn = [(-1, ""), (0, "DONE"), (1, "")];
        assert_eq!(found(&mut matcher, &[], &drawn), None);
        // At the cursor, text is printed.
        assert_eq!(found(&mut matcher, &[], &[(1, "DONE")]), Some(1));
    }

    #[test]
    fn the_baseline_is_not_new_under_new_numbers() {
        let before = [(0, "DONE"), (1, "")];
        for (numbering, new) in [(Numbering::Restarted, Some(8)), (Numbering::Lost, None)] {
            let mut matcher = Matcher::with_baseline(patterns(), &before, (1, ""));
            let visible = [(6, "DONE"), (8, "DONE at last"), (9, "")];
            let mut later = lines_of(&[], &visible);
            later.numbering = numbering;
            assert_eq!(
                matcher
                    .update(&later)
                    .and_then(|line_match| line_match.line),
                new,
                "{numbering:?}"
            );
            assert_eq!(found(&mut matcher, &[], &[(6, "DONE"), (9, "")]), None);
            assert_eq!(found(&mut matcher, &[], &[(9, "DONE")]), Some(9));
        }
    }

    #[test]
    fn the_line_after_a_gap_may_lack_its_beginning() {
        let mut matcher = Matcher::with_baseline(patterns(), &[(1, "")], (1, ""));
        let changes = [lines(50, "error: but only at the end\nx\n")];
        let mut after_gap = lines_of(&changes, &[(50, "error"), (51, "x")]);
        after_gap.after_gap = Some(50);
        assert_eq!(matcher.update(&after_gap), None);
        assert_eq!(found(&mut matcher, &[], &[(50, "error"), (52, "")]), None);
        let line_match = found(&mut matcher, &[], &[(52, "error: at its beginning")]);
        assert_eq!(line_match, Some(52));
    }

    #[test]
    fn a_match_on_the_border_of_two_pieces_of_a_line_counts() {
        let piece = |begin: &str, end: &str| format!("{begin}{}{end}", "x".repeat(64 * 1024));
        let changes = [lines(
            5,
            &format!("{}\n{}\n", piece("", "DO"), piece("NE", "DO")),
        )];
        let match_of = |pieces: &[i64], visible: &[(i64, &str)]| {
            let mut matcher = Matcher::with_baseline(patterns(), &[(1, "")], (1, ""));
            let mut update = lines_of(&changes, visible);
            update.pieces = pieces;
            matcher.update(&update)
        };
        let found = match_of(&[6], &[]).unwrap();
        assert_eq!((found.line, found.kind), (Some(6), MatchKind::Wanted));
        assert!(found.text.contains("DONE"));
        // The last piece is on the screen.
        assert_eq!(
            match_of(&[7], &[(7, "NE")]).map(|found| found.line),
            Some(Some(7))
        );
        // Two lines are not one.
        assert_eq!(match_of(&[], &[(7, "NE")]), None);
        // A match that was complete before does not count again, nor is a piece the beginning of a line.
        let mut matcher = Matcher::with_baseline(patterns(), &[(5, "DONE")], (5, "DONE"));
        let mut update = lines_of(&[], &[(6, "error")]);
        update.pieces = &[6];
        assert_eq!(matcher.update(&update), None);
    }

    #[test]
    fn a_match_knows_the_lines_before_it() {
        let mut matcher = Matcher::with_baseline(patterns(), &[(1, "one")], (1, "one"));
        let flood = "later\n".repeat(500);
        let changes = [lines(2, &format!("two\nDONE\n{flood}"))];
        let found = matcher.update(&lines_of(&changes, &[(503, "$ ")])).unwrap();
        assert_eq!(found.before, ["one", "two"]);
        // On the screen, too.
        let visible = [(502, "later"), (503, "$ x"), (504, "DONE"), (505, "$ ")];
        let found = matcher.update(&lines_of(&[], &visible)).unwrap();
        let last = &found.before[found.before.len() - 2..];
        assert_eq!(
            (last, found.before.len()),
            (&["later".to_owned(), "$ x".to_owned()][..], 60)
        );
    }

    #[test]
    fn the_baseline_of_a_full_screen_program_is_not_new() {
        let mut matcher = Matcher::with_baseline(patterns(), &[], (1, ""));
        matcher.add_baseline_screen(["DONE", "~"].into_iter());
        let row = |row, text: &str| ScreenRow {
            row,
            text: text.to_owned(),
        };
        assert_eq!(matcher.match_screen(&[row(0, "DONE"), row(1, "~")]), None);
        let line_match = matcher.match_screen(&[row(1, "DONE again")]);
        assert_eq!(line_match.and_then(|line_match| line_match.line), Some(1));
    }

    #[test]
    fn a_moved_line_is_not_new_and_a_second_one_is() {
        let before = [(-1, "DONE"), (0, "x"), (1, "$ ")];
        let mut matcher = Matcher::with_baseline(patterns(), &before, (1, "$ "));
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
    fn the_first_line_counts_and_the_wanted_pattern_within_a_line() {
        let mut matcher = Matcher::new(patterns());
        let line_match = matcher.update(&lines_of(&[lines(3, "x\nerror: y\nDONE\n")], &[]));
        assert!(line_match.is_some_and(
            |line_match| line_match.kind == MatchKind::Stop && line_match.line == Some(4)
        ));
        let line_match = matcher.update(&lines_of(&[], &[(9, "error DONE")]));
        assert!(line_match.is_some_and(|line_match| line_match.kind == MatchKind::Wanted));
    }

    #[test]
    fn an_echo_does_not_match() {
        let mut matcher = Matcher::with_baseline(patterns(), &[(1, "$ ")], (1, "$ "));
        let typed = [(1, "$ echo DONE")];
        assert_eq!(found(&mut matcher, &[], &typed), None);
        let run = [(1, "$ echo DONE"), (2, "DONE"), (3, "$ ")];
        assert_eq!(found(&mut matcher, &[], &run), Some(2));
    }

    #[test]
    fn a_prompt_that_comes_back_matches_if_its_sign_is_meant() {
        for (pattern, is_found) in [
            (Pattern::text("build$").unwrap(), true),
            (Pattern::regex(r"^~/build\$ ?$").unwrap(), true),
            (Pattern::text("build").unwrap(), false),
            (Pattern::text("make").unwrap(), false),
        ] {
            let patterns = Patterns {
                wanted: vec![pattern],
                stops: Vec::new(),
            };
            let prompt = "~/build$ ";
            let mut matcher = Matcher::with_baseline(patterns, &[(1, prompt)], (1, prompt));
            assert_eq!(found(&mut matcher, &[], &[(1, "~/build$ make")]), None);
            let back = [(1, "~/build$ make"), (2, "~/build$")];
            let line = is_found.then_some(2);
            assert_eq!(found(&mut matcher, &[], &back), line);
        }
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut matcher = Matcher::new(patterns());
        let all: String = (1..=30).map(|n| format!("{n}\n")).collect();
        matcher.update(&lines_of(
            &[lines(1, &all)],
            &[(30, "30"), (31, "open"), (32, "")],
        ));
        let last = matcher.last_lines();
        assert_eq!(last.before.len(), 11);
        let last = last.lines;
        assert_eq!(last.len(), 20);
        assert_eq!(last.first().map(String::as_str), Some("12"));
        assert_eq!(last.last().map(String::as_str), Some("open"));
    }
}
