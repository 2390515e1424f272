//! Commands that this program runs, with their output as it is printed; and jobs of other programs, with
//! their exits.
//!
//! ```text
//! command ─start─> child (own group) ─bytes─> lines (pure) ─> batcher (pure) ─> callback, events
//!                                        ├──> record splitter (pure): an agent's records ──> events
//!                                        └──> head and tail (pure): CommandOutput
//! ```
//!
//! The calling thread runs a command to its end: it reads both outputs, enforces the limits and terminates
//! the group, without further threads. The module knows nothing about the command except the format of its
//! output, if it is set.
//!
//! For processes of other programs, the module finds the foreground group of their terminal, and their exit
//! status if the operating system reports it.
//!
//! Work of this program itself is emitted with the same events: [`InProcessExecution`] has writers for its
//! output, and [`LogBridge`] emits log records.

mod os;

mod agents;
mod shell;

mod pane_jobs;

mod foreground;

mod output;
mod questions;
mod record_splitter;
mod redraws;

mod status_query;
mod terminal;

mod command;

mod run;

mod in_process;

pub use self::command::{Command, CommandControl, CommandOutcome, CommandOutput, Stdin};
pub use self::in_process::{InProcessExecution, LogBridge, OutputWriter};
pub use self::run::{ValidationResult, run_validation, validate};
pub use self::terminal::{PtySize, allow_background_output};

pub(crate) use self::agents::{Presence, RunningAgent};
#[cfg(any(feature = "cli", feature = "kernel"))]
pub(crate) use self::command::ByteSink;
pub(crate) use self::foreground::{Front, Program, foreground};
#[cfg(feature = "cli")]
pub(crate) use self::os::age;
#[cfg(feature = "cli")]
pub(crate) use self::os::ancestors;
#[cfg(feature = "mcp")]
pub(crate) use self::os::variable as variable_of;
pub(crate) use self::os::{
    ExitWatch, ProcessWatcher, Stat, TerminalWatch, WatchedProcess, arguments, directory,
    name as process_name, stat,
};
#[cfg(feature = "kernel")]
pub(crate) use self::output::TextBatch;
#[cfg(feature = "cli")]
pub(crate) use self::output::{BATCH_BYTES, LineLimit};
pub(crate) use self::pane_jobs::{ForegroundGroup, JOB_REPORT_AGE, PaneJobEvent, PaneJobs};
pub(crate) use self::record_splitter::{RecordPart, RecordSplitter};
#[cfg(feature = "kernel")]
pub(crate) use self::run::TextEvents;
pub(crate) use self::run::{observe_command, run_with_listener, validate_until_stopped};
pub(crate) use self::shell::{is_shell, runs_script};
#[cfg(feature = "cli")]
pub(crate) use self::terminal::is_typed_at;
#[cfg(feature = "tui")]
pub(crate) use self::terminal::stop_own_group;
