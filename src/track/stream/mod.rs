//! Every byte of a pane in; the same lines, revisions, screens and gaps out as from captures (pure).
//!
//! tmux's captures are the truth for what is on the screen, the stream for what the lines are: a
//! terminal that behaves as tmux's does is compared with captures now and then, and resynced where
//! they differ. It is written against tmux and not taken from `avt`, of which only the parser is used:
//! what tmux keeps of a row (blanks that were written, marks on characters, where it continues) and of
//! a scroll region cannot be had from avt's terminal.

mod widths;

mod cell;
mod ink;
mod line;
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

mod agreed;

mod difference;

mod realign;

mod placement;
mod resync;

#[cfg(test)]
mod tests;

pub use difference::Difference;
pub(crate) use notices::{NoticeParser, TerminalNotice};
#[cfg(feature = "cli")]
pub(crate) use sgr_rows::sgr_rows;
pub use shell_marks::ShellMark;
pub use sync_point::{SyncPoint, TerminalModes, unescape};
pub use tracker::StreamTracker;
