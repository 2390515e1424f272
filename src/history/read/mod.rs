//! Reading logs: all files of a run in order, on as many cores as there are, most lines passed over unparsed.
//!
//! ```text
//! query (pure):      what is wanted
//! sieve, raw (pure): which lines may hold it, by their bytes
//! block:             whole lines out of parts of files, and out of compressed ones
//! sift (pure):       a block ─> the events that are wanted
//! pool (td-read-N):  many blocks at once
//! reader:            the files of a run one after the other, as one iterator
//! follow:            the same, and then what is written
//! ```

mod raw;

mod query;
mod sieve;

mod block;
mod sift;

mod follow;
mod pool;
mod reader;

pub use follow::Follower;
pub use query::Query;
pub use reader::{LogReader, ReadReport};
pub use sift::Record;
