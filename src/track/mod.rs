//! Turns captures or bytes of a pane into settled lines, revisions, screens and gaps (pure).

mod capture;
mod tabs;
mod version;

mod change;
mod lines;

mod align;
mod reflow;
mod screen;

mod book;
mod normal;
mod reporting;
mod throttle;
mod tracker;

mod resume;

mod stream;

#[cfg(test)]
pub(crate) mod sim;
#[cfg(test)]
mod tests;

pub use capture::{Capture, PaneNumbers, ProcessExit, Row, SavedScreen};
pub use change::{Change, GapReason};
pub use stream::{ShellMark, StreamTracker, SyncPoint, TerminalModes, unescape};
pub use throttle::{RevisionThrottle, Throttled};
pub use tracker::Tracker;
pub use version::TmuxVersion;

pub(crate) use lines::cut;
#[cfg(feature = "cli")]
pub(crate) use stream::sgr_rows;
pub(crate) use stream::{NoticeParser, TerminalNotice};
pub(crate) use tabs::expand_tabs;
