//! Background agents: their output files are checked by one ticker, and each end is reported once.
//!
//! ```text
//! places ─files─> registry ─ticker─> file (identity) ──> content (tail) ─bytes─> StreamParser (pure)
//!                    └──> AgentRegistered, AgentCompleted, AgentFailed <── verdict (pure)
//! ```
//!
//! Files are polled, because no notification arrives for a file that is written through a symbolic
//! link, on a network or by another machine. `td-agents` is the ticker of a registry of its own; an
//! engine's source ticks on its own thread. Both block on files, and between ticks until the next one
//! is due or they are stopped.

mod job;
mod registry;

mod homes;
mod places;
mod tree;

mod file;

mod content;
mod last_line;

mod verdict;

pub(crate) use job::agents_job;
pub use job::{AgentWatch, AgentsReport};
pub use registry::{AgentRegistry, AgentStatus, Polling};
