//! The only module that knows tmux: servers, targets, listings, captures, the gateway and pipes.

mod capture_counter;
pub(crate) mod id;
pub(crate) mod sections;
mod server;

pub(crate) mod state;

pub(crate) mod listing;

mod target;

mod counters;
mod foreground;
mod joined;
mod observers;

pub(crate) mod capture;
pub(crate) mod digest;

pub(crate) mod depth;
mod grid;
mod pipe;
mod schedule;

pub(crate) mod reply;
pub(crate) mod request;

pub(crate) mod pending;
mod probe;
mod rounds;
mod speculation;

mod snapshot;

mod active;
mod batches;
mod server_idle;

mod client;

mod scheduler;

pub(crate) mod gateway;

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

pub(crate) use self::{
    capture::{PaneCapture, ResyncData, ResyncSpec},
    depth::{BASELINE_ROWS, Margin},
    digest::{CaptureDigest, Freshness},
    gateway::{Gateway, GatewayHandle},
    id::SessionId,
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
pub(crate) use {screen::PaneScreen, typing::Typing};
