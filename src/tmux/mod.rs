//! The only rooms that know tmux: which server, what it holds, what is meant, what a pane shows.

mod frame;
mod id;
mod server;

mod listing;
mod state;
mod target;

mod capture;
mod counters;
mod depth;
mod foreground;
mod joined;
mod unreaped;

mod ask;
mod client;
mod gateway;
mod grid;
mod guess;
mod observers;
mod pipe;
mod plan;
mod probe;
mod question;
mod rest;
mod scheduler;
mod seen;
mod telling;
mod tempo;
mod visit;

pub use ask::{
    Left, Newcomers, PaneAnswer, Pending, Programs, SeamWish, SessionAnswer, SessionLook, Shape,
    Want, When, Wish,
};
pub use capture::{MAX_ROWS, PaneView, SeamShot, SeamView, Shot, Shown, capture};
pub(crate) use counters::bytes_read_by;
pub use depth::{BASELINE_ROWS, Margin};
pub(crate) use foreground::foreground_program;
pub use gateway::{Gateway, GatewayHandle};
pub use grid::next_tick;
pub use id::{SessionId, WindowId};
#[cfg(test)]
pub(crate) use listing::tests::listing_of;
pub use listing::{Listing, ServerIdentity, Session};
pub(crate) use observers::observer_panes;
pub(crate) use pipe::{Arrived, Drained, Drains, Dropped, Token};
pub use pipe::{DrainProgram, drain};
pub use seen::{Proof, Seen};
pub use server::Server;
pub use state::PaneState;
pub use target::Target;
pub use tempo::{Adaptive, Rhythm};
