//! Text with escape sequences: the colours of programs are kept, all other sequences are removed (pure).
//!
//! Of escape sequences only SGR (`ESC [ 1 ; 31 m`: colours, bold and the like) passes, and only where
//! colours are wanted. A colour that a line ends with is in force on the next line of its stream, as
//! on a terminal; it never reaches what others print.

mod lexer;
mod sgr;

mod measure;
mod painter;

pub(super) use measure::{columns_of, cut_painted, end_of_painted, wrap_painted};
pub(super) use painter::Painter;
pub(super) use sgr::RESET;

#[cfg(test)]
mod tests;
