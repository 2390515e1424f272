//! The only module that knows tmux: servers, targets, listings, captures, the gateway and pipes.

pub(crate) mod server;

pub(crate) mod state;

pub(crate) mod listing;

mod target;

mod procfs;

pub(crate) mod capture;
pub(crate) mod digest;

mod pipe;
mod schedule;

pub(crate) mod request;

mod active;

mod client;

pub(crate) mod gateway;

#[cfg(any(feature = "notify", feature = "tui"))]
mod message;
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
    digest::{BASELINE_ROWS, CaptureDigest, Freshness, Margin},
    gateway::{Gateway, GatewayHandle},
    listing::{ListedClient, ListedSession, Listing, ServerIdentity},
    request::{
        CaptureRequest, DepartedPane, ForegroundPrograms, PaneReply, PaneRequest, PendingReply,
        ResyncRequest, SessionReply, SessionRequest, received,
    },
    state::{GivenNames, PaneState, SessionId},
};

#[cfg(test)]
pub(crate) use listing::tests::listing_of;
#[cfg(feature = "tui")]
pub(crate) use message::Viewer;
#[cfg(any(feature = "notify", feature = "tui"))]
pub(crate) use message::Viewers;
pub(crate) use pipe::{DrainMessage, DrainOrder, DrainOutput, Drains, DroppedBytes, PipeToken};
pub(crate) use procfs::{
    PROGRAM, bytes_read_by, foreground_directory, pane_in_front, self_showing, terminals_behind,
};
#[cfg(feature = "cli")]
pub(crate) use {
    screen::PaneScreen,
    typing::{Look, Moment, Permission, Typing},
};
