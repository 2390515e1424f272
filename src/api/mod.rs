//! The API of the observer: board, runs and events over a Unix socket, and its client.
//!
//! ```text
//! bus ─> td-hub: positions, board, last events ─┬─> td-api-1 ─> a face
//!           ^ td-others                         └─> td-api-2 ─> curl
//! logs ─────┴──────────────────────────────────────^ events that have left the hub
//! ```
//!
//! The server speaks HTTP/1.1 with JSON; the paths are in [`routes`]. Faces use [`exchange`] and [`client`],
//! which resumes its stream after a broken connection.

mod chunked;
pub(crate) mod cursor;
mod gauges;
mod journal;
mod liveness;
pub(crate) mod request;
mod seen;
mod slots;

mod hub;
mod others;
mod summary;

mod history;
mod selection;
mod stream;

mod response;
mod socket;

mod client_message;
mod events;
mod ws;

mod metrics;

mod panes;
mod states;

mod context;
mod input;
mod screen;
mod wait;

mod routes;

mod server;

pub(crate) mod exchange;

mod client;

pub(crate) use client::{EventReader, NoItem, Streamed};
pub(crate) use context::ApiContext;
pub(crate) use exchange::{get, get_board, post};
pub(crate) use hub::Hub;
pub(crate) use others::Others;
pub(crate) use others::real;
pub(crate) use panes::{ObservedServer, Panes};
pub(crate) use request::percent_encoded;
pub(crate) use routes::Routes;
pub(crate) use server::Server;
pub(crate) use slots::Slots;
pub(crate) use socket::socket_path;
#[cfg(feature = "tui")]
pub(crate) use summary::ended_rows;
pub(crate) use summary::{Unobserved, board_of_history, summary_of};
