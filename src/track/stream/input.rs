//! Parses a pane's bytes, cut anywhere, and executes them on the terminal (pure).
//!
//! Text is taken in runs. [`escapes`] finds the sequences, which are executed on the emulation of tmux's
//! terminal. This module adds the rules of tmux: strings that only `ESC \` ends, titles (`ESC k`), bytes
//! beyond ASCII, and which sequences it supports.

use std::time::Duration;

use super::super::capture::TmuxVersion;
use super::grid::{Grid, GridRow};
use super::marks::{Marks, OSC_BYTES_MAX};
use super::terminal::{Pen, Position, Terminal};
use crate::escapes::{self, BELL, ESCAPE, State, is_string};
use crate::event::{Ink, SgrOperation, sgr_operations};

/// The time after which tmux abandons a string without an end. Later bytes are text.
const STRING_PERIOD: Duration = Duration::from_secs(5);

/// The time after which tmux has certainly read earlier bytes: it reads them as soon as they arrive,
/// even on a busy machine. Whether it reads bytes within this time together is a guess, which a
/// comparison of screens corrects.
const READ_TOGETHER: Duration = Duration::from_millis(100);

/// The beginning of a string that tmux passes on to its clients, after `ESC`. Each escape in it is doubled.
const PASSED_ON: &[u8] = b"Ptmux;";

/// The parser of a pane's bytes.
#[derive(Debug, Default)]
pub(super) struct Input {
    state: State,
    /// A character beyond ASCII whose end is missing.
    character: PartialChar,
    /// The last byte of a string that only `ESC \` ends is an escape.
    escaped: bool,
    /// The first bytes after the last `ESC`, without controls.
    sequence: Vec<u8>,
    /// The state of what tmux passes on to its clients, once [`PASSED_ON`] has arrived.
    passed_on: Option<State>,
    /// The time of the bytes.
    now: Duration,
    /// The time at which the unfinished string began.
    string_began: Option<Duration>,
    /// A string was abandoned, and no sequence has begun since: tmux still reports it as pending.
    has_abandoned_string: bool,
}

/// The bytes of an incomplete UTF-8 character.
#[derive(Debug, Default)]
struct PartialChar {
    bytes: [u8; 4],
    len: usize,
    needed: usize,
}

impl PartialChar {
    /// Takes a byte from 0x80 on. Returns the character that it completes, or the kind of invalid bytes.
    fn push(&mut self, byte: u8) -> Option<Result<char, InvalidUtf8>> {
        if self.needed == 0 {
            self.needed = match byte {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return Some(Err(InvalidUtf8::Broken)),
            };
            self.len = 0;
        }
        self.bytes[self.len] = byte;
        self.len += 1;
        if self.len < self.needed {
            return None;
        }
        self.needed = 0;
        let text = std::str::from_utf8(&self.bytes[..self.len]);
        let character = text.ok().and_then(|text| text.chars().next());
        let [first, second, ..] = self.bytes;
        Some(character.ok_or(match (first, second) {
            (0xf4, 0x90..=0xbf) => InvalidUtf8::Beyond,
            _ => InvalidUtf8::Broken,
        }))
    }
}

/// Bytes that are not UTF-8.
#[derive(Clone, Copy, Debug)]
enum InvalidUtf8 {
    /// tmux drops them before 3.6, and shows U+FFFD since.
    Broken,
    /// A code beyond the last character, which C libraries accept.
    Beyond,
}

impl Input {
    /// Sets the time of the next bytes. If tmux did not read them together with earlier ones, it forgets
    /// a joiner (before 3.4). A string that has been open for too long is abandoned; tmux then resets
    /// the attributes and the saved cursor.
    pub fn advance_clock(&mut self, now: Duration, terminal: &mut Terminal) {
        if now.saturating_sub(self.now) >= READ_TOGETHER {
            terminal.joins = false;
        }
        (self.now, terminal.now) = (now, now);
        let began = self.string_began;
        if began.is_some_and(|began| now.saturating_sub(began) >= STRING_PERIOD) {
            *self = Self {
                now,
                has_abandoned_string: true,
                ..Self::default()
            };
            (terminal.pen, terminal.ink) = (Pen::default(), Ink::default());
            terminal.saved_ink = Ink::default();
            terminal.saved_cursor.0 = Position::default();
            terminal.last = None;
        }
    }

    /// Returns true if the parser agrees with tmux, which reports these bytes as pending.
    pub fn agrees(&self, pending: &[u8]) -> bool {
        self.has_abandoned_string || (self.state == State::Ground) == pending.is_empty()
    }

    /// Takes bytes until `is_full`, and returns how many.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        terminal: &mut Terminal,
        marks: &mut Marks,
        is_full: impl Fn(&Terminal, &Marks) -> bool,
    ) -> usize {
        let mut at = 0;
        // Plain lines have been searched up to here.
        let mut scanned_to = 0;
        let mut scan_bytes = BYTES_MAX;
        while let Some(&byte) = bytes.get(at) {
            if is_full(terminal, marks) {
                break;
            }
            if self.state != State::Ground {
                self.in_sequence(byte, terminal, marks);
                self.note_string(terminal);
                at += 1;
                continue;
            }
            if at >= scanned_to && matches!(byte, b' '..=b'~' | b'\r') && terminal.only_scrolls() {
                let plain = Plain::leading(&bytes[at..], scan_bytes, terminal.width());
                scanned_to = at + plain.bytes;
                scan_bytes = plain.next_bytes_max();
                if self.character.needed == 0 && terminal.print_lines(&plain) {
                    at = scanned_to;
                    continue;
                }
            }
            match byte {
                b' '..=b'~' => {
                    let text = printable(&bytes[at..]);
                    self.cut_character(terminal);
                    terminal.print_ascii(text);
                    at += text.len();
                    continue;
                }
                b'\n' | b'\x0b' | b'\x0c' => self.control(terminal, |t| t.line_feed(false)),
                b'\r' => self.control(terminal, Terminal::carriage_return),
                b'\x08' => self.control(terminal, Terminal::back),
                b'\t' => self.control(terminal, Terminal::tab),
                b'\x1b' => {
                    self.sequence.clear();
                    self.has_abandoned_string = false;
                    self.state = State::Escape;
                }
                0x80.. => match self.character.push(byte) {
                    Some(Ok(character)) => terminal.print(character),
                    Some(Err(InvalidUtf8::Broken)) => no_character(terminal),
                    Some(Err(InvalidUtf8::Beyond)) => terminal.print_beyond(),
                    None => terminal.last = None,
                },
                b'\x7f' => {}
                BELL => {
                    marks.push_bell();
                    self.control(terminal, |_| ());
                }
                _ => self.control(terminal, |_| ()),
            }
            at += 1;
        }
        at
    }

    /// Ends an incomplete character.
    fn cut_character(&mut self, terminal: &mut Terminal) {
        if std::mem::take(&mut self.character.needed) > 0 {
            no_character(terminal);
        }
    }

    fn control(&mut self, terminal: &mut Terminal, does: impl Fn(&mut Terminal)) {
        self.cut_character(terminal);
        terminal.last = None;
        does(terminal);
    }

    /// Records when a string begins. Like tmux, it does not restart the timer when the string continues.
    fn note_string(&mut self, terminal: &mut Terminal) {
        self.string_began = if is_string(self.state) {
            terminal.last = None;
            self.string_began.or(Some(self.now))
        } else {
            None
        };
    }

    fn keep(&mut self, byte: u8) {
        let max = match self.state {
            State::OscString => OSC_BYTES_MAX + 1,
            _ => SEQUENCE_BYTES,
        };
        if self.sequence.len() < max {
            self.sequence.push(byte);
        }
    }

    /// Takes a byte of a string that tmux may pass on to its clients.
    fn pass_on(&mut self, byte: u8, marks: &mut Marks) {
        let Some(state) = &mut self.passed_on else {
            if self.sequence.len() < PASSED_ON.len() {
                self.sequence.push(byte);
                self.passed_on = (self.sequence == PASSED_ON).then_some(State::Ground);
            }
            return;
        };
        if *state == State::OscString && matches!(byte, BELL | ESCAPE) {
            marks.push_passed(&self.sequence);
        }
        if byte == ESCAPE {
            self.sequence.clear();
        } else if byte >= b' ' && byte != b'\x7f' && self.sequence.len() <= OSC_BYTES_MAX {
            self.sequence.push(byte);
        }
        escapes::advance(state, byte);
    }

    fn in_sequence(&mut self, byte: u8, terminal: &mut Terminal, marks: &mut Marks) {
        if self.state == State::DcsPassthrough {
            // Only `ESC \` ends it. An escape before another byte is dropped.
            let is_escape = !self.escaped && byte == ESCAPE;
            match (self.escaped, byte) {
                (true, b'\\') => (self.state, self.passed_on) = (State::Ground, None),
                _ if is_escape => {}
                _ => self.pass_on(byte, marks),
            }
            self.escaped = is_escape;
            return;
        }
        self.escaped = false;
        // Bytes beyond ASCII occur only in the text of strings.
        if byte >= 0x80 {
            self.keep(byte);
            return;
        }
        if self.state == State::Escape && byte == b'k' {
            // A title, which ends with `ESC \`.
            self.state = State::SosPmApcString;
            return;
        }
        if self.state == State::OscString && matches!(byte, BELL | ESCAPE) {
            match terminal.addresses.link(&self.sequence) {
                Some(link) => terminal.ink.link = link,
                None => marks.push_osc(&self.sequence, terminal),
            }
        }
        if byte == ESCAPE {
            self.sequence.clear();
        } else if (b' '..=b'~').contains(&byte) {
            self.keep(byte);
        }
        escapes::advance(&mut self.state, byte);
        match byte {
            ESCAPE => {}
            ..b' ' => {
                // Only the controls that cancel a sequence take effect in strings.
                if self.string_began.is_none() || matches!(byte, b'\x18' | b'\x1a') {
                    if byte == BELL {
                        marks.push_bell();
                    }
                    self.control(terminal, |terminal| control(byte, terminal));
                }
            }
            _ => {
                if self.state == State::Ground
                    && let Some(sequence) = Sequence::read(&self.sequence)
                {
                    execute(&sequence, terminal);
                    if !sequence.is_control && sequence.function == (None, b'c') {
                        marks.push_reset();
                    }
                    terminal.last = None;
                }
            }
        }
    }
}

fn no_character(terminal: &mut Terminal) {
    if terminal.version >= TmuxVersion::new(3, 6) {
        terminal.print(char::REPLACEMENT_CHARACTER);
    }
    terminal.last = None;
}

/// Executes a control, which may occur within a sequence.
fn control(byte: u8, terminal: &mut Terminal) {
    match byte {
        b'\x08' => terminal.back(),
        b'\t' => terminal.tab(),
        b'\n' | b'\x0b' | b'\x0c' => terminal.line_feed(false),
        b'\r' => terminal.carriage_return(),
        _ => {}
    }
}

fn execute(sequence: &Sequence<'_>, t: &mut Terminal) {
    let n = |at| sequence.count(at);
    // The first number of a function with several meanings.
    let choice = sequence.number(0).unwrap_or_default();
    let parameters = match sequence.function {
        (None, b'H' | b'f' | b'r') => 2,
        (None, b'm' | b's' | b'u' | b'h' | b'l') | (Some(b'?'), _) => 0,
        _ => 1,
    };
    if (0..parameters).any(|at| sequence.is_text(at)) {
        return;
    }
    if !sequence.is_control {
        match sequence.function {
            (None, b'7') => t.save_cursor(),
            (None, b'8') => t.restore_cursor(),
            (None, b'D') => t.line_feed(false),
            (None, b'E') => {
                t.carriage_return();
                t.line_feed(false);
            }
            (None, b'H') => t.set_tab(true),
            (None, b'M') => t.reverse_index(),
            (None, b'c') => t.reset(),
            (Some(b'#'), b'8') => t.align(),
            // Character sets and keypads, which have no effect on text.
            _ => {}
        }
        return;
    }
    match sequence.function {
        (None, b'@') => t.insert_cells(n(0)),
        (None, b'A') => t.up(n(0)),
        (None, b'B') => t.down(n(0)),
        (None, b'C' | b'a') => t.right(n(0)),
        (None, b'D') => t.left(n(0)),
        (None, b'E') => {
            t.carriage_return();
            t.down(n(0));
        }
        (None, b'F') => {
            t.carriage_return();
            t.up(n(0));
        }
        (None, b'G' | b'`') => t.go_to_column(n(0) - 1),
        (None, b'H' | b'f') => {
            t.go_to_row(n(0) - 1);
            t.go_to_column(n(1) - 1);
        }
        (None, b'J') => match choice {
            0 => t.erase_below(),
            1 => t.erase_above(),
            2 => t.erase_screen(),
            // tmux clears its history, whose lines are known.
            3 if sequence.number(1).unwrap_or_default() == 0 => t.grid.scrolled.history.size = 0,
            _ => {}
        },
        (None, b'K') => match choice {
            0 => t.erase_right(),
            1 => t.erase_left(),
            2 => t.erase_row(),
            _ => {}
        },
        (None, b'L') => t.insert_rows(n(0)),
        (None, b'M') => t.delete_rows(n(0)),
        (None, b'P') => t.delete_cells(n(0)),
        (None, b'S') => t.scroll_up(n(0)),
        (None, b'T') => t.scroll_down(n(0)),
        (None, b'X') => t.erase_cells(n(0)),
        (None, b'Z') => t.back_tab(n(0)),
        (None, b'b') => t.repeat(n(0)),
        (None, b'd') => t.go_to_row(n(0) - 1),
        (None, b'g') => match choice {
            0 => t.set_tab(false),
            3 => t.tabs.fill(false),
            _ => {}
        },
        // Insert mode.
        (None, b'h' | b'l') if sequence.numbers().any(|mode| mode == 4) => {
            t.insert = sequence.function.1 == b'h';
        }
        (None, b'm') => {
            for operation in sgr_operations(sequence.text()) {
                t.ink.take(operation);
                match operation {
                    SgrOperation::Reset => t.pen = Pen::default(),
                    SgrOperation::Foreground(colour) => t.pen.foreground = colour.is_some(),
                    SgrOperation::Background(colour) => t.pen.background = colour.is_some(),
                    // Marks that are reset do not count, because the difference rarely matters.
                    SgrOperation::Set(_) | SgrOperation::Unset(_) => t.pen.marked = true,
                }
            }
        }
        (None, b'r') => {
            // Zero differs from a missing number here.
            let lower = sequence.number(1).map_or(t.height(), |lower| lower.max(1));
            t.set_region(n(0) - 1, lower - 1);
        }
        (None, b's') => t.save_cursor(),
        (None, b'u') => t.restore_cursor(),
        (Some(b'?'), b'h' | b'l') => {
            let is_set = sequence.function.1 == b'h';
            sequence.numbers().for_each(|mode| set(t, mode, is_set));
        }
        // Not supported by tmux, or without an effect on text.
        _ => {}
    }
}

/// Sets or resets a private mode.
fn set(terminal: &mut Terminal, mode: usize, is_set: bool) {
    match mode {
        // Switching to and from 132 columns erases the screen.
        3 => {
            terminal.home();
            terminal.erase_screen();
        }
        6 => {
            terminal.origin = is_set;
            terminal.home();
        }
        7 => terminal.wrap = is_set,
        2026 if is_set => terminal.begin_update(),
        2026 => terminal.end_update(),
        47 | 1047 | 1049 if is_set => terminal.enter(mode == 1049),
        47 | 1047 | 1049 => terminal.leave(mode == 1049),
        _ => {}
    }
}

/// Returns the leading printable ASCII.
fn printable(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| !(b' '..=b'~').contains(byte));
    &bytes[..end.unwrap_or(bytes.len())]
}

// Parses the sequences that tmux supports, by its rules (pure).

const NUMBERS_BYTES_MAX: usize = 63;

/// The bytes of a sequence that are kept: more than any sequence that tmux accepts has.
const SEQUENCE_BYTES: usize = NUMBERS_BYTES_MAX + 4;

/// A sequence after its `ESC`.
#[derive(Clone, Copy, Debug)]
struct Sequence<'a> {
    /// True after `ESC [`.
    is_control: bool,
    /// The private marker or intermediate byte, and the last byte.
    function: (Option<u8>, u8),
    numbers: &'a [u8],
}

impl<'a> Sequence<'a> {
    /// Parses the bytes after `ESC`, without controls. Returns `None` for sequences that tmux ignores.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() >= SEQUENCE_BYTES {
            return None;
        }
        let (last, before) = bytes.split_last()?;
        let control = before.strip_prefix(b"[");
        let mut rest = control.unwrap_or(before);
        let mut kind = None;
        if control.is_some()
            && let Some((first @ b'<'..=b'?', after)) = rest.split_first()
        {
            (kind, rest) = (Some(*first), after);
        }
        let end = rest.iter().take_while(|byte| (b'0'..=b';').contains(byte));
        let (numbers, rest) = rest.split_at(end.count());
        kind = match (rest, kind) {
            ([], kind) => kind,
            ([intermediate @ b' '..=b'/'], None) => Some(*intermediate),
            _ => return None,
        };
        let finals: &[u8] = match (control.is_some(), kind) {
            (true, None) => b"@ABCDEFGHJKLMPSTXZ`bcdfghlmnrstu",
            (true, Some(b'?')) => b"hl",
            (true, Some(b'>')) => b"cmnq",
            (true, Some(b' ')) => b"q",
            (false, None) => b"78=>DEHM\\c",
            (false, Some(b'(' | b')')) => b"0B",
            (false, Some(b'#')) => b"8",
            _ => b"",
        };
        let sequence = Self {
            is_control: control.is_some(),
            function: (kind, *last),
            numbers,
        };
        (finals.contains(last) && sequence.is_accepted()).then_some(sequence)
    }

    /// Returns true if tmux accepts the parameters.
    fn is_accepted(&self) -> bool {
        let is_accepted =
            |part: &[u8]| part.is_empty() || part.contains(&b':') || number(part).is_some();
        self.numbers.len() <= NUMBERS_BYTES_MAX
            // tmux ignores a sequence with more parameters than this.
            && self.parts().count() <= 23
            && self.parts().all(is_accepted)
    }

    fn parts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.numbers.split(|byte| *byte == b';')
    }

    fn part(&self, at: usize) -> &'a [u8] {
        self.parts().nth(at).unwrap_or_default()
    }

    fn text(&self) -> &'a str {
        std::str::from_utf8(self.numbers).unwrap_or_default()
    }

    /// Returns true if a parameter is not a single number, because it has subparameters.
    pub fn is_text(&self, at: usize) -> bool {
        self.part(at).contains(&b':')
    }

    /// Returns a parameter, if it is a number.
    pub fn number(&self, at: usize) -> Option<usize> {
        number(self.part(at))
    }

    /// Returns a parameter that is a count: a missing one, or zero, means one.
    pub fn count(&self, at: usize) -> usize {
        self.number(at).unwrap_or_default().max(1)
    }

    pub fn numbers(&self) -> impl Iterator<Item = usize> + use<'a> {
        self.parts().filter_map(number)
    }
}

fn number(part: &[u8]) -> Option<usize> {
    let number: i32 = std::str::from_utf8(part).ok()?.parse().ok()?;
    usize::try_from(number).ok()
}

// Prints plain lines at the bottom of the screen in bulk (pure).
//
// Of a thousand lines that scroll by, only the last few remain on the screen. The text of the others
// goes directly to the lines that have scrolled off, without the grid.

/// The most bytes taken at a time, which bounds the text that waits to be reported.
pub(super) const BYTES_MAX: usize = 64 * 1024;

/// The fewest bytes to scan. Scanned bytes that are not plain are parsed again.
const BYTES_LEAST: usize = 512;

/// The longest line, in bytes. Longer ones are printed through the grid.
const LINE_BYTES_MAX: usize = 4096;

/// Leading plain lines: printable ASCII, each ended by `\n` after one or more `\r`. Programs that print
/// `\r\n` themselves send `\r\r\n`, because the terminal adds a return.
#[derive(Debug, Default)]
pub(super) struct Plain<'a> {
    /// The lines, without their ends.
    lines: Vec<&'a str>,
    /// Their number of rows.
    rows: usize,
    /// Their number of bytes, including their ends.
    pub bytes: usize,
}

impl<'a> Plain<'a> {
    /// Scans up to `bytes_max` bytes for leading plain lines.
    pub fn leading(bytes: &'a [u8], bytes_max: usize, width: usize) -> Self {
        let bytes = plain_part(&bytes[..bytes.len().min(bytes_max)]);
        let mut plain = Self::default();
        let mut returns = 0;
        let Ok(text) = std::str::from_utf8(bytes) else {
            return plain;
        };
        for end in memchr::memchr_iter(b'\n', bytes) {
            let Some(mut line) = text[plain.bytes..end].strip_suffix('\r') else {
                break;
            };
            while let Some(shorter) = line.strip_suffix('\r') {
                line = shorter;
            }
            if line.len() > LINE_BYTES_MAX {
                break;
            }
            returns += end - plain.bytes - line.len();
            plain.rows += rows_of(line, width);
            plain.lines.push(line);
            plain.bytes = end + 1;
        }
        // A return within a line overwrites it, so the plain lines end before that line.
        if memchr::memchr_iter(b'\r', &bytes[..plain.bytes]).count() != returns {
            let lines = plain.lines.iter();
            let kept = lines.take_while(|line| !line.contains('\r')).count();
            plain.lines.truncate(kept);
            plain.rows = plain.lines.iter().map(|line| rows_of(line, width)).sum();
            let end = memchr::memchr_iter(b'\n', bytes).take(kept).last();
            plain.bytes = end.map_or(0, |end| end + 1);
        }
        plain
    }

    /// Returns how many bytes to scan next, in proportion to the plain bytes.
    fn next_bytes_max(&self) -> usize {
        (2 * self.bytes).clamp(BYTES_LEAST, BYTES_MAX)
    }
}

/// Returns the leading printable ASCII and line ends.
fn plain_part(bytes: &[u8]) -> &[u8] {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) | (byte == b'\r') | (byte == b'\n');
    // A loop without an early exit can examine many bytes at once.
    let is_other = |others: bool, byte: &u8| others | !is_plain(*byte);
    let whole = bytes
        // The number of bytes that are examined at once.
        .chunks(64)
        .take_while(|chunk| !chunk.iter().fold(false, is_other))
        .map(<[u8]>::len)
        .sum();
    let (plain, rest) = bytes.split_at(whole);
    let more = rest.iter().take_while(|byte| is_plain(**byte)).count();
    &bytes[..plain.len() + more]
}

fn rows_of(line: &str, width: usize) -> usize {
    match line.len() {
        short if short <= width => 1,
        long => long.div_ceil(width),
    }
}

impl Terminal {
    /// Returns true if a plain line printed now only scrolls all others up.
    fn only_scrolls(&self) -> bool {
        let last = self.height() - 1;
        let is_all = self.saved.is_none() && (self.upper, self.lower) == (0, last);
        let is_at_the_bottom = (self.cursor.x, self.cursor.y) == (0, last);
        let bottom = self.grid.rows.back();
        is_all
            && is_at_the_bottom
            && bottom.is_some_and(GridRow::is_new)
            && self.wrap
            && !self.insert
            && !self.joins
            && self.room() == 0
            && self.ink.is_plain()
    }

    /// Prints lines if that [`Terminal::only_scrolls`]. Returns false, without printing, if they do not
    /// fill the screen.
    fn print_lines(&mut self, plain: &Plain<'_>) -> bool {
        let (width, last) = (self.width(), self.height() - 1);
        let Some(mut off) = plain.rows.checked_sub(last).filter(|_| plain.rows > 0) else {
            return false;
        };
        let Grid {
            rows,
            clusters,
            scrolled,
            ..
        } = &mut self.grid;
        for row in rows.iter().take(last) {
            scrolled.push(row, clusters, width);
        }
        let mut y = 0;
        for line in &plain.lines {
            let count = rows_of(line, width);
            if count <= off && scrolled.open().is_none() {
                scrolled.push_line(line, count as u32);
                off -= count;
                continue;
            }
            let mut rest = line.as_bytes();
            for left in (0..count).rev() {
                let (now, after) = rest.split_at(rest.len().min(width));
                rest = after;
                let Some(row) = rows.get_mut(y) else { break };
                row.reset(0);
                row.set_ascii(0, now, width);
                row.wrapped = left > 0;
                if off > 0 {
                    scrolled.push(row, clusters, width);
                    off -= 1;
                } else {
                    y += 1;
                }
            }
        }
        if let Some(bottom) = rows.back_mut() {
            bottom.reset(0);
        }
        self.last = None;
        true
    }
}

#[cfg(test)]
mod tests {
    mod sequence {

        use super::super::*;

        #[test]
        fn numbers_are_those_of_tmux() {
            let sequence = Sequence::read(b"[;5;0;7:3H").unwrap();
            let numbers: Vec<_> = (0..5).map(|at| sequence.number(at)).collect();
            assert_eq!(numbers, [None, Some(5), Some(0), None, None]);
            assert!(sequence.is_text(3) && !sequence.is_text(4));
            assert_eq!((sequence.count(1), sequence.count(2)), (5, 1));
            assert_eq!(sequence.numbers().collect::<Vec<_>>(), [5, 0]);
        }

        #[test]
        fn sequences_that_tmux_ignores_are_none() {
            for bytes in [
                "[?9z",
                "##8",
                "[! p",
                "[?? h",
                "[2147483648D",
                "[a",
                "",
                "(C",
                "[3?D",
            ] {
                assert!(Sequence::read(bytes.as_bytes()).is_none(), "{bytes}");
            }
            for bytes in ["[?25h", "#8", "[2 q", "[2147483647D", "c", "(B", "7"] {
                assert!(Sequence::read(bytes.as_bytes()).is_some(), "{bytes}");
            }
            let many = |count: usize| format!("[{}H", ";".repeat(count - 1));
            assert!(Sequence::read(many(23).as_bytes()).is_some());
            assert!(Sequence::read(many(24).as_bytes()).is_none());
            let long = |count: usize| format!("[?{:0count$}h", 1);
            assert!(Sequence::read(long(63).as_bytes()).is_some());
            assert!(Sequence::read(long(64).as_bytes()).is_none());
        }
    }

    mod plain {

        use super::super::*;

        fn plain(text: &str) -> (Vec<&str>, usize) {
            let plain = Plain::leading(text.as_bytes(), BYTES_MAX, 80);
            (plain.lines, plain.bytes)
        }

        #[test]
        fn lines_may_end_with_several_returns() {
            assert_eq!(plain("a\r\r\n\r\r\r\nb\r\nc"), (vec!["a", "", "b"], 11));
        }

        #[test]
        fn a_line_that_is_drawn_again_is_not_plain() {
            assert_eq!(plain("a\r\r\nb\r\n1\r2\r\nc\r\n"), (vec!["a", "b"], 7));
            assert_eq!(plain("1\r2\r\nc\r\n"), (vec![], 0));
        }

        /// Scanned bytes that are not plain are parsed again, so few are scanned next.
        #[test]
        fn few_bytes_are_scanned_where_few_are_plain() {
            let text = "1\r2\r\n".repeat(100_000);
            let plain = Plain::leading(text.as_bytes(), BYTES_MAX, 80);
            assert_eq!(plain.next_bytes_max(), BYTES_LEAST);
            let text = "1\r\n".repeat(100_000);
            let plain = Plain::leading(text.as_bytes(), BYTES_LEAST, 80);
            assert_eq!(plain.next_bytes_max(), 2 * plain.bytes);
        }
    }
}
