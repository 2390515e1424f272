//! The log: every event of a run as one line of JSON, in a directory of its own, kept by one writer.
//!
//! ```text
//! any thread:      DataDir ─> RunDirectory::open ─> OpenRun (lock, file, next number)
//! the log thread:  LogWriter::attach(OpenRun), append(batch), tick(now), close_run, finish
//! td-sync:         fdatasync, the last words of metadata.json
//! td-chores:       compresses files that were closed, removes runs that are not kept
//! any thread:      LogReader, Follower: all files of a run as one log (td-read-N)
//! ```
//!
//! The log knows no bus: whoever has batches calls the writer. It owns one thread, `td-sync`,
//! described in `sync.rs`; the writer itself runs on the caller's thread and never waits for it,
//! but for [`SyncPolicy::Always`].
//!
//! A run's files: `events.jsonl` is the newest; those before it are `events.000001.jsonl.gz` and
//! so on, the oldest first, for a moment without `.gz`. Each begins with a header line.
//!
//! File descriptors, of which a process has 1024 unless its user says otherwise: at most
//! [`RUNS_MAX`] locks, one for each open run, because a lock lives as long as its descriptor;
//! [`FILES_MAX`] event files, the least recently used one is closed and opened again when it is
//! written to; as many as stand in the queue of `td-sync`; and three of
//! `td-chores`; and, with raw recordings, 64 files of theirs. Together that stays below 470. A run
//! beyond [`RUNS_MAX`] is refused and observed without a log; the limit of the process is left alone.

mod dir_handle;
mod name;

mod dir;

mod rotate;

mod find;
mod line;
mod metadata;

mod file;
mod files;
mod lock;
mod run;
mod tail;

mod active;
mod chores;
mod notice;
mod pending;
mod sync;
mod writer;

mod iteration;
mod read;

mod pace;
mod runs;

mod prune;

pub use dir::{DataDir, RUNS_MAX, RunDirectory};
pub(crate) use dir_handle::DirHandle;
pub use find::{FoundRun, RunIndex};
pub use iteration::{IterationDirectory, IterationFile, IterationText};
pub use line::parse_line;
pub use metadata::{Metadata, RunInfo, RunState, TmuxIdentity};
pub use name::{decode_name, encode_name};
pub use notice::{LogReport, LostRun, Notice, NoticeKind};
pub use pace::Pace;
pub use prune::{Pruned, Retention};
pub use read::{Follower, LogReader, Query, ReadReport, Record};
pub use rotate::Rotation;
pub use run::OpenRun;
pub use runs::{RunList, RunSummary, Standing};
pub use sync::SyncPolicy;
pub use tail::{Repair, read_tail};
pub use writer::{FILES_MAX, LogOptions, LogWriter};
