//! What agents write, and what it means: their streams and transcripts as events (pure).

mod stream;

pub use stream::{AgentEvent, Format, ParseFormatError, Standing, StreamFormat, StreamParser};
