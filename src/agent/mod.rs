//! What agents write and show, read as it comes: their streams as events, where they stand, and where
//! their turns end on a screen (pure).

mod stream;
mod turn;

pub use stream::{AgentEvent, Format, ParseFormatError, Standing, StreamFormat, StreamParser};
pub use turn::{DEFAULT_MARKER, Disturbance, Markers, Sight, Sights, Turn, TurnDetector};
