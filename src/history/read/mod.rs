//! Reads logs: all files of a run in order, on all cores, parsing only lines that may match.
//!
//! ```text
//! query (pure):      what is wanted
//! filter, raw (pure): which lines may hold it, by their bytes
//! block:             whole lines out of parts of files, and out of compressed ones
//! sift (pure):       a block ─> the events that are wanted
//! pool (td-read-N):  many blocks at once
//! reader:            the files of a run one after the other, as one iterator
//! follow:            the same, and then what is written
//! ```

mod json_regex;
mod query;

mod line_filter;

mod block;
mod parse;

mod pool;
mod reader;

mod follow;

pub use follow::Follower;
pub use parse::LogRecord;
pub use query::Query;
pub use reader::{LogReader, ReadReport};
