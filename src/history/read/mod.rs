//! Reads logs: all files of a run in order, on all cores, parsing only lines that may match.
//!
//! ```text
//! query (pure):                    selects events
//! line_filter, json_regex (pure):  skip lines by their bytes
//! block:                           whole lines from parts of files and from compressed files
//! parse (pure):                    a block ─> the selected events
//! source:                          the files of a log ─> blocks to read
//! pool (td-read-N):                many blocks at once, if few lines are wanted
//! ahead (td-ahead):                the next blocks, if all lines are wanted
//! reader:                          all files of a run as one iterator
//! merged:                          several logs as one iterator, by time
//! follow:                          all files of a run, and then appended events
//! seek:                            the records of a file from any position
//! place:                           positions by number and time, by bisection
//! pages:                           a run's records in pages, in both directions
//! ```

mod json_regex;
mod query;

mod line_filter;

mod block;
mod parse;
mod source;

mod ahead;
mod pool;
mod reader;

mod follow;
mod merged;

// The terminal interface uses it.
#[cfg(feature = "tui")]
mod pages;
#[cfg(feature = "tui")]
mod place;
#[cfg(feature = "tui")]
mod seek;

#[cfg(feature = "cli")]
pub(super) use block::line_end;
pub use follow::Follower;
pub use merged::{LogSource, Merged, MergedLogs};
#[cfg(feature = "tui")]
pub(crate) use pages::{LogPages, Page, PageQuery};
pub use parse::LogRecord;
pub use query::Query;
pub use reader::{LogReader, ReadReport};
