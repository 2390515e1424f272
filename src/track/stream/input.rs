//! A pane's bytes, cut anywhere, into what the terminal does (pure).
//!
//! Text is taken a run at a time. Sequences are read by `avt`'s parser, and its functions done on a
//! terminal that is tmux's and not avt's. Where tmux reads otherwise than avt, it is put right here:
//! the strings that end with `ESC \` only, titles (`ESC k`), bytes beyond ASCII, and what avt knows
//! and tmux does not.

use std::time::Duration;

use avt::Parser;
use avt::parser::{EdScope, ElScope, Function, Osc, SgrOp, State, TbcScope};

use super::ink::Ink;
use super::plain::{BYTES_MAX, Plain};
use super::sequence::{SEQUENCE_BYTES, Sequence};
use super::shell_marks::Marks;
use super::terminal::{Pen, Position, Terminal};
use crate::track::version::TmuxVersion;

/// After this time tmux takes what follows the beginning of a string for text, whether that string has
/// ended or not.
const STRING_PERIOD: Duration = Duration::from_secs(5);

/// Bytes that come this long after others were not read with them: tmux reads as soon as there are
/// any, however busy the machine is. Within this time only tmux knows, and a comparison puts right
/// what was guessed wrong.
const READ_TOGETHER: Duration = Duration::from_millis(100);

/// Reads a pane's bytes.
#[derive(Debug, Default)]
pub(super) struct Input {
    parser: Parser,
    /// A character beyond ASCII whose end has not come.
    character: Partial,
    /// In a string that only `ESC \` ends: the escape has come.
    escaped: bool,
    /// The bytes after the last `ESC` without controls, as far as they are kept.
    sequence: Vec<u8>,
    /// When the bytes come.
    now: Duration,
    /// When the string began that has not ended.
    string_began: Option<Duration>,
    /// A string was given up, and no sequence has begun since: tmux continues calling it pending.
    gave_up: bool,
}

/// The bytes of a character, so far.
#[derive(Debug, Default)]
struct Partial {
    bytes: [u8; 4],
    len: usize,
    needed: usize,
}

impl Partial {
    /// Takes a byte from 0x80 on; the character that it completes, or what is no character.
    fn push(&mut self, byte: u8) -> Option<Result<char, NoCharacter>> {
        if self.needed == 0 {
            self.needed = match byte {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return Some(Err(NoCharacter::Broken)),
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
            (0xf4, 0x90..=0xbf) => NoCharacter::Beyond,
            _ => NoCharacter::Broken,
        }))
    }
}

/// Bytes that are not UTF-8.
#[derive(Clone, Copy, Debug)]
enum NoCharacter {
    /// tmux drops them before 3.6, and shows [`NO_CHARACTER`] from there on.
    Broken,
    /// A number beyond the last character, which C libraries take for one all the same.
    Beyond,
}

const NO_CHARACTER: char = char::REPLACEMENT_CHARACTER;

impl Input {
    /// The bytes that follow come now. Where tmux has not read them with those before, it forgets a
    /// joiner that has come (before 3.4). A string that has been open for too long is given up, and
    /// with it the attributes of characters and the kept cursor.
    pub fn advance_clock(&mut self, now: Duration, terminal: &mut Terminal) {
        if now.saturating_sub(self.now) >= READ_TOGETHER {
            terminal.joins = false;
        }
        self.now = now;
        let began = self.string_began;
        if began.is_some_and(|began| now.saturating_sub(began) >= STRING_PERIOD) {
            *self = Self {
                now,
                gave_up: true,
                ..Self::default()
            };
            (terminal.pen, terminal.ink) = (Pen::default(), Ink::default());
            terminal.saved_ink = Ink::default();
            terminal.saved_cursor.0 = Position::default();
            terminal.last = None;
        }
    }

    /// Returns true if its position agrees with tmux's, which reports this as pending.
    pub fn agrees(&self, pending: &[u8]) -> bool {
        self.gave_up || (self.parser.state == State::Ground) == pending.is_empty()
    }

    /// Takes bytes, up to where it `is_full`; how many.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        terminal: &mut Terminal,
        marks: &mut Marks,
        is_full: impl Fn(&Terminal, &Marks) -> bool,
    ) -> usize {
        let mut at = 0;
        // Up to here it is known which plain lines there are.
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
                    self.gave_up = false;
                    self.parser.feed('\x1b');
                }
                0x80.. => match self.character.push(byte) {
                    Some(Ok(character)) => terminal.print(character),
                    Some(Err(NoCharacter::Broken)) => no_character(terminal),
                    Some(Err(NoCharacter::Beyond)) => terminal.print_beyond(),
                    None => terminal.last = None,
                },
                b'\x7f' => {}
                _ => self.control(terminal, |_| ()),
            }
            at += 1;
        }
        at
    }

    /// A character has no end.
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

    /// Notes when a string begins, not when it continues: so tmux counts.
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
            // Only `ESC \` ends it; any other escape is part of it.
            match (self.escaped, byte) {
                (true, b'\\') => self.parser.state = State::Ground,
                _ => self.escaped = !self.escaped && byte == b'\x1b',
            }
            return;
        }
        self.escaped = false;
        // Beyond ASCII there is only text in strings, which are not read.
        if byte >= 0x80 {
            return;
        }
        if self.parser.state == State::Escape && byte == b'k' {
            // A title, up to `ESC \`.
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
                // Strings have no controls, but for those that end anything.
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
        terminal.print(NO_CHARACTER);
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
        // avt's numbers are smaller, and larger ones are others there.
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
            // Zero is not the same as nothing here.
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
        // The history is gone from tmux; what was in it has been seen.
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
                    // Which of the marks are left does not matter often enough to count them.
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
        // Not tmux's, or of no consequence for the text.
        _ => {}
    }
}

/// Text moves the characters behind it.
const INSERT: usize = 4;

/// Sets a private mode, or unsets it.
fn set(terminal: &mut Terminal, mode: usize, is_set: bool) {
    match mode {
        // Changing to 132 columns and back erases the screen.
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

/// The printable ASCII that it begins with.
fn printable(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| !(b' '..=b'~').contains(byte));
    &bytes[..end.unwrap_or(bytes.len())]
}
