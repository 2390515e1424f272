//! The commands of a pane's shell. The shell's marks (OSC 133) give the command line and its exact
//! status; the kernel gives the processes and their lifetimes.

use std::time::{Duration, Instant};

use crate::event::{ExecutionId, PaneId, TdEvent};
use crate::track::ProcessExit;

/// An event of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandEvent {
    /// The job has lived long enough to be reported.
    Started {
        /// The process group, if the kernel shows one.
        pid: Option<u32>,
        command: String,
        cwd: String,
    },
    /// The job has ended.
    Completed {
        pid: Option<u32>,
        exit_code: Option<i32>,
        signal: Option<i32>,
        took: Duration,
    },
}

impl CommandEvent {
    /// Returns the end of a job. The status that the shell marked takes precedence over the kernel's;
    /// the kernel's signal is added if both agree.
    pub fn completed(
        pid: Option<u32>,
        marked: Option<i32>,
        end: Option<ProcessExit>,
        took: Duration,
    ) -> Self {
        // The kernel's end as shells state it: 128 and the signal.
        let known = end.and_then(ProcessExit::exit_status);
        let is_same = marked.is_none() || marked == known;
        Self::Completed {
            pid,
            exit_code: marked.or(known),
            signal: end.and_then(|end| end.signal).filter(|_| is_same),
            took,
        }
    }

    /// Returns the event of the pane's run.
    pub fn into_event(self, execution_id: &ExecutionId, pane: &PaneId) -> TdEvent {
        let (execution_id, pane) = (execution_id.clone(), Some(pane.clone()));
        match self {
            Self::Started { pid, command, cwd } => TdEvent::ExecutionStarted {
                execution_id,
                command,
                cwd,
                pane,
                pid,
                cell: None,
                verification: None,
            },
            Self::Completed {
                pid,
                exit_code,
                signal,
                took,
            } => TdEvent::ExecutionCompleted {
                execution_id,
                exit_code,
                signal,
                duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                pane,
                pid,
                cell: None,
            },
        }
    }
}

/// A command line that the shell has marked as started.
#[derive(Debug)]
pub(super) struct CommandLine {
    /// The command line as typed; empty if unknown.
    pub command: String,
    pub cwd: String,
    pub since: Instant,
    pub state: LineState,
    /// The end of its process group, as the kernel reports it.
    pub end: Option<ProcessExit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineState {
    /// The command has not lived long enough to be reported.
    New,
    /// Its start was emitted, with this process group.
    Emitted(Option<u32>),
    /// Not an execution of its own: it continues a job (`fg`), or is an interactive shell.
    PassedOver,
}
