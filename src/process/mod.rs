//! Child processes: what a command prints is seen while it prints it.
//!
//! ```text
//! command ─start─> child (own group) ─bytes─> lines (pure) ─> recorder (pure) ─> closure, events
//!                                        ├──> records (pure): what an agent says ──> events
//!                                        └──> collected (pure): what CommandOutput has
//! ```
//!
//! A command is run to its end by the thread that asks for it, which reads both outputs, keeps the
//! time and ends the group; there are no other threads. What the command is nobody knows here, but for
//! the format of what it prints, where somebody says it.
//!
//! Of processes that others started it is known what runs in the foreground of their terminals, and how
//! they ended, as far as the kernel tells.
//!
//! Code of this program is seen in the same way: [`InProcessExecution`] has writers for what it prints, and
//! [`LogBridge`] takes what it logs.

mod command;
mod control;
mod outcome;
mod validation;

mod in_process;
mod log_bridge;
mod writer;

mod attending;
mod listen;
mod run;
mod start;
mod terminal;

mod patient;
mod sinks;

mod agents;
mod foreground;
mod jobs;
mod kernel;
mod shell;

mod collected;
mod lines;
mod recorder;
mod records;

pub use self::command::{Command, Stdin};
pub use self::control::CommandControl;
pub use self::in_process::InProcessExecution;
pub use self::log_bridge::LogBridge;
pub use self::outcome::{CommandOutcome, CommandOutput};
pub use self::terminal::{PtySize, allow_background_output};
pub use self::validation::{ValidationResult, run_validation, validate};
pub use self::writer::OutputWriter;
pub use crate::child::OutputStream;

pub(crate) use self::agents::RunningAgent;
pub(crate) use self::foreground::{Program, foreground};
pub(crate) use self::jobs::{ForegroundGroup, JOB_REPORT_AGE, PaneJobEvent, PaneJobs};
pub(crate) use self::kernel::{
    ExitWatch, ProcessWatcher, TerminalWatch, WatchedProcess, directory, stat,
};
pub(crate) use self::listen::run_with_listener;
pub(crate) use self::patient::BlockingEmitter;
pub(crate) use self::records::{RecordPart, RecordSplitter};
pub(crate) use self::run::observe_command;
pub(crate) use self::validation::validate_until_stopped;
