//! The API of the observer: its feed, board, runs and panes over a Unix socket, and its client.
//!
//! The server speaks HTTP/1.1 with JSON; the paths are in [`routes`]. Faces use [`exchange`] and [`client`],
//! which resumes its stream after a broken connection.

mod chunked;
mod liveness;
pub(crate) mod request;
mod seen;
mod slots;

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

mod access;

pub(crate) use access::Observer;
pub(crate) use client::{EventReader, EventSource, Unavailable};
pub(crate) use context::ApiContext;
pub(crate) use exchange::{get, get_board, position, post};
pub(crate) use panes::{ObservedServer, Panes};
pub(crate) use request::percent_encoded;
pub(crate) use routes::Routes;
pub(crate) use server::Server;
pub(crate) use slots::Slots;
pub(crate) use socket::socket_path;
