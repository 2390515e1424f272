//! Every byte of a pane in; the same lines, revisions, screens and gaps out as from looks (pure).
//!
//! tmux's captures are the truth for what is on the screen, the stream for what the lines are: a
//! terminal that does what tmux's does is compared with looks now and then, and taken up anew where
//! they part. It is written against tmux and not taken from `avt`, of which only the parser is used:
//! what tmux keeps of a row (blanks that were written, marks on characters, where it goes on) and of
//! a scroll region cannot be had from avt's terminal.

mod widths;

mod cell;
mod ink;
mod line;
mod scrolled;
mod styled;

mod grid;

mod seam;
mod terminal;

mod combine;

mod erase;

mod seated;

mod marks;
mod notices;

mod plain;

mod input;

mod sequence;

mod tracker;

mod agreed;

mod difference;

mod realign;

mod reseat;

#[cfg(test)]
mod tests;

pub use difference::Difference;
pub use marks::Mark;
pub(crate) use notices::{Notice, Notices};
pub use seam::{Modes, Seam, unescape};
pub use tracker::StreamTracker;
