//! Parses a pane's bytes, cut anywhere, and executes them on the terminal (pure).
//!
//! Text is taken in runs. `avt`'s parser reads sequences, and its functions are executed on the
//! emulation of tmux's terminal. This module corrects the differences between the parsers of avt and
//! tmux: strings that only `ESC \` ends, titles (`ESC k`), bytes beyond ASCII, and functions that tmux
//! does not support.

use std::time::Duration;

use avt::Parser;
use avt::parser::{EdScope, ElScope, Function, Osc, SgrOp, State, TbcScope};

use super::ink::Ink;
use super::plain::{BYTES_MAX, Plain};
use super::sequence::{SEQUENCE_BYTES, Sequence};
use super::shell_marks::Marks;
use super::terminal::{Pen, Position, Terminal};
use crate::track::version::TmuxVersion;

/// The time after which tmux abandons a string without an end. Later bytes are text.
const STRING_PERIOD: Duration = Duration::from_secs(5);

/// The time after which tmux has certainly read earlier bytes: it reads them as soon as they arrive,
/// even on a busy machine. Whether it reads bytes within this time together is a guess, which a
/// comparison of screens corrects.
const READ_TOGETHER: Duration = Duration::from_millis(100);

/// The parser of a pane's bytes.
#[derive(Debug, Default)]
pub(super) struct Input {
    parser: Parser,
    /// A character beyond ASCII whose end is missing.
    character: PartialChar,
    /// The last byte of a string that only `ESC \` ends is an escape.
    escaped: bool,
    /// The first [`SEQUENCE_BYTES`] bytes after the last `ESC`, without controls.
    sequence: Vec<u8>,
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
        self.now = now;
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
        self.has_abandoned_string || (self.parser.state == State::Ground) == pending.is_empty()
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
            if self.parser.state != State::Ground {
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
                    self.parser.feed('\x1b');
                }
                0x80.. => match self.character.push(byte) {
                    Some(Ok(character)) => terminal.print(character),
                    Some(Err(InvalidUtf8::Broken)) => no_character(terminal),
                    Some(Err(InvalidUtf8::Beyond)) => terminal.print_beyond(),
                    None => terminal.last = None,
                },
                b'\x7f' => {}
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
        self.string_began = match self.parser.state {
            State::Ground
            | State::Escape
            | State::EscapeIntermediate
            | State::CsiEntry
            | State::CsiParam
            | State::CsiIntermediate
            | State::CsiIgnore => None,
            _ => {
                terminal.last = None;
                self.string_began.or(Some(self.now))
            }
        };
    }

    fn in_sequence(&mut self, byte: u8, terminal: &mut Terminal, marks: &mut Marks) {
        if self.parser.state == State::DcsPassthrough {
            // Only `ESC \` ends it.
            match (self.escaped, byte) {
                (true, b'\\') => self.parser.state = State::Ground,
                _ => self.escaped = !self.escaped && byte == b'\x1b',
            }
            return;
        }
        self.escaped = false;
        // Bytes beyond ASCII occur only in the text of strings, which is ignored.
        if byte >= 0x80 {
            return;
        }
        if self.parser.state == State::Escape && byte == b'k' {
            // A title, which ends with `ESC \`.
            self.parser.state = State::SosPmApcString;
            return;
        }
        if byte == b'\x1b' {
            self.sequence.clear();
        } else if (b' '..=b'~').contains(&byte) && self.sequence.len() < SEQUENCE_BYTES {
            self.sequence.push(byte);
        }
        let function = self.parser.feed(char::from(byte));
        match (byte, function) {
            (_, Some(Function::Osc(Osc::ShellIntegration(mark)))) => marks.push(mark, terminal),
            (b'\x1b', _) => {}
            (..b' ', function) => {
                // Only the controls that cancel a sequence take effect in strings.
                if self.string_began.is_none() || matches!(byte, b'\x18' | b'\x1a') {
                    self.control(terminal, |t| control(function.as_ref(), t));
                }
            }
            (_, function) => {
                if self.parser.state == State::Ground
                    && let Some(sequence) = Sequence::read(&self.sequence)
                {
                    if let Some(function) = function {
                        execute(&function, &sequence, terminal);
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
fn control(function: Option<&Function>, terminal: &mut Terminal) {
    match function {
        Some(Function::Bs) => terminal.back(),
        Some(Function::Cr) => terminal.carriage_return(),
        Some(Function::Lf) => terminal.line_feed(false),
        Some(Function::Ht) => terminal.tab(),
        _ => {}
    }
}

fn execute(function: &Function, sequence: &Sequence<'_>, t: &mut Terminal) {
    let n = |at| sequence.count(at);
    let is_set = matches!(function, Function::Decset(_) | Function::Sm(_));
    let is_mode = is_set || matches!(function, Function::Decrst(_) | Function::Rm(_));
    let parameters = match function {
        Function::Cup(..) | Function::Decstbm(..) => 2,
        Function::Sgr(_) | Function::Scosc | Function::Scorc => 0,
        _ if is_mode => 0,
        _ => 1,
    };
    if (0..parameters).any(|at| sequence.is_text(at)) {
        return;
    }
    let is_choice = matches!(
        function,
        Function::Ed(_) | Function::El(_) | Function::Tbc(_)
    );
    if is_choice && sequence.number(0) > Some(3) {
        // avt truncates larger numbers to smaller ones.
        return;
    }
    match function {
        Function::Lf => t.line_feed(false),
        Function::Nel => {
            t.carriage_return();
            t.line_feed(false);
        }
        Function::Ri => t.reverse_index(),
        Function::Hts => t.set_tab(true),
        Function::Tbc(TbcScope::CurrentColumn) => t.set_tab(false),
        Function::Tbc(TbcScope::All) => t.tabs.fill(false),
        Function::Cbt(_) => t.back_tab(n(0)),
        Function::Cha(_) => t.go_to_column(n(0) - 1),
        Function::Vpa(_) => t.go_to_row(n(0) - 1),
        Function::Cup(..) => {
            t.go_to_row(n(0) - 1);
            t.go_to_column(n(1) - 1);
        }
        Function::Cub(_) => t.left(n(0)),
        Function::Cuf(_) => t.right(n(0)),
        Function::Cuu(_) => t.up(n(0)),
        Function::Cud(_) => t.down(n(0)),
        Function::Cnl(_) => {
            t.carriage_return();
            t.down(n(0));
        }
        Function::Cpl(_) => {
            t.carriage_return();
            t.up(n(0));
        }
        Function::Decsc | Function::Scosc => t.save_cursor(),
        Function::Decrc | Function::Scorc => t.restore_cursor(),
        Function::Decaln => t.align(),
        Function::Decstbm(..) => {
            // Zero differs from a missing number here.
            let lower = sequence.number(1).map_or(t.height(), |lower| lower.max(1));
            t.set_region(n(0) - 1, lower - 1);
        }
        Function::Il(_) => t.insert_rows(n(0)),
        Function::Dl(_) => t.delete_rows(n(0)),
        Function::Ich(_) => t.insert_cells(n(0)),
        Function::Dch(_) => t.delete_cells(n(0)),
        Function::Ech(_) => t.erase_cells(n(0)),
        Function::Su(_) => t.scroll_up(n(0)),
        Function::Sd(_) => t.scroll_down(n(0)),
        Function::Ed(EdScope::Below) => t.erase_below(),
        Function::Ed(EdScope::Above) => t.erase_above(),
        Function::Ed(EdScope::All) => t.erase_screen(),
        // tmux clears its history, whose lines are known.
        Function::Ed(EdScope::SavedLines) if sequence.number(1).unwrap_or_default() == 0 => {
            t.grid.scrolled.history.size = 0;
        }
        Function::El(ElScope::ToRight) => t.erase_right(),
        Function::El(ElScope::ToLeft) => t.erase_left(),
        Function::El(ElScope::All) => t.erase_row(),
        Function::Rep(_) => t.repeat(n(0)),
        Function::Ris => t.reset(),
        Function::Sgr(operations) => {
            for operation in operations.as_slice() {
                t.ink.take(operation);
                match operation {
                    SgrOp::Reset => t.pen = Pen::default(),
                    SgrOp::SetForegroundColor(_) => t.pen.foreground = true,
                    SgrOp::ResetForegroundColor => t.pen.foreground = false,
                    SgrOp::SetBackgroundColor(_) => t.pen.background = true,
                    SgrOp::ResetBackgroundColor => t.pen.background = false,
                    // Marks that are reset do not count, because the difference rarely matters.
                    _ => t.pen.marked = true,
                }
            }
        }
        Function::Sm(_) | Function::Rm(_) if sequence.numbers().any(|mode| mode == INSERT) => {
            t.insert = is_set;
        }
        Function::Decset(_) | Function::Decrst(_) => {
            sequence.numbers().for_each(|mode| set(t, mode, is_set));
        }
        // Not supported by tmux, or without an effect on text.
        _ => {}
    }
}

/// Insert mode.
const INSERT: usize = 4;

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
