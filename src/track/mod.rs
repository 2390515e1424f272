//! The heart: captures of a pane in; settled lines, revisions, screens and gaps out (pure).

mod look;

pub use look::{Death, Look, Row, SavedScreen};
