//! Finds control sequences in a terminal's output, and reads their colours (pure).
//!
//! All parsers of sequences use the states of [`advance`]: this lexer of text, the terminal of a streamed
//! pane, the messages of programs, and the search for secrets.

// Only the program needs all of it.
#[cfg(feature = "engine")]
#[cfg_attr(not(feature = "cli"), allow(dead_code))]
mod lexer;

pub(crate) use anstyle_parse::state::{Action, State};
#[cfg(feature = "cli")]
pub(crate) use lexer::Lexer;
#[cfg(feature = "engine")]
pub(crate) use lexer::without_escapes;

pub(crate) const BELL: u8 = 0x07;
pub(crate) const ESCAPE: u8 = 0x1b;

/// Advances by one byte of UTF-8, and returns its meaning.
pub(crate) fn advance(state: &mut State, byte: u8) -> Action {
    // Beyond ASCII, UTF-8 has no controls: a character is text, and ends a sequence as any last byte does.
    let byte = if byte.is_ascii() { byte } else { b'~' };
    let (next, action) = anstyle_parse::state::state_change(*state, byte);
    if next != State::Anywhere {
        *state = next;
    }
    action
}

/// Returns true if the state is within a string, such as a title, a link or an image.
pub(crate) fn is_string(state: State) -> bool {
    use State::*;
    matches!(
        state,
        OscString
            | SosPmApcString
            | DcsEntry
            | DcsParam
            | DcsIntermediate
            | DcsPassthrough
            | DcsIgnore
    )
}
