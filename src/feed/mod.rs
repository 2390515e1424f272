//! The feed: the events of an observer, or of one run, readable from any position: history, then live.
//!
//! ```text
//! bus ─> td-feed: positions, board, last events ─┬─> Reader: a face in this process
//!            ^ td-others                         └─> Reader: a client of the API
//! logs ──────┴───────────────────────────────────────^ events that have left the memory
//! lane of the bus, log of the run ──────────────────> Reader::of_run: your code
//! ```
//!
//! [`Reader`] is the one way to read history and then live events; [`Reader::of_run`] reads a run of an engine.

mod position;

mod selection;
#[cfg(any(feature = "report", feature = "serve", feature = "tui"))]
mod states;

mod memory;

mod logs;

mod reader;

#[cfg(feature = "cli")]
mod others;
#[cfg(any(feature = "tui", feature = "serve"))]
mod overview;
#[cfg(feature = "cli")]
mod summary;
#[cfg(feature = "cli")]
mod survivors;

pub use reader::{Next, Reader};

#[cfg(feature = "cli")]
pub(crate) use logs::{FOLLOW_INTERVAL, LogItem, RunLogs};
#[cfg(feature = "cli")]
pub(crate) use memory::{Feed, StreamGauge};
#[cfg(feature = "cli")]
pub(crate) use others::{Others, real};
#[cfg(feature = "serve")]
pub(crate) use overview::HistoryBands;
#[cfg(feature = "tui")]
pub(crate) use overview::bands_since;
#[cfg(any(feature = "tui", feature = "serve"))]
pub(crate) use overview::latest_ended;
#[cfg(any(test, feature = "notify"))]
pub(crate) use position::Numbers;
#[cfg(feature = "cli")]
pub(crate) use position::{StreamCursor, run_hash};
#[cfg(feature = "cli")]
pub(crate) use reader::StartPoint;
#[cfg(feature = "cli")]
pub(crate) use selection::Selection;
#[cfg(feature = "report")]
pub(crate) use states::RunStates;
#[cfg(feature = "report")]
pub(crate) use summary::RunEnds;
#[cfg(feature = "redis")]
pub(crate) use summary::board_of_copies;
#[cfg(any(feature = "mcp", feature = "serve"))]
pub(crate) use summary::ended_rows;
#[cfg(feature = "cli")]
pub(crate) use summary::{board_of_history, summary_of};
