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

mod head_tail;
mod line_assembler;
mod output_batcher;
mod record_splitter;
mod utf8;

mod sink;
mod terminal;

mod command;

mod outcome;
mod start;

mod run;

mod validation;

mod in_process;
mod log_bridge;

pub use self::command::{Command, CommandControl, Stdin};
pub use self::in_process::{InProcessExecution, OutputWriter};
pub use self::log_bridge::LogBridge;
pub use self::outcome::{CommandOutcome, CommandOutput};
pub use self::terminal::{PtySize, allow_background_output};
pub use self::validation::{ValidationResult, run_validation, validate};

pub(crate) use self::agents::RunningAgent;
pub(crate) use self::foreground::{Program, foreground};
pub(crate) use self::os::{
    ExitWatch, ProcessWatcher, Stat, TerminalWatch, WatchedProcess, directory, stat,
};
pub(crate) use self::pane_jobs::{ForegroundGroup, JOB_REPORT_AGE, PaneJobEvent, PaneJobs};
pub(crate) use self::record_splitter::{RecordPart, RecordSplitter};
pub(crate) use self::run::{observe_command, run_with_listener};
pub(crate) use self::shell::is_shell;
#[cfg(feature = "cli")]
pub(crate) use self::sink::ByteSink;
#[cfg(all(feature = "cli", feature = "kernel"))]
pub(crate) use self::sink::TextEvents;
#[cfg(feature = "tui")]
pub(crate) use self::terminal::{is_typed_at, stop_own_group};
pub(crate) use self::utf8::Utf8Decoder;
pub(crate) use self::validation::validate_until_stopped;
