//! The only module that knows tmux: servers, targets, listings, captures, the gateway and pipes.

mod id;
mod sections;
mod server;

mod unreaped;

mod state;

mod listing;

mod target;

mod counters;
mod foreground;
mod joined;
mod observers;

mod capture;
mod digest;

mod depth;
mod grid;
mod pipe;
mod schedule;

mod reply;
mod request;

mod pending;
mod probe;
mod rounds;
mod snapshot;

mod active;
mod batches;
mod server_idle;
mod shared_capture;
mod speculation;

mod client;

mod scheduler;

mod gateway;

pub use pipe::{DrainProgram, drain};
pub use schedule::{AdaptivePolling, PollSchedule};
pub use server::Server;
pub use target::Target;

// For the tests and benchmarks of this crate.
#[doc(hidden)]
pub use capture::{
    CAPTURE_ROWS_MAX, CaptureResult, CaptureSpec, PaneCapture, ResyncData, ResyncSpec, capture,
};
#[doc(hidden)]
pub use depth::{BASELINE_ROWS, Margin};
#[doc(hidden)]
pub use digest::{CaptureDigest, Freshness};
#[doc(hidden)]
pub use gateway::{Gateway, GatewayHandle};
#[doc(hidden)]
pub use id::{SessionId, WindowId};
#[doc(hidden)]
pub use listing::{ListedSession, Listing, ServerIdentity};
#[doc(hidden)]
pub use pending::PendingReply;
#[doc(hidden)]
pub use reply::{DepartedPane, PaneReply, SessionReply};
#[doc(hidden)]
pub use request::{
    CaptureRequest, ForegroundPrograms, NewPanes, PaneRequest, ReplyTime, ResyncRequest,
    SessionRequest,
};
#[doc(hidden)]
pub use state::{PaneNumbers, PaneShape, PaneState};

pub(crate) use counters::bytes_read_by;
pub(crate) use foreground::foreground_program;
#[cfg(test)]
pub(crate) use listing::tests::listing_of;
pub(crate) use observers::observer_panes;
pub(crate) use pipe::{DrainMessage, DrainOutput, Drains, DroppedBytes, PipeToken};
