//! The only module that knows tmux: servers, targets, listings, captures, the gateway and pipes.

mod capture_counter;
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
mod speculation;

mod snapshot;

mod active;
mod batches;
mod server_idle;

mod client;

mod scheduler;

mod gateway;

#[cfg(feature = "cli")]
mod screen;
#[cfg(feature = "cli")]
mod typing;
#[cfg(feature = "tui")]
mod visit;

pub use pipe::{DrainProgram, drain};
pub use schedule::{AdaptivePolling, PollSchedule};
pub use server::Server;
pub use target::Target;

// For the tests and benchmarks of this crate.
#[doc(hidden)]
pub use self::{
    capture::{
        CAPTURE_ROWS_MAX, CaptureResult, CaptureSpec, PaneCapture, ResyncData, ResyncSpec, capture,
    },
    depth::{BASELINE_ROWS, Margin},
    digest::{CaptureDigest, Freshness},
    gateway::{Gateway, GatewayHandle},
    id::{SessionId, WindowId},
    listing::{ListedSession, Listing, ServerIdentity},
    pending::PendingReply,
    reply::{DepartedPane, PaneReply, SessionReply},
    request::{
        CaptureRequest, ForegroundPrograms, NewPanes, PaneRequest, ReplyTime, ResyncRequest,
        SessionRequest,
    },
    state::PaneState,
};

pub(crate) use counters::bytes_read_by;
pub(crate) use foreground::foreground_program;
#[cfg(test)]
pub(crate) use listing::tests::listing_of;
pub(crate) use observers::observer_panes;
pub(crate) use pending::received;
pub(crate) use pipe::{DrainMessage, DrainOutput, Drains, DroppedBytes, PipeToken};
#[cfg(feature = "cli")]
pub(crate) use {
    capture::parse_with_mark as parse_captures, listing::parse_with_mark as parse_listing,
    screen::PaneScreen, typing::Typing,
};
