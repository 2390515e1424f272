//! Reads logs: all files of a run in order, on all cores, parsing only lines that may match.
//!
//! ```text
//! query (pure):  selects events, and skips lines by their bytes
//! block:         whole lines from parts of files and from compressed files; the files of a log as blocks
//! parse (pure):  a block ─> the selected events, and the numbers of all lines
//! numbers (pure): finds the numbers that a log lacks
//! reader:        all files of a run as one iterator. Reads many blocks at once (td-read-N) if few lines are
//!                wanted, else the next blocks (td-ahead)
//! merged:        several logs as one iterator, by time
//! follow:        all files of a run, and then appended events
//! filter:        which blocks of a file cannot match a query, without reading them
//! place:         the records of a file from any position; positions by number and time, by bisection
//! pages:         a run's records in pages, in both directions
//! ```

mod query;

mod block;
mod numbers;
mod parse;

mod filter;

mod follow;
mod merged;
mod reader;

// The terminal interface and the page use them.
#[cfg(any(
    feature = "mcp",
    feature = "report",
    feature = "serve",
    feature = "tui"
))]
mod pages;
#[cfg(any(
    feature = "mcp",
    feature = "report",
    feature = "serve",
    feature = "tui"
))]
mod place;

pub(super) use block::{BLOCK_BYTES, Block, line_end, read_part};
pub(super) use filter::{FilterBuilder, has_filter, write_filter};
pub use follow::Follower;
pub use merged::{LogSource, Merged, MergedLogs};
pub use numbers::MissingEvents;
pub(super) use numbers::PromisedEnd;
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
pub(crate) use pages::Page;
#[cfg(any(
    feature = "mcp",
    feature = "report",
    feature = "serve",
    feature = "tui"
))]
pub(crate) use pages::{LogPages, PageQuery};
pub use parse::LogRecord;
pub use query::Query;
pub use reader::{LogReader, ReadReport};
pub(super) use reader::{first_numbers, last_number, without_log};
