//! Turns all bytes of a pane into lines, revisions, screens and gaps, as captures do (pure).
//!
//! The stream is authoritative for lines, and tmux's captures are for the screen: a terminal that
//! emulates tmux's is compared with captures now and then, and resynced where they differ. No emulator in
//! a library keeps a row as tmux does (written blanks, marks on characters, wraps), nor the rows that a
//! scroll region scrolls off.

mod cell;

mod grid;
mod ink;
mod links;
mod marks;
mod styled;

#[cfg(feature = "cli")]
mod sgr_rows;

mod print;
mod terminal;

mod input;

mod agreement;

mod tracker;

mod numbering;
mod pieces;

mod resync;

#[cfg(test)]
mod tests;

pub use agreement::{SyncPoint, TerminalModes, unescape};
pub use marks::ShellMark;
pub(crate) use marks::TerminalNotice;
#[cfg(feature = "cli")]
pub(crate) use sgr_rows::sgr_rows;
pub use tracker::StreamTracker;
