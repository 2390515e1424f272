//! The history of runs: each run has a directory with all its events as JSON Lines and a single writer.
//!
//! ```text
//! any thread:      DataDir ─> RunDirectory::open ─> OpenRun (lock, file, next number)
//! the log thread:  LogWriter::attach(OpenRun), append(batch), tick(now), close_run, finish
//! td-sync:         fdatasync, the final metadata.json
//! td-chores:       compresses closed files and writes their filters, removes runs that are not retained
//! any thread:      LogReader, Follower: all files of a run as one log (td-read-N)
//! ```
//!
//! The module does not depend on the bus: the caller passes batches to `LogWriter`. The writer runs on its
//! caller's thread, owns the threads `td-sync` and `td-chores`, and never waits for them, except with
//! [`SyncPolicy::Always`].
//!
//! `events.jsonl` is the newest file of a run. Earlier files are `events.000001.jsonl.gz` and so on, oldest
//! first; a file has no `.gz` until it is compressed. Each file begins with a header line. `events.000001.filter` and
//! `events.filter` tell searches which blocks of a file to skip; they may be missing, and are only believed as long as
//! the file does not change.
//!
//! A process has 1024 file descriptors by default. This module and `recording` use fewer than 470: at most
//! `RUNS_MAX` locks, one for each open run, because a lock lives as long as its descriptor; `FILES_MAX`
//! event files, of which the least recently used one is closed when another one is needed; one for each job
//! in the queue of `td-sync`; three in `td-chores`; and 64 raw recordings. A run beyond `RUNS_MAX` is
//! refused, and its execution is observed without a log. The limit of the process is not changed.

pub(crate) mod line;
pub(crate) mod name;
mod replay_pace;
mod rotate;

pub(crate) mod tail;

mod dir_handle;

mod metadata;

mod dir;
mod events_file;

#[cfg_attr(
    not(feature = "cli"),
    allow(dead_code, reason = "summaries need the other readers")
)]
mod events_after;
mod iteration;
mod read;

#[cfg(feature = "hosts")]
mod copy;
#[cfg(feature = "hosts")]
mod copy_source;
pub(crate) mod open_run;
#[cfg(feature = "cli")]
mod run_changes;

mod runs;

pub(crate) mod background;

mod active_run;

pub(crate) mod writer;

pub(crate) use background::LogNoticeKind;
pub use background::{LogNotice, LogReport, LostRun, SyncPolicy};
#[cfg(feature = "hosts")]
pub(crate) use copy::RunCopy;
#[cfg(feature = "hosts")]
pub(crate) use copy_source::{CopySource, SharedCopySource};
pub(crate) use dir::numbered;
pub use dir::{DataDir, RunDirectory};
pub(crate) use dir_handle::DirHandle;
#[cfg(feature = "cli")]
pub(crate) use dir_handle::TrustedOwner;
#[cfg(any(feature = "cli", feature = "kernel"))]
pub(crate) use dir_handle::read_trusted_file;
pub(crate) use iteration::{IterationDirectory, IterationFile, IterationText};
#[cfg(feature = "cli")]
pub(crate) use line::parse_line;
#[cfg(feature = "hosts")]
pub(crate) use metadata::SESSION;
pub(crate) use metadata::{IN_PANE, host};
pub use metadata::{RunInfo, RunKind, RunMetadata, RunState, TmuxIdentity};
pub(crate) use name::{fnv1a, glob_matches, is_glob};
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
pub(crate) use read::Page;
pub use read::{
    Follower, LogReader, LogRecord, LogSource, Merged, MergedLogs, MissingEvents, Query, ReadReport,
};
#[cfg(any(
    feature = "mcp",
    feature = "report",
    feature = "serve",
    feature = "tui"
))]
pub(crate) use read::{LogPages, PageQuery};
pub use replay_pace::ReplayPace;
pub use rotate::Rotation;
#[cfg(feature = "cli")]
pub(crate) use run_changes::{Change, RunChanges};
pub use runs::{Pruned, Retention, RunList, RunStatus, RunSummary};
pub(crate) use tail::read_tail;

// The engine's side of the module.
pub(crate) use name::{decode_name, encode_name};
pub(crate) use open_run::{OpenRun, RunIndex};
pub(crate) use writer::{LogOptions, LogWriter};
