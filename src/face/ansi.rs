//! Filters escape sequences in the output of programs: keeps colours, removes everything else (pure).
//!
//! Only SGR sequences (`ESC [ 1 ; 31 m`: colours, bold and the like) pass, and only if colours are enabled.
//! As on a terminal, a colour that is active at the end of a line stays active on the next line of its
//! stream; it never affects other streams.

mod lexer;
mod sgr;

mod measure;
mod painter;

pub(super) use measure::{cut_painted, end_of_painted, rows_of, wrap_painted};
pub(super) use painter::Painter;
pub(super) use sgr::RESET;

#[cfg(test)]
mod tests;
