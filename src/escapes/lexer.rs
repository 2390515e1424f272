//! Separates text from escape sequences, and keeps the parameters of SGR (pure).

use memchr::memchr2_iter;

use super::{ESCAPE, State, advance, is_string};

/// The longest SGR parameters that are kept, in bytes: two RGB colours and a few attributes.
const PARAMS_MAX: usize = 64;

/// Separates text from sequences, including sequences that are split across pieces. It keeps the parameters
/// of SGR as written, and treats a character that fits no sequence as text. C1 controls count as sequences,
/// as in terminals that support them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lexer {
    state: State,
    /// The parameters of the open control sequence, or of the last one.
    params: String,
    /// True if the control sequence cannot be SGR.
    is_other: bool,
}

/// Text, and the part of the sequence after it that has arrived.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    pub text: &'t str,
    /// True if the sequence is a complete SGR; [`Lexer::params`] returns its parameters.
    pub is_sgr: bool,
    pub rest: &'t str,
}

impl Lexer {
    /// Returns true if no sequence is open.
    pub fn is_in_text(&self) -> bool {
        self.state == State::Ground
    }

    /// The parameters of the last SGR.
    pub fn params(&self) -> &str {
        &self.params
    }

    /// Drops an open sequence.
    pub fn reset(&mut self) {
        self.state = State::Ground;
    }

    /// Takes the next token of `input`, which is at least one character.
    pub fn next<'t>(&mut self, input: &'t str) -> Token<'t> {
        let end = if self.is_in_text() {
            find_escape(input)
        } else {
            0
        };
        let (text, sequence) = input.split_at(end);
        let token = |is_sgr, rest| Token { text, is_sgr, rest };
        for (at, c) in sequence.char_indices() {
            let before = self.state;
            let is_broken = match before {
                State::Ground => false,
                // A bell ends every string, so that text after a broken string stays visible.
                state if is_string(state) => c == '\x07',
                _ => !is_escape(c) && !matches!(c, ' '..='~'),
            };
            if is_broken {
                self.reset();
                return token(false, &sequence[at + usize::from(is_string(before))..]);
            }
            match u8::try_from(c) {
                // A C1 control is the short form of an escape and a letter.
                Ok(control @ 0x80..=0x9f) => {
                    advance(&mut self.state, ESCAPE);
                    advance(&mut self.state, control - 0x40);
                }
                Ok(byte) if byte.is_ascii() => {
                    advance(&mut self.state, byte);
                }
                // The text of a string.
                _ => {}
            }
            let is_sgr = self.note_control(before, c);
            if self.is_in_text() {
                return token(is_sgr, &sequence[at + c.len_utf8()..]);
            }
        }
        token(false, "")
    }

    /// Records the parameters of a control sequence; returns true if `c` completes an SGR.
    fn note_control(&mut self, before: State, c: char) -> bool {
        match (before, self.state) {
            (_, State::CsiEntry) => {
                self.params.clear();
                self.is_other = false;
            }
            (_, State::CsiParam | State::CsiIntermediate | State::CsiIgnore) => {
                self.is_other |= !matches!(c, '0'..='9' | ';' | ':');
                self.is_other |= self.params.len() >= PARAMS_MAX;
                if !self.is_other {
                    self.params.push(c);
                }
            }
            (State::CsiEntry | State::CsiParam | State::CsiIgnore, State::Ground) => {
                return c == 'm' && !self.is_other;
            }
            _ => {}
        }
        false
    }
}

/// Returns a text without its escape sequences, such as the colours of a traceback.
pub(crate) fn without_escapes(text: &str) -> String {
    let (mut lexer, mut plain, mut rest) = (Lexer::default(), String::new(), text);
    while !rest.is_empty() {
        let token = lexer.next(rest);
        plain.push_str(token.text);
        rest = token.rest;
    }
    plain
}

/// Returns true for ESC, and for the C1 controls, which are sequences of one character.
fn is_escape(c: char) -> bool {
    matches!(c, '\x1b' | '\u{80}'..='\u{9f}')
}

/// Returns the position of the first escape, or the length of the text. Searches bytes, because most text has
/// no escape.
fn find_escape(text: &str) -> usize {
    let bytes = text.as_bytes();
    // In UTF-8, a C1 control is 0xc2 followed by a byte below 0xa0. Other characters also begin with 0xc2.
    memchr2_iter(ESCAPE, 0xc2, bytes)
        .find(|&at| bytes[at] == ESCAPE || bytes.get(at + 1).is_some_and(|next| *next < 0xa0))
        .unwrap_or(bytes.len())
}
