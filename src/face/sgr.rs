//! Lines of programs that write for terminals: their colours are kept, every other order is taken out (pure).
//!
//! Of escape sequences only SGR (`ESC [ 1 ; 31 m`: colours, bold and the like) is let through, and
//! only where colours are wanted. A colour that a line ends with is in force on the next one of its
//! stream, as on a terminal; no line leaves it to what others print.

use std::borrow::Cow;

use memchr::memchr2_iter;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::clean::{is_printable, push_clean_at};

/// The longest parameters that are let through: two colours in full and a few attributes.
const PARAMS_MAX: usize = 64;

/// Back to how the terminal writes by itself.
const RESET: &str = "\x1b[0m";

/// Paints the lines of one stream, one after another. What it remembers is bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Paint {
    escapes: Escapes,
    /// What is in force: each with the code that ends it. One for each of these codes, and two for
    /// the one that ends both bold and faint.
    in_force: Vec<(u16, String)>,
}

impl Paint {
    /// Adds a line, or the next part of one, as it may be shown. Nothing is added for a line of
    /// which nothing is to be seen.
    pub fn push(&mut self, out: &mut String, text: &str, coloured: bool) {
        if self.is_clean() && is_printable(text) {
            return out.push_str(text);
        }
        let start = out.len();
        let (mut is_empty, mut is_set) = (true, false);
        if coloured && !self.in_force.is_empty() {
            self.push_in_force(out);
            is_set = true;
        }
        // Columns are counted where that matters only.
        let has_tabs = text.contains('\t');
        let (mut column, mut rest) = (0, text);
        while !rest.is_empty() {
            let step = self.escapes.step(rest);
            if !step.shown.is_empty() {
                let before = out.len();
                push_clean_at(out, step.shown, column);
                is_empty = false;
                if has_tabs {
                    column += out[before..].width();
                }
            }
            if step.is_sgr && coloured {
                let params = self.escapes.params.as_str();
                for part in ["\x1b[", params, "m"] {
                    out.push_str(part);
                }
                is_set = !is_reset(params);
                force(&mut self.in_force, params);
            }
            rest = step.rest;
        }
        if is_empty {
            out.truncate(start);
        } else if is_set {
            out.push_str(RESET);
        }
    }

    /// Whether text is shown as it is: no colour is in force, and no sequence is open.
    pub fn is_clean(&self) -> bool {
        self.in_force.is_empty() && self.escapes.state == State::Text
    }

    /// Takes in the colours of text that is not shown.
    pub fn absorb(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let step = self.escapes.step(rest);
            if step.is_sgr {
                force(&mut self.in_force, &self.escapes.params);
            }
            rest = step.rest;
        }
    }

    /// The line is over, and with it a sequence that was not: a broken one hides no more than that.
    pub fn end_line(&mut self) {
        self.escapes.state = State::Text;
    }

    fn push_in_force(&self, out: &mut String) {
        out.push_str("\x1b[");
        for (at, (_, params)) in self.in_force.iter().enumerate() {
            if at > 0 {
                out.push(';');
            }
            out.push_str(params);
        }
        out.push('m');
    }
}

/// As much of the start of a painted line as fits into so many columns.
pub(super) fn cut_painted(painted: &str, columns: usize) -> Cow<'_, str> {
    let (mut used, mut is_coloured) = (0, false);
    let mut chars = painted.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\x1b' {
            // Nothing but SGR is in what was painted.
            is_coloured = true;
            let _ = chars.by_ref().find(|(_, c)| *c == 'm');
            continue;
        }
        used += c.width().unwrap_or(0);
        if used > columns {
            let fits = &painted[..at];
            return match is_coloured {
                true => Cow::Owned([fits, RESET].concat()),
                false => Cow::Borrowed(fits),
            };
        }
    }
    Cow::Borrowed(painted)
}

/// How many columns a painted line takes.
pub(super) fn columns_of(painted: &str) -> usize {
    let (mut columns, mut chars) = (0, painted.chars());
    while let Some(c) = chars.next() {
        match c {
            // Nothing but SGR is in what was painted.
            '\x1b' => drop(chars.by_ref().find(|c| *c == 'm')),
            c => columns += c.width().unwrap_or(0),
        }
    }
    columns
}

/// A painted line in rows of so many columns at most, each with the colours that are in force there.
pub(super) fn wrap_painted(painted: &str, columns: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut row, mut used) = (String::new(), 0);
    // The sequences since the last reset: together they are what is in force.
    let mut in_force = String::new();
    let mut rest = painted;
    while let Some(c) = rest.chars().next() {
        if c == '\x1b' {
            let end = rest.find('m').map_or(rest.len(), |end| end + 1);
            let (sequence, after) = rest.split_at(end);
            row.push_str(sequence);
            match sequence {
                "\x1b[m" | RESET => in_force.clear(),
                _ => in_force.push_str(sequence),
            }
            rest = after;
            continue;
        }
        let width = c.width().unwrap_or(0);
        if used + width > columns && used > 0 {
            if !in_force.is_empty() {
                row.push_str(RESET);
            }
            rows.push(std::mem::replace(&mut row, in_force.clone()));
            used = 0;
        }
        used += width;
        row.push(c);
        rest = &rest[c.len_utf8()..];
    }
    // A row of which nothing is to be seen is none, but for the first.
    if used > 0 || rows.is_empty() {
        rows.push(row);
    } else if let Some(last) = rows.last_mut() {
        last.push_str(&row);
    }
    rows
}

/// The end of what was painted, within so many columns, without its colours where it is cut.
pub(super) fn end_of_painted(painted: &str, columns: usize) -> Cow<'_, str> {
    let mut plain = String::with_capacity(painted.len());
    let mut chars = painted.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                let _ = chars.by_ref().find(|c| *c == 'm');
            }
            c => plain.push(c),
        }
    }
    if plain.width() <= columns {
        return Cow::Borrowed(painted);
    }
    let mut used = 1;
    let mut start = plain.len();
    for (at, c) in plain.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        start = at;
    }
    Cow::Owned(match columns {
        0 => String::new(),
        _ => format!("…{}", &plain[start..]),
    })
}

/// Tells escape sequences from text, also when they come in pieces.
#[derive(Clone, Debug, Default)]
struct Escapes {
    state: State,
    /// What stands between `ESC [` and the end of such a sequence.
    params: String,
    /// It cannot be SGR any more.
    is_other: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and bytes that only announce, as in charset selections.
    Announced,
    /// In `ESC [`.
    Control,
    /// In a string for the terminal: its title, the clipboard, an image.
    String,
}

/// Text up to a sequence, and that sequence as far as it goes.
#[derive(Debug)]
struct Step<'t> {
    shown: &'t str,
    /// The sequence is SGR, and complete.
    is_sgr: bool,
    rest: &'t str,
}

impl Escapes {
    /// Takes the next of `text`, at least a character.
    fn step<'t>(&mut self, text: &'t str) -> Step<'t> {
        let shown = match self.state {
            State::Text => &text[..find_order(text)],
            _ => "",
        };
        let orders = &text[shown.len()..];
        let mut is_sgr = false;
        for (at, c) in orders.char_indices() {
            let before = std::mem::take(&mut self.state);
            self.state = match (before, c) {
                // What follows is text, or this character is: it cannot stand in a sequence.
                (State::Text, c) if !is_order(c) => return step(shown, false, &orders[at..]),
                (State::Escape | State::Announced | State::Control, c) if is_order(c) => {
                    self.opened(c)
                }
                (State::Text, c) => self.opened(c),
                (State::Escape, '[') => self.control(),
                (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::String,
                (State::Escape | State::Announced, ' '..='/') => State::Announced,
                (State::Escape | State::Announced, '0'..='~') => State::Text,
                (State::Control, '0'..='?') => {
                    self.is_other |= !matches!(c, '0'..='9' | ';' | ':');
                    self.is_other |= self.params.len() >= PARAMS_MAX;
                    if !self.is_other {
                        self.params.push(c);
                    }
                    State::Control
                }
                (State::Control, ' '..='/') => {
                    self.is_other = true;
                    State::Control
                }
                (State::Control, '@'..='~') => {
                    is_sgr = c == 'm' && !self.is_other;
                    State::Text
                }
                (State::String, '\x07' | '\x18' | '\x1a' | '\u{9c}') => State::Text,
                (State::String, '\x1b') => State::Escape,
                (State::String, _) => State::String,
                (State::Escape | State::Announced | State::Control, _) => {
                    return step(shown, false, &orders[at..]);
                }
            };
            if self.state == State::Text {
                return step(shown, is_sgr, &orders[at + c.len_utf8()..]);
            }
        }
        step(shown, false, "")
    }

    /// What begins with a character that orders.
    fn opened(&mut self, c: char) -> State {
        match c {
            '\x1b' => State::Escape,
            '\u{9b}' => self.control(),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => State::String,
            _ => State::Text,
        }
    }

    fn control(&mut self) -> State {
        self.params.clear();
        self.is_other = false;
        State::Control
    }
}

fn step<'t>(shown: &'t str, is_sgr: bool, rest: &'t str) -> Step<'t> {
    Step {
        shown,
        is_sgr,
        rest,
    }
}

/// ESC, and its relatives of one byte.
fn is_order(c: char) -> bool {
    matches!(c, '\x1b' | '\u{80}'..='\u{9f}')
}

/// Where the first of these stands, or the end. Looked for by bytes: most text has none.
fn find_order(text: &str) -> usize {
    let bytes = text.as_bytes();
    // One byte for ESC, and the first of two for the others, which are not alone in that.
    memchr2_iter(0x1b, 0xc2, bytes)
        .find(|&at| bytes[at] == 0x1b || bytes.get(at + 1).is_some_and(|next| *next < 0xa0))
        .unwrap_or(bytes.len())
}

/// Whether nothing is in force after it.
fn is_reset(params: &str) -> bool {
    params.bytes().all(|byte| matches!(byte, b'0' | b';'))
}

/// Takes the parameters of a sequence into what is in force.
fn force(in_force: &mut Vec<(u16, String)>, params: &str) {
    if is_reset(params) {
        return in_force.clear();
    }
    let mut parts = params.split(';');
    while let Some(part) = parts.next() {
        let first = part.split(':').next().unwrap_or_default();
        // Nothing is 0; what is no number of a byte means nothing.
        let code = match first.is_empty() {
            true => 0,
            false => first.parse().unwrap_or(u16::MAX),
        };
        let mut whole = part.to_owned();
        if matches!(code, 38 | 48 | 58) && part == first {
            // A colour by its number or by its three shares, in parameters of their own.
            let more = match parts.next() {
                Some("5") => ("5", 1),
                Some("2") => ("2", 3),
                _ => return,
            };
            whole.push(';');
            whole.push_str(more.0);
            for _ in 0..more.1 {
                let Some(share) = parts.next() else { return };
                whole.push(';');
                whole.push_str(share);
            }
        }
        if code == 0 {
            in_force.clear();
        } else if is_end(code) || part == "4:0" {
            let ends = if part == "4:0" { 24 } else { code };
            in_force.retain(|(end, _)| *end != ends);
        } else if let Some(end) = end_of(code) {
            // Bold and faint are two things with one end.
            in_force.retain(|(other, old)| *other != end || end == 22 && *old != whole);
            in_force.truncate(IN_FORCE_MAX - 1);
            in_force.push((end, whole));
        }
    }
}

/// As many as there are codes that end something, and one for bold and faint.
const IN_FORCE_MAX: usize = 13;

fn is_end(code: u16) -> bool {
    matches!(code, 22..=25 | 27..=29 | 39 | 49 | 54 | 55 | 59)
}

/// The code that ends what this one begins.
fn end_of(code: u16) -> Option<u16> {
    Some(match code {
        1 | 2 => 22,
        3 | 20 => 23,
        4 | 21 => 24,
        5 | 6 => 25,
        7..=9 => code + 20,
        30..=38 | 90..=97 => 39,
        40..=48 | 100..=107 => 49,
        51 | 52 => 54,
        53 => 55,
        58 => 59,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "sgr_tests.rs"]
mod tests;
