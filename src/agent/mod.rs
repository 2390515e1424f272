//! What agents write and show, read as it comes: where their turns end (pure).

mod decoration;
mod page;
mod sight;
mod turn;

pub use sight::Sights;
pub use turn::{DEFAULT_MARKER, Disturbance, Markers, Sight, Turn, TurnDetector};
