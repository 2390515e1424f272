//! Interprets the output and the screens of coding agents (pure): events of their streams, their
//! states, and the ends of their turns.

mod decoration;
mod program;
mod question;
pub(crate) mod summary;

mod state;

mod program_status;
mod reports;

mod resolver;
mod settle_time;

#[cfg(feature = "cli")]
mod hook_input;

mod stream;

mod screen_reader;
mod turn;

pub(crate) use crate::event::AgentState;
#[cfg(feature = "cli")]
pub(crate) use hook_input::{HookChange, HookInput};
pub(crate) use program::{AgentProgram, KnownAgent, ShownSessions, VIEWER, program_name};
#[cfg(feature = "cli")]
pub(crate) use program_status::own_report;
pub(crate) use program_status::{ProgramStatus, REPORTS_QUESTION};
pub(crate) use question::Questions;
#[cfg(feature = "cli")]
pub(crate) use question::is_same_question;
pub(crate) use reports::{HookFile, is_session};
#[cfg(feature = "cli")]
pub(crate) use reports::{JOB_BYTES_MAX, JobFile};
pub(crate) use reports::{STATUS_BYTES_MAX, StatusFile};
pub(crate) use reports::{state_of_title, work_in_title};
pub(crate) use resolver::{ResolvedState, StateClaim, StateResolver, StateSource};
pub(crate) use screen_reader::ScreenReader;
pub use state::{AgentScreen, DetectedState, StateRules};
pub(crate) use state::{RowKind, UNNAMED, asks_the_same, is_same_dialogue};
#[cfg(feature = "cli")]
pub(crate) use stream::{AIDER_SESSION, RecordNote};
pub use stream::{AgentEvent, Format, ParseFormatError, StreamFormat, StreamParser, StreamStatus};
pub(crate) use stream::{ApiDialect, ApiPart, ApiStream, FollowUp, UNTOLD_FAILURE};
pub(crate) use stream::{RecordContent, record_time};
pub(crate) use summary::{exit_status_in_words, exit_status_of_detail, failure_in_words};
pub(crate) use summary::{is_limit, one_line, permission_question, tool_question};
pub use turn::Markers;
pub(crate) use turn::{ChangeContext, RedrawDetector, Turn, TurnDetector, is_default_marker};
