//! Interprets the output and the screens of coding agents (pure): events of their streams, their
//! states, and the ends of their turns.

mod decoration;
mod program;
pub(crate) mod summary;

mod question;

mod state;

mod resolver;
mod status_file;
mod title;

mod hook;
#[cfg(feature = "cli")]
mod hook_input;

mod stream;

mod screen_reader;
mod turn;

pub(crate) use crate::event::AgentState;
pub(crate) use hook::{HookFile, is_session};
#[cfg(feature = "cli")]
pub(crate) use hook_input::{HookChange, HookInput};
pub(crate) use program::{AgentProgram, KnownAgent, program_name};
pub(crate) use question::{is_limit, one_line, tool_question};
pub(crate) use resolver::{ResolvedState, StateClaim, StateResolver, StateSource};
pub(crate) use screen_reader::ScreenReader;
pub(crate) use state::RowKind;
pub(crate) use state::StateDebouncer;
pub use state::{AgentScreen, DetectedState, StateRules};
pub(crate) use status_file::{STATUS_BYTES_MAX, StatusFile};
pub use stream::{AgentEvent, Format, ParseFormatError, StreamFormat, StreamParser, StreamStatus};
pub(crate) use stream::{FollowUp, SseRecord, SseRecords};
pub(crate) use title::state_of_title;
pub use turn::Markers;
pub(crate) use turn::{ChangeContext, RedrawDetector, Turn, TurnDetector};
