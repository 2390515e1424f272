//! The heart: captures of a pane in; settled lines, revisions, screens and gaps out (pure).

mod look;
mod tabs;
mod version;

mod change;
mod lines;

mod align;
mod reflow;
mod screen;

mod book;
mod normal;
mod pace;
mod telling;
mod tracker;

mod stream;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

pub use change::{Change, GapReason};
pub use look::{Death, Look, Row, SavedScreen};
pub use normal::text_of;
pub use pace::{Pace, Paced};
pub use stream::{Difference, Mark, Modes, Seam, StreamTracker, unescape};
pub use tracker::{Outcome, Tracker};
pub use version::TmuxVersion;

pub(crate) use stream::{Notice, Notices};
pub(crate) use tabs::without_tabs;
