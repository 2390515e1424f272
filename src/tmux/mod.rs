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

pub use capture::{
    CAPTURE_ROWS_MAX, CaptureResult, CaptureSpec, PaneCapture, ResyncData, ResyncSpec, capture,
};
pub(crate) use counters::bytes_read_by;
pub use depth::{BASELINE_ROWS, Margin};
pub use digest::{CaptureDigest, Freshness};
pub(crate) use foreground::foreground_program;
pub use gateway::{Gateway, GatewayHandle};
pub use id::{SessionId, WindowId};
#[cfg(test)]
pub(crate) use listing::tests::listing_of;
pub use listing::{ListedSession, Listing, ServerIdentity};
pub(crate) use observers::observer_panes;
pub use pending::PendingReply;
pub(crate) use pipe::{DrainMessage, DrainOutput, Drains, DroppedBytes, PipeToken};
pub use pipe::{DrainProgram, drain};
pub use reply::{DepartedPane, PaneReply, SessionReply};
pub use request::{
    CaptureRequest, ForegroundPrograms, NewPanes, PaneRequest, ReplyTime, ResyncRequest,
    SessionRequest,
};
pub use schedule::{AdaptivePolling, PollSchedule};
pub use server::Server;
pub use state::{PaneNumbers, PaneShape, PaneState};
pub use target::Target;
