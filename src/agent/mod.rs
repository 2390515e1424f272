//! What agents write and show, read as it comes: their streams as events, where they stand, as
//! their screens say too, and where their turns end (pure).

mod decoration;
mod state;
mod stream;
pub(crate) mod summary;
mod turn;

pub use state::{Judged, RowKind, Screen, ScreenState, StateRules, StateTracker};
pub use stream::{AgentEvent, Format, ParseFormatError, Standing, StreamFormat, StreamParser};
pub(crate) use stream::{Expected, SseRecord, SseRecords};
pub use turn::{DEFAULT_MARKER, Disturbance, Markers, Sight, Sights, Turn, TurnDetector};
