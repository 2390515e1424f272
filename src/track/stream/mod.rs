//! Turns all bytes of a pane into lines, revisions, screens and gaps, as captures do (pure).
//!
//! The stream is authoritative for lines, and tmux's captures are for the screen: a terminal that
//! emulates tmux's is compared with captures now and then, and resynced where they differ. Only the
//! parser is that of `avt`. Its terminal does not keep a row as tmux does (written blanks, marks on
//! characters, wraps), nor the rows that a scroll region scrolls off.

mod widths;

mod cell;
mod grid_row;
mod ink;
mod scrolled;
mod styled;

#[cfg(feature = "cli")]
mod sgr_rows;

mod grid;

mod sync_point;
mod terminal;

mod motion;
mod print;

mod combine;

mod erase;

mod restore;

mod notices;
mod shell_marks;

mod plain;

mod input;

mod sequence;

mod agreement;

mod tracker;

mod reported;

mod broken;

mod numbering;

mod difference;

mod realign;

mod placement;
mod resync;

#[cfg(test)]
mod tests;

pub(crate) use notices::{NoticeParser, TerminalNotice};
#[cfg(feature = "cli")]
pub(crate) use sgr_rows::sgr_rows;
pub use shell_marks::ShellMark;
pub use sync_point::{SyncPoint, TerminalModes, unescape};
pub use tracker::StreamTracker;
