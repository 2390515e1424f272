//! Turns captures or bytes of a pane into settled lines, revisions, screens and gaps (pure).

mod capture;

mod change;
mod lines;

mod align;

mod book;
mod throttle;
mod tracker;

mod stream;

#[cfg(test)]
pub(crate) mod sim;
#[cfg(test)]
mod tests;

pub use capture::{Capture, PaneNumbers, ProcessExit, Row, SavedScreen, TmuxVersion};
pub use change::{Change, GapReason};
pub use stream::{ShellMark, StreamTracker, SyncPoint, TerminalModes, unescape};
pub use throttle::{RevisionThrottle, Throttled};
pub use tracker::Tracker;

pub(crate) use lines::{cut, expand_tabs};
pub(crate) use stream::TerminalNotice;
#[cfg(feature = "cli")]
pub(crate) use stream::sgr_rows;
