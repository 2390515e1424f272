//! Separates text from escape sequences, including sequences that are split across pieces (pure).
//!
//! avt's parser knows where a sequence ends. This module adds what a line of text needs: it recognises
//! SGR, keeps its parameters as written, and treats a character that fits no sequence as text.

use avt::Parser;
use avt::parser::State;
use memchr::memchr2_iter;

/// The longest SGR parameters that pass, in bytes: two RGB colours and a few attributes.
pub(super) const PARAMS_MAX: usize = 64;

/// The position in a stream of text and escape sequences.
#[derive(Clone, Debug, Default)]
pub(super) struct Lexer {
    state: State,
    /// The parameters of the open control sequence, or of the last one.
    params: String,
    /// True if the control sequence cannot be SGR.
    is_other: bool,
}

/// Text, and the part of the sequence after it that has arrived.
#[derive(Debug)]
pub(super) struct Token<'t> {
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
        let text = match self.is_in_text() {
            true => &input[..find_escape(input)],
            false => "",
        };
        let token = |is_sgr, rest| Token { text, is_sgr, rest };
        let sequence = &input[text.len()..];
        if sequence.is_empty() {
            return token(false, "");
        }
        // This module ignores the parameters that avt collects, so a new parser can continue in any state.
        let mut parser = Parser::default();
        parser.state = self.state;
        for (at, c) in sequence.char_indices() {
            let is_broken = match parser.state {
                State::Ground => false,
                // A bell ends every string, so that text after a broken string stays visible.
                state if is_string(state) => c == '\x07',
                _ => !is_escape(c) && !matches!(c, ' '..='~'),
            };
            if is_broken {
                let is_bell = is_string(parser.state);
                self.reset();
                return token(false, &sequence[at + usize::from(is_bell)..]);
            }
            let before = parser.state;
            let _ = parser.feed(c);
            self.state = parser.state;
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

/// Returns true if the state is inside a string for the terminal: a title, the clipboard, an image.
fn is_string(state: State) -> bool {
    matches!(
        state,
        State::OscString
            | State::SosPmApcString
            | State::DcsEntry
            | State::DcsParam
            | State::DcsIntermediate
            | State::DcsPassthrough
            | State::DcsIgnore
    )
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
    memchr2_iter(0x1b, 0xc2, bytes)
        .find(|&at| bytes[at] == 0x1b || bytes.get(at + 1).is_some_and(|next| *next < 0xa0))
        .unwrap_or(bytes.len())
}
