//! Lines of a terminal that a program draws again: it moves the cursor up, so that they replace what it has
//! printed there (pure).
//!
//! A complete line is held for a moment, because the program may draw it again. From the first movement on lines
//! are held longer, and their last state is reported when the program has printed for a while without moving up,
//! or has ended. If the cursor then rests above the last of them, they can be drawn again from there, and stay
//! held.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::escapes::without_escapes;

/// The lines to which a program can move back: more rows than a terminal has.
const LINES_MAX: usize = 200;

/// The time for which complete lines are held; the console holds the lines of panes as long. Progress displays draw
/// four to twenty times a second.
const HOLD_TIME: Duration = Duration::from_millis(250);

/// A movement of the cursor between lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Up(usize),
    Down(usize),
    /// All lines below the cursor are erased.
    EraseBelow,
    /// The place of the cursor is saved.
    Save,
    /// The cursor moves to the saved place.
    Restore,
}

/// Returns the text before the first movement, the movement, and the text after it.
pub(super) fn next_move(text: &str) -> Option<(&str, Move, &str)> {
    let mut from = 0;
    while let Some(found) = memchr::memchr(0x1b, &text.as_bytes()[from..]) {
        let at = from + found;
        let sequence = &text[at + 1..];
        let (movement, rest) = match sequence.strip_prefix('[') {
            Some(parameters) => {
                let digits = parameters.bytes().take_while(u8::is_ascii_digit).count();
                let (number, rest) = parameters.split_at(digits);
                let count = number.parse::<usize>().unwrap_or(0);
                let movement = match rest.as_bytes().first() {
                    Some(b'A' | b'F') => Some(Move::Up(count.max(1))),
                    Some(b'B' | b'E') => Some(Move::Down(count.max(1))),
                    Some(b'J') if count == 0 => Some(Move::EraseBelow),
                    Some(b's') if digits == 0 => Some(Move::Save),
                    Some(b'u') if digits == 0 => Some(Move::Restore),
                    _ => None,
                };
                (movement, rest)
            }
            None => {
                let movement = match sequence.as_bytes().first() {
                    Some(b'M') => Some(Move::Up(1)),
                    Some(b'7') => Some(Move::Save),
                    Some(b'8') => Some(Move::Restore),
                    _ => None,
                };
                (movement, sequence)
            }
        };
        if let Some(movement) = movement {
            return Some((&text[..at], movement, &rest[1..]));
        }
        from = at + 1;
    }
    None
}

/// Splits off a control sequence at the end of a text that may become a movement.
pub(super) fn split_cut_sequence(text: &str) -> (&str, &str) {
    let Some(at) = memchr::memrchr(0x1b, text.as_bytes()) else {
        return (text, "");
    };
    let is_cut = match text[at..].strip_prefix("\x1b[") {
        // No terminal has rows for more digits.
        Some(digits) => digits.len() < 6 && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => at + 1 == text.len(),
    };
    text.split_at(if is_cut { at } else { text.len() })
}

/// Returns true if a line shows nothing.
fn is_blank(line: &str) -> bool {
    let mut rest = line;
    while let Some(at) = memchr::memchr(0x1b, rest.as_bytes()) {
        if !rest[..at].trim().is_empty() {
            return false;
        }
        let sequence = rest[at..].trim_start_matches(['\x1b', '[']);
        let end = sequence.find(|last: char| last.is_ascii_alphabetic());
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    rest.trim().is_empty()
}

/// The last lines, and those that are drawn again.
#[derive(Debug, Default)]
pub(super) struct Redraws {
    /// Complete lines.
    recent: VecDeque<Row>,
    /// When the last ones of them were printed, which are not reported yet.
    held: VecDeque<Instant>,
    /// The lines that are drawn again, from the first one to the last one printed.
    rows: Vec<Row>,
    /// The row of the cursor.
    at: usize,
    /// The number of complete lines above these rows.
    above: usize,
    /// The saved place of the cursor: a number of lines above it, and a byte of its line.
    saved: Option<(usize, usize)>,
    /// The time of the last movement up.
    moved_at: Option<Instant>,
    /// A state was reported for viewers only.
    pub is_shown: bool,
}

#[derive(Debug, Default)]
struct Row {
    text: String,
    /// The text that was reported for this row.
    reported: Option<String>,
}

impl Row {
    /// Returns true if what the row shows was not reported. A line that is erased and printed again is the same.
    fn is_new(&self) -> bool {
        let reported = self.reported.as_deref();
        reported.is_none_or(|reported| without_escapes(reported) != without_escapes(&self.text))
    }

    fn report(&mut self, out: &mut String) {
        out.push_str(&self.text);
        out.push('\n');
        self.reported = Some(self.text.clone());
    }
}

impl Redraws {
    /// Returns true if lines are drawn again.
    pub fn is_active(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Returns the time of the last movement up, while lines are drawn again.
    pub fn moved_at(&self) -> Option<Instant> {
        self.moved_at.filter(|_| self.is_active())
    }

    /// Reports the lines in a while, although the cursor does not move up.
    pub fn touch(&mut self, now: Instant) {
        self.moved_at.get_or_insert(now);
    }

    /// Saves the place of the cursor, which is at this byte of its line.
    pub fn save(&mut self, column: usize) {
        self.saved = Some((self.above + self.at, column));
    }

    /// Returns the movement to the saved line, if it is another one, and the saved byte of that line.
    pub fn saved(&self) -> Option<(Option<Move>, usize)> {
        let (line, column) = self.saved?;
        let here = self.above + self.at;
        let movement = match line.cmp(&here) {
            std::cmp::Ordering::Less => Some(Move::Up(here - line)),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Move::Down(line - here)),
        };
        Some((movement, column))
    }

    /// Remembers a complete line that was reported.
    pub fn remember(&mut self, line: &str, out: &mut String) {
        self.add(line, Some(line.to_owned()), out);
    }

    /// Holds a complete line, and reports lines that are more than a terminal has.
    pub fn hold(&mut self, line: &str, now: Instant, out: &mut String) {
        self.held.push_back(now);
        self.add(line, None, out);
    }

    fn add(&mut self, line: &str, reported: Option<String>, out: &mut String) {
        self.above += 1;
        self.recent.push_back(Row {
            text: line.to_owned(),
            reported,
        });
        if self.recent.len() > LINES_MAX {
            if self.held.len() == self.recent.len() {
                self.release_first(out);
            }
            self.recent.pop_front();
        }
    }

    /// Returns when the first and the last held line are reported.
    pub fn held_until(&self) -> Option<(Instant, Instant)> {
        let (first, last) = self.held.front().zip(self.held.back())?;
        Some((*first + HOLD_TIME, *last + HOLD_TIME))
    }

    /// Reports the lines that were held long enough.
    pub fn release_due(&mut self, now: Instant, out: &mut String) {
        while self.held_until().is_some_and(|(due, _)| now >= due) {
            self.release_first(out);
        }
    }

    /// Reports all held lines.
    pub fn release(&mut self, out: &mut String) {
        while !self.held.is_empty() {
            self.release_first(out);
        }
    }

    fn release_first(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_shown) {
            out.push('\r');
        }
        let at = self.recent.len() - self.held.len();
        self.held.pop_front();
        if let Some(row) = self.recent.get_mut(at) {
            row.report(out);
        }
    }

    /// Begins with the open line and what is reported of it.
    pub fn begin(&mut self, text: String, reported: Option<String>) {
        self.rows.push(Row { text, reported });
        self.at = 0;
    }

    /// Moves the cursor, whose line has this text, and returns the text of its new line.
    pub fn step(&mut self, text: String, movement: Move, now: Instant) -> String {
        self.rows[self.at].text = text;
        match movement {
            Move::Up(rows) => {
                let missing = rows.saturating_sub(self.at).min(self.recent.len());
                let above = self.recent.split_off(self.recent.len() - missing);
                self.held.truncate(self.held.len().saturating_sub(missing));
                self.rows.splice(..0, above);
                self.above -= missing;
                self.at = (self.at + missing).saturating_sub(rows);
                self.moved_at = Some(now);
            }
            Move::Down(rows) => self.at = (self.at + rows).min(self.rows.len() - 1),
            Move::EraseBelow => self.rows.truncate(self.at + 1),
            Move::Save | Move::Restore => {}
        }
        std::mem::take(&mut self.rows[self.at].text)
    }

    /// Ends the cursor's line, and returns the text of the next one.
    pub fn end_line(&mut self, text: String) -> String {
        self.rows[self.at].text = text;
        self.at += 1;
        if self.at == self.rows.len() {
            self.rows.push(Row::default());
        }
        std::mem::take(&mut self.rows[self.at].text)
    }

    /// Returns true if more lines are held than a terminal has.
    pub fn is_full(&self) -> bool {
        self.rows.len() > LINES_MAX
    }

    /// Returns the last line above the cursor's that shows something.
    pub fn shown(&self) -> &str {
        let above = self.rows[..self.at].iter().rev();
        let mut shown = above.map(|row| &*row.text).filter(|text| !is_blank(text));
        shown.next().unwrap_or_default()
    }

    /// Reports the last states of the lines after a while. Returns the text of the cursor's line, which has
    /// this text, and is open if it is the last one.
    pub fn settle(&mut self, text: String, out: &mut String) -> String {
        if self.at + 1 == self.rows.len() {
            return self.finish(text, out);
        }
        self.rows[self.at].text = text;
        self.moved_at = None;
        self.report(out);
        std::mem::take(&mut self.rows[self.at].text)
    }

    /// Reports the last states of all lines but the open one, which it returns. The cursor's line has this
    /// text.
    pub fn finish(&mut self, text: String, out: &mut String) -> String {
        self.rows[self.at].text = text;
        let is_last = self.at + 1 == self.rows.len();
        let open = if is_last { self.rows.pop() } else { None };
        let reported = self.report(out);
        self.above += reported;
        self.rows.truncate(reported);
        self.recent.extend(self.rows.drain(..));
        self.at = 0;
        let surplus = self.recent.len().saturating_sub(LINES_MAX);
        self.recent.drain(..surplus);
        let open = open.filter(Row::is_new);
        open.map_or_else(String::new, |row| row.text)
    }

    /// Reports the rows that have changed, and returns the number of rows that are lines.
    fn report(&mut self, out: &mut String) -> usize {
        self.release(out);
        if std::mem::take(&mut self.is_shown) {
            out.push('\r');
        }
        // Blank lines below the cursor are what a longer drawing has left.
        let last = self.rows.iter().rposition(|row| !is_blank(&row.text));
        let lines = last.map_or(0, |last| last + 1).max(self.at);
        for row in self.rows[..lines].iter_mut().filter(|row| row.is_new()) {
            row.report(out);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movements_between_lines_are_found_wherever_the_text_is_cut() {
        let text = "a\x1b[31mb\x1b[2Ac\x1b[Jd";
        assert_eq!(
            next_move(text),
            Some(("a\x1b[31mb", Move::Up(2), "c\x1b[Jd"))
        );
        assert_eq!(next_move("c\x1b[Jd"), Some(("c", Move::EraseBelow, "d")));
        assert_eq!(next_move("\x1b[2Jd\x1b[?1A"), None);
        for cut in 0..text.len() {
            let (first, rest) = text.split_at(cut);
            let (first, held) = split_cut_sequence(first);
            let joined = format!("{held}{rest}");
            let moves = |text| next_move(text).map(|(_, movement, _)| movement);
            assert_eq!(moves(first).or(moves(&joined)), Some(Move::Up(2)), "{cut}");
        }
    }

    #[test]
    fn blank_lines_may_have_control_sequences() {
        assert!(is_blank("") && is_blank(" \x1b[2K\x1b[0m ") && is_blank("\x1b["));
        assert!(!is_blank("\x1b[2Ka") && !is_blank("b\x1b[0m"));
    }
}
